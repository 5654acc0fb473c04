"""Opening what was found, never through a link: one that was put in place since the search leads nowhere."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from carrel.directory import Directory

NAMES_DESCRIPTORS = os.path.isdir("/dev/fd")
"""Whether another program can be given a descriptor as a path."""


@contextmanager
def opened(root: str, paths: list[str]) -> Generator[dict[str, int]]:
    """Descriptors of those paths that are regular files still."""
    files: dict[str, int] = {}
    directory = Directory(root)
    try:
        for path in paths:
            if (descriptor := _opened(directory, path)) is not None:
                files[path] = descriptor
        yield files
    finally:
        for descriptor in files.values():
            os.close(descriptor)


def _opened(directory: Directory, path: str) -> int | None:
    try:
        descriptor = directory.open(path)
    except OSError:
        return None  # gone, not ours to read any more, or a link by now
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
