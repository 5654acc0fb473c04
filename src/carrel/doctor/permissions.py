"""Who else on this machine can read what is kept."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from carrel.doctor.checks import Finding, Subject, ok, warning
from carrel.settings import FILE_NAME
from carrel.storage.location import SqliteLocation

OTHERS = stat.S_IRWXO


def permissions(subject: Subject) -> Iterator[Finding]:
    if os.name != "posix":
        yield ok("permissions", "not looked at on this system")
        return
    workspace = subject.workspace
    own = workspace.own_folder
    open_ones: list[tuple[Path, str, str]] = []
    if _is_open(own):
        open_ones.append((own, "everybody on this machine can look into", f"chmod -R o-rwx {own}"))
    location = workspace.location
    if isinstance(location, SqliteLocation) and own not in location.path.parents:
        open_ones += [
            (path, "everybody on this machine can read", f"chmod o-rwx {path}")
            for path in (location.path, Path(f"{location.path}-wal"))
            if _is_open(path)
        ]
    settings_file = workspace.folder / FILE_NAME
    if _is_open(settings_file) and _has_password(workspace.settings.database.url):
        why = "everybody on this machine can read the password in"
        open_ones.append((settings_file, why, f"chmod o-rwx {settings_file}, or give CARREL_DATABASE_URL instead"))
    for path, seen, cure in open_ones:
        yield warning("permissions", f"{seen} {path}", cure)
    if not open_ones:
        yield ok("permissions", "only this user and its group can read what is kept here")


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False


def _has_password(url: str) -> bool:
    user, separator, _ = url.partition("://")[2].rpartition("@")
    return bool(separator) and ":" in user
