"""Files beneath a folder, reached one name at a time from a descriptor and never through a link.

Between the check of a path and its opening, somebody may put a link in its place. So every folder on the way is opened
from the one before it without following links, and files are opened, made, renamed and removed from the descriptor of
the folder that they are in. Nothing that others do meanwhile can lead out of the folder.

The folder itself is opened anew for each use: a held descriptor would keep its disk from being unmounted, and would
still mean the old folder after another one has taken its place.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

_HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | _CLOSE_ON_EXEC
_FOLDER_FLAGS = getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_TRAVERSE_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | _FOLDER_FLAGS
_LIST_FLAGS = os.O_RDONLY | _FOLDER_FLAGS
_BINARY = getattr(os, "O_BINARY", 0)
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | _BINARY | _NO_FOLLOW
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY | _NO_FOLLOW
_NOT_NAMES = frozenset(("", ".", ".."))

UNSUPPORTED = frozenset((errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM))
"""What a file system answers that cannot exchange files, or link them."""

MAX_PATH_LENGTH = 4096
"""Characters of a path; no system opens longer ones at once."""

_NOREPLACE, _EXCHANGE = 1, 2


class LinkFound(OSError):
    """A symbolic link was found in place of a folder or file."""


class NotRegular(OSError):
    """A folder, device or the like was found in place of a file."""


class Directory:
    """A folder as the only way to its files. Paths are relative, with `/`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(path)
        self._prefix = self.path.rstrip(os.sep) + os.sep

    def folder(self, relative: str = "", *, listed: bool = False) -> "Folder":
        """Open the folder at a path; `listed` if its entries are needed. Raises `OSError`."""
        folder = self._open_root(listed=listed and not relative)
        names = _names(relative)
        for place, name in enumerate(names, 1):
            with folder:
                folder = folder.open_folder(name, listed=listed and place == len(names))
        return folder

    def make(self, relative: str) -> "Folder":
        """Open the folder at a path, creating missing ones. Raises `OSError`."""
        folder = self._open_root(listed=False)
        for name in _names(relative):
            with folder:
                try:
                    inner = folder.open_folder(name)
                except FileNotFoundError:
                    folder.mkdir(name)
                    inner = folder.open_folder(name)
                folder = inner
        return folder

    def open(self, relative: str) -> int:
        """Open a regular file for reading, without following links. Raises `OSError`."""
        folder, name = split_path(relative)
        with self.folder(folder) as opened:
            mode = opened.lstat(name).st_mode  # a device is not even opened
            if stat.S_ISLNK(mode):
                raise _link_error(name)
            if not stat.S_ISREG(mode):
                raise NotRegular(errno.EINVAL, "not a regular file", name)
            return opened.open(name)

    def target(self, relative: str) -> str | None:
        """Return where a path leads once links are followed; None if that is outside or missing."""
        try:
            found = os.path.realpath(os.path.join(self.path, *_names(relative)), strict=True)
        except (OSError, ValueError):
            return None
        return found[len(self._prefix) :].replace(os.sep, "/") if found.startswith(self._prefix) else None

    def _open_root(self, *, listed: bool) -> "Folder":
        return Folder(
            self.path, os.open(self.path, _LIST_FLAGS if listed else _TRAVERSE_FLAGS) if _HAS_DIR_FD else None
        )


