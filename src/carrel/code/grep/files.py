"""Opening what was found, never through a link: one that was put in place since the search leads nowhere."""

import os
import stat
from collections.abc import Generator, Iterable
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


def changed_folders(root: str, paths: Iterable[str], since: int) -> set[str]:
    """The folders of files in which, or above which, a name came, went or was replaced since a time in nanoseconds.

    A program that walks the tree by names may have been led out of it there, by a link in place of a folder; that the
    folder is back leaves its mark, too.
    """
    folders = {""}
    for folder in {path.rpartition("/")[0] for path in paths}:
        above = folder
        while above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    changed: set[str] = set()
    for folder in sorted(folders):  # each after those that it is in
        if folder and folder.rpartition("/")[0] in changed:
            changed.add(folder)
            continue
        try:
            found = os.lstat(os.path.join(root, folder)) if folder else os.stat(root)  # which may be a link itself
        except OSError:
            changed.add(folder)
            continue
        if not stat.S_ISDIR(found.st_mode) or max(found.st_mtime_ns, found.st_ctime_ns) >= since:
            changed.add(folder)
    return changed


def _opened(directory: Directory, path: str) -> int | None:
    try:
        descriptor = directory.open(path)
    except OSError:
        return None  # gone, not ours to read any more, or a link by now
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
