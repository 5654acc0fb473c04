"""Checks of a SQLite database, without changing the file or creating a journal next to it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from carrel.doctor.checks import CheckContext, Finding, has_access, megabytes, ok, problem, warning
from carrel.errors import StoreError, StoreTimeout
from carrel.storage.database import SqliteLocation
from carrel.storage.schema_version import HEAD, is_newer, mismatch
from carrel.storage.sqlite import SQLITE_VERSION, Connection, open_unchanged, statement_deadline

LOW_DISK_BYTES = 200 * 2**20
MIN_DISK_BYTES = 20 * 2**20
QUICK_CHECK_TIMEOUT_SECONDS = 3.0
MAX_FAULTS = 1


def database(_context: CheckContext, location: SqliteLocation) -> Iterator[Finding]:
    path = location.path
    if not path.exists():
        yield from _missing_file(path)
        return
    yield from _writable(path)
    yield from _space(path.parent, path.stat().st_size)
    try:
        with open_unchanged(path) as connection:
            yield from _schema(connection)
            yield from _integrity(connection, path)
    except StoreError as error:
        yield problem("database", f"{path} cannot be used: {error}", _restore(path))


def _missing_file(path: Path) -> Iterator[Finding]:
    parent = next(each for each in path.parents if each.exists())
    if parent.is_dir() and has_access(parent, os.W_OK | os.X_OK) and not _is_read_only(parent):
        yield ok("database", f"SQLite {SQLITE_VERSION}; {path} will be created by the first start")
        yield from _space(parent, 0)
    else:
        yield problem(
            "database",
            f"{path} does not exist and cannot be created: {parent} is not writable",
            f"chown -R $(id -un) {parent}, or set database.url to a file in a writable folder",
        )


def _writable(path: Path) -> Iterator[Finding]:
    """Check that the file and its folder are writable: SQLite creates its journal next to the file."""
    for each, mode in ((path, os.R_OK | os.W_OK), (path.parent, os.W_OK | os.X_OK)):
        if _is_read_only(each):
            yield problem(
                "database",
                f"{each} is on a read-only file system",
                f"mount -o remount,rw {_mount_point(each)}, or set database.url to a file elsewhere",
            )
            return
        if not has_access(each, mode):
            yield problem(
                "database",
                f"{each} is not {'writable' if has_access(each, os.R_OK) else 'readable'} by this user",
                f"chown $(id -un) {each} && chmod u+rw{'x' if each.is_dir() else ''} {each}",
            )
            return
    size = sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists())
    yield ok("database", f"SQLite {SQLITE_VERSION}, {path}, {megabytes(size)}, writable")


def _is_read_only(path: Path) -> bool:
    return os.name == "posix" and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _mount_point(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.is_mount())


def _space(folder: Path, size: int) -> Iterator[Finding]:
    free = shutil.disk_usage(folder).free
    seen = f"{megabytes(free)} free at {folder}"
    cure = f"free some space on the disk that holds {folder}"
    if free < MIN_DISK_BYTES:
        yield problem("disk", f"{seen}: writes will fail", cure)
    elif free < LOW_DISK_BYTES:
        yield warning("disk", seen, cure)
    elif free < size:
        yield warning("disk", f"{seen}: an upgrade needs {megabytes(size)} for a backup of the database", cure)
    else:
        yield ok("disk", seen)


def _schema(connection: Connection) -> Iterator[Finding]:
    has_any = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if has_any else None
    yield migrations(row[0] if row else None, upgrades_itself=True)


def migrations(revision: str | None, mark: str | None = None, *, upgrades_itself: bool) -> Finding:
    found = mismatch(revision, mark)
    if found is None and is_newer(revision):
        seen = f"the schema is at revision {revision} of a newer Carrel, which this version can still use"
        return warning("migrations", seen, "pip install --upgrade carrel")
    if found is None:
        return ok("migrations", f"the schema is at revision {HEAD}, which this version needs")
    seen, _, cure = found.rpartition(": run ")
    if is_newer(revision):
        return problem("migrations", found.partition("; run ")[0], "pip install --upgrade carrel")
    if upgrades_itself:
        return warning("migrations", f"{seen}; a server does that when it starts", "carrel db upgrade")
    return problem("migrations", seen or found, cure or "carrel db upgrade")


def _integrity(connection: Connection, path: Path) -> Iterator[Finding]:
    """Run quick_check within a time limit."""
    try:
        with statement_deadline(connection, QUICK_CHECK_TIMEOUT_SECONDS):
            faults = [row[0] for row in connection.execute(f"PRAGMA quick_check({MAX_FAULTS})") if row[0] != "ok"]
    except StoreTimeout:
        yield ok(
            "integrity",
            f"no damage found within {QUICK_CHECK_TIMEOUT_SECONDS:g} s; carrel db check checks the whole file",
        )
        return
    if faults:
        seen = f"{path} is damaged: {' '.join(faults[0].split())}"
        yield problem("integrity", seen, _restore(path))
    else:
        yield ok("integrity", "quick_check finds no damage")


def _restore(path: Path) -> str:
    return f"stop the servers, then: mkdir damaged && mv {path}* damaged && carrel db restore BACKUP"