class Folder:
    """An open folder: operations stay in it even if it is moved meanwhile."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        """Without a descriptor, where the system cannot open names from one, the path has to stand for it."""
        self._path = path
        self._descriptor = descriptor
        if descriptor is None:
            if os.path.realpath(path) != path:
                raise _link_error(path)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def open_folder(self, name: str, *, listed: bool = False) -> "Folder":
        """Open a folder in this one without following a link."""
        path = os.path.join(self._path, name)
        if self._descriptor is None:
            return Folder(path, None)
        try:
            return Folder(path, os.open(name, _LIST_FLAGS if listed else _TRAVERSE_FLAGS, dir_fd=self._descriptor))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(self.lstat(name).st_mode):
                raise _link_error(name) from error
            raise

    def entries(self) -> "Iterator[os.DirEntry[str]]":
        """Yield the entries of a folder that was opened with `listed`."""
        with os.scandir(self._path if self._descriptor is None else self._descriptor) as entries:
            yield from entries

    def lstat(self, name: str) -> os.stat_result:
        """Return the status of a name, not following a link."""
        return os.stat(self._argument(name), dir_fd=self._descriptor, follow_symlinks=False)

    def open(self, name: str) -> int:
        """Open anything but a link for reading. Raises `OSError`."""
        try:
            descriptor = os.open(self._argument(name), _READ_FLAGS, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _link_error(name) from error
            raise
        if self._descriptor is None and not self._is_file_at(descriptor, name):
            os.close(descriptor)
            raise _link_error(name)
        return descriptor

    def create(self, name: str) -> int:
        """Create a file, open for reading and writing. Raises `FileExistsError`."""
        return os.open(self._argument(name), _CREATE_FLAGS, 0o666, dir_fd=self._descriptor)

    def mkdir(self, name: str) -> None:
        """Create a folder, unless another process has just done so."""
        with suppress(FileExistsError):
            os.mkdir(self._argument(name), dir_fd=self._descriptor)

    def rmdir(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._argument(name), dir_fd=self._descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._argument(name), dir_fd=self._descriptor)

    def discard(self, name: str) -> None:
        """Remove a file that may be gone already."""
        with suppress(FileNotFoundError):
            self.unlink(name)

    def replace(self, name: str, new_name: str) -> None:
        """Rename a file, over another if there is one."""
        os.replace(
            self._argument(name), self._argument(new_name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
        )

    def move(self, name: str, to: "Folder", new_name: str) -> None:
        """Rename a file; raises `FileExistsError` where another has the new name."""
        if self._descriptor is None or to._descriptor is None:
            os.rename(self._argument(name), to._argument(new_name))  # as Windows does it
            return
        try:
            _renameat2(self._descriptor, name, to._descriptor, new_name, _NOREPLACE)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            self._move_by_link(name, to, new_name)

    def exchange(self, name: str, other: str) -> None:
        """Exchange two files atomically. Raises `OSError`, one of `UNSUPPORTED` where the system cannot."""
        if self._descriptor is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        _renameat2(self._descriptor, name, self._descriptor, other, _EXCHANGE)

    def sync(self) -> None:
        """Flush the folder, so that its file names survive a crash."""
        if self._descriptor is None or os.name == "nt":
            return  # Windows has no way to
        try:
            descriptor = os.open(".", os.O_RDONLY | _CLOSE_ON_EXEC, dir_fd=self._descriptor)
        except PermissionError:
            return  # a folder that may be written and not listed
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        finally:
            os.close(descriptor)

    def is_same(self, name: str, to: "Folder", new_name: str) -> bool:
        """Whether two names mean one file, as on a case-insensitive disk."""
        try:
            return os.path.samestat(self.lstat(name), to.lstat(new_name))
        except FileNotFoundError:
            return False

    def rename(self, name: str, to: "Folder", new_name: str) -> None:
        """Rename a file, over another if there is one."""
        os.replace(self._argument(name), to._argument(new_name), src_dir_fd=self._descriptor, dst_dir_fd=to._descriptor)

    def _move_by_link(self, name: str, to: "Folder", new_name: str) -> None:
        try:
            os.link(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=to._descriptor, follow_symlinks=False)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            # A file system without links: reserve the name first, so that nothing is overwritten.
            os.close(to.create(new_name))
            try:
                self.rename(name, to, new_name)
            except OSError:
                to.unlink(new_name)
                raise
        else:
            self.unlink(name)

    def _argument(self, name: str) -> str:
        if self._descriptor is not None:
            return name
        if name in _NOT_NAMES or os.sep in name:
            raise FileNotFoundError(errno.ENOENT, "no name in a folder", name)
        return os.path.join(self._path, name)

    def _is_file_at(self, descriptor: int, name: str) -> bool:
        whole = os.path.join(self._path, name)
        return os.path.realpath(whole) == whole and os.path.samestat(os.fstat(descriptor), os.lstat(whole))


def split_path(relative: str) -> tuple[str, str]:
    """Split a path into its folder, with a final slash unless at the top, and its name."""
    place = relative.rfind("/") + 1
    return relative[:place], relative[place:]


def _names(relative: str) -> list[str]:
    names = relative.removesuffix("/").split("/") if relative else []
    if not _NOT_NAMES.isdisjoint(names) or (os.sep != "/" and any(os.sep in name for name in names)):
        raise FileNotFoundError(errno.ENOENT, "no path in the folder", relative)
    return names


def _link_error(name: str) -> LinkFound:
    return LinkFound(errno.ELOOP, "a symbolic link, which is not followed", name)


if sys.platform == "linux":
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)

    def _renameat2(folder: int, name: str, other_folder: int, other_name: str, flags: int) -> None:
        if not hasattr(_libc, "renameat2"):  # a C library from before 2018
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        if _libc.renameat2(folder, os.fsencode(name), other_folder, os.fsencode(other_name), flags):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)

else:

    def _renameat2(folder: int, name: str, other_folder: int, other_name: str, flags: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
