"""Where a demo is put, and whether it may be taken away again."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from carrel.errors import UsageError

NAME = "carrel-demo"
MARK = ".carrel-demo"
"""A file in the folder that says what it is. Whoever uses the folder holds it locked."""


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`carrel-demo` where the user's programs keep what they can do without; a new temporary one where there is no
    such place."""
    for place in _cache_places(environment):
        with suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return place / NAME
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-"))


def _cache_places(environment: Mapping[str, str]) -> Generator[Path]:
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        given = Path(environment.get(variable, ""))
        if given.is_absolute():
            yield given
    with suppress(RuntimeError):  # nobody knows where home is
        yield Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def is_demo(folder: Path) -> bool:
    return (folder / MARK).is_file()


def refuse_other(folder: Path) -> None:
    """A folder of something else is not to be filled."""
    if folder.is_dir() and any(folder.iterdir()) and not is_demo(folder):
        raise UsageError(f"--folder: {folder} is not empty and holds no demo; name another folder")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--folder: {folder} is no folder")


@contextmanager
def in_use(folder: Path, *, remove: bool) -> Generator[None]:
    """While the demo runs. Afterwards the folder is removed, if it is to be and no other demo uses it."""
    with (folder / MARK).open("a", encoding="utf-8") as mark:
        _lock(mark, alone=False)
        try:
            yield
        finally:
            if remove and _lock(mark, alone=True):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(mark: IO[str], *, alone: bool) -> bool:
    if sys.platform == "win32":
        return alone  # there a folder in use cannot be removed anyway
    import fcntl

    try:
        fcntl.flock(mark, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
