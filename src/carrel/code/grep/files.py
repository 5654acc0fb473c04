"""Opening what was found, never through a link: one that was put in place since the search leads nowhere."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
NAMES_DESCRIPTORS = os.path.isdir("/dev/fd")
"""Whether another program can be given a descriptor as a path."""


@contextmanager
def opened(root: str, paths: list[str]) -> Generator[dict[str, int]]:
    """Descriptors of those paths that are regular files still."""
    files: dict[str, int] = {}
    try:
        for path in paths:
            if (descriptor := _opened(root, path)) is not None:
                files[path] = descriptor
        yield files
    finally:
        for descriptor in files.values():
            os.close(descriptor)


def _opened(root: str, path: str) -> int | None:
    try:
        descriptor = _from_root(root, path) if _BY_DESCRIPTOR else _by_path(root, path)
    except OSError:
        return None  # gone, or not ours to read any more
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _from_root(root: str, path: str) -> int:
    *folders, name = path.split("/")
    folder = os.open(root, _FOLDER)
    try:
        for each in folders:
            inner = os.open(each, _FOLDER | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name, _FILE | _NO_LINK, dir_fd=folder)
    finally:
        os.close(folder)


def _by_path(root: str, path: str) -> int:
    whole = os.path.join(os.path.realpath(root), *path.split("/"))
    if os.path.realpath(whole) != whole:
        raise FileNotFoundError(path)
    return os.open(whole, _FILE)
