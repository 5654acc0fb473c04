"""Opening what was found, never through a link: one that was put in place since the search leads nowhere."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from carrel.code.opening import Reason, open_beneath

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
        descriptor = open_beneath(root, path)
    except OSError:
        return None  # gone, or not ours to read any more
    if isinstance(descriptor, Reason):
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
