"""The folder that notes are in: what is there, and how a file is changed without ever being half written."""

import errno
import os
import secrets
import stat as stat_module
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from carrel.notes.names import is_note
from carrel.notes.store import NotesError

ALWAYS_IGNORED = "node_modules"
TEMPORARY = ".carrel-tmp"

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class VaultError(NotesError):
    """The disk did not do what it was asked; the text says what to do."""


class Stamp(NamedTuple):
    """By which a file that has changed is known without reading it."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "Stamp":
        return cls(stat.st_size, stat.st_mtime_ns)


class Vault:
    def __init__(self, folder: Path, ignore: Sequence[str] = ()) -> None:
        self.folder = Path(os.path.realpath(folder))
        self._root = f"{self.folder}{os.sep}"
        self._names = [pattern.strip("/") for pattern in ignore if "/" not in pattern.strip("/")]
        self._paths = [pattern.strip("/") for pattern in ignore if "/" in pattern.strip("/")]

    def path(self, note_id: str) -> str:
        return self._root + note_id.replace("/", os.sep)

    def id_of(self, path: str) -> str | None:
        """The id that a file at this path has, or would have; None for one that is no note's."""
        if not path.startswith(self._root):
            return None
        relative = path[len(self._root) :].replace(os.sep, "/")
        if not is_note(relative) or not is_text(relative) or self.ignores(relative):
            return None
        return relative if _is_straight(os.path.dirname(path)) else None

    def folder_at(self, path: str) -> str | None:
        """The folder that is at this path, or may have been, with a slash at its end; None where there can be none."""
        if not f"{path}{os.sep}".startswith(self._root) or (os.path.lexists(path) and not os.path.isdir(path)):
            return None
        if not _is_straight(path):
            return None
        relative = path[len(self._root) :].replace(os.sep, "/")
        if not relative:
            return ""
        return None if self.is_folder_ignored(relative) or not is_text(relative) else f"{relative}/"

    def ignores(self, relative: str) -> bool:
        """Whether a note or a folder at this place is none of the vault's: it or a folder above it is left out."""
        *folders, last = relative.split("/")
        if any(name.startswith(".") or name == ALWAYS_IGNORED for name in folders):
            return True
        if not (self._names or self._paths):
            return False
        if any(fnmatchcase(name, pattern) for pattern in self._names for name in (*folders, last)):
            return True
        tops = ["/".join(folders[: count + 1]) for count in range(len(folders))]
        return any(fnmatchcase(top, pattern) for pattern in self._paths for top in (*tops, relative))

    def is_folder_ignored(self, relative: str) -> bool:
        return self.ignores(f"{relative}/x") if relative else False

    def leaves_out(self, folder: str) -> bool:
        """Whether nothing in the folder at this path is a note."""
        relative = folder[len(self._root) :].replace(os.sep, "/")
        return not is_text(relative) or self.is_folder_ignored(relative)

    def scan(self, below: str = "") -> Iterator[tuple[str, Stamp]]:
        """Every note with its stamp; `below` is a folder to look in, with a slash at its end."""
        waiting = [below]
        has_rules = bool(self._names or self._paths)
        while waiting:
            folder = waiting.pop()
            try:
                entries = list(os.scandir(self.path(folder)))
            except OSError:
                continue  # it has just gone, or is not for us to read
            for entry in entries:
                name = entry.name
                if not is_text(name):
                    continue  # it has no name that can be sent
                try:
                    if is_note(name) and not entry.is_dir():
                        if (stamp := self._stamp(entry)) and not (has_rules and self.ignores(folder + name)):
                            yield folder + name, stamp
                    elif (
                        not name.startswith(".")
                        and name != ALWAYS_IGNORED
                        and entry.is_dir(follow_symlinks=False)
                        and not (has_rules and self.is_folder_ignored(folder + name))
                    ):
                        waiting.append(f"{folder}{name}/")
                except OSError:
                    continue

    def _stamp(self, entry: "os.DirEntry[str]") -> Stamp | None:
        if entry.is_symlink() and not self._leads_inside(entry.path):
            return None
        stat = entry.stat()
        return Stamp.of(stat) if stat_module.S_ISREG(stat.st_mode) else None

    def _leads_inside(self, path: str) -> bool:
        return os.path.realpath(path).startswith(self._root)

    def read(self, note_id: str) -> tuple[bytes, Stamp] | None:
        """What is in a note's file; None if there is no such file, or it is not in the vault. Raises `VaultError`."""
        path = self.path(note_id)
        try:
            descriptor = self._opened(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise unreadable(note_id, error) from error
        try:
            stat = os.fstat(descriptor)
            if not stat_module.S_ISREG(stat.st_mode):
                return None
            return _all(descriptor, stat.st_size), Stamp.of(stat)
        except OSError as error:
            raise unreadable(note_id, error) from error
        finally:
            os.close(descriptor)

    def _opened(self, path: str) -> int:
        try:
            return os.open(path, _READ | _NO_LINK)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        if not self._leads_inside(path):
            raise FileNotFoundError(errno.ENOENT, "a link that leads outside", path)
        return os.open(path, _READ)

    def stamp(self, note_id: str) -> Stamp | None:
        try:
            stat = os.stat(self.path(note_id))
        except (OSError, ValueError):
            return None
        return Stamp.of(stat) if stat_module.S_ISREG(stat.st_mode) else None

    def has_folder(self, relative: str) -> bool:
        return os.path.isdir(self.path(relative))

    def stage(self, note_id: str, content: bytes) -> str:
        """The path of a temporary file beside the note, with this content, safely on the disk. Raises `VaultError`."""
        path = temporary_beside(os.path.realpath(self.path(note_id)))
        try:
            write_durably(path, content, mode=self._mode(note_id))
        except OSError as error:
            raise unwritable(note_id, error) from error
        return path

    def replace(self, note_id: str, content: bytes) -> Stamp:
        """Write a note over, all or nothing. Raises `VaultError`."""
        temporary = self.stage(note_id, content)
        stamp = Stamp.of(os.stat(temporary))
        try:
            os.replace(temporary, os.path.realpath(self.path(note_id)))
        except OSError as error:
            os.unlink(temporary)
            raise unwritable(note_id, error) from error
        return stamp

    def create(self, note_id: str, content: bytes) -> Stamp | None:
        """Write a note that is not there yet; None if it is. Raises `VaultError`."""
        path = self.path(note_id)
        if not os.path.isdir(self.folder):  # a disk that is away; what is written in its place would be hidden by it
            raise VaultError(f"{note_id} cannot be written: the vault itself is gone; bring it back and try again")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise unwritable(note_id, error) from error
        temporary = self.stage(note_id, content)
        try:
            stamp = Stamp.of(os.stat(temporary))
            put_in_place(temporary, path)
        except FileExistsError:
            return None
        except OSError as error:
            raise unwritable(note_id, error) from error
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
        return stamp

    def names_beside(self, note_id: str) -> list[str]:
        """The names of the files in a note's folder."""
        try:
            return os.listdir(os.path.dirname(self.path(note_id)))
        except OSError:
            return []

    def _mode(self, note_id: str) -> int | None:
        try:
            return stat_module.S_IMODE(os.stat(self.path(note_id)).st_mode)
        except OSError:
            return None


def is_text(name: str) -> bool:
    """Whether a name is Unicode, as a name on Linux need not be."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _is_straight(folder: str) -> bool:
    """Whether no part of a path is a link: notes behind one are others', or have an id already."""
    return os.path.realpath(folder) == folder


def put_in_place(temporary: str, path: str) -> None:
    """Give a file its name, unless something has it already: then `FileExistsError`."""
    try:
        os.link(temporary, path)
        os.unlink(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.close(descriptor)
        try:
            os.replace(temporary, path)
        except OSError:
            os.unlink(path)
            raise


def temporary_beside(path: str) -> str:
    folder, name = os.path.split(path)
    short = os.fsencode(name)[:60].decode(errors="ignore")
    return os.path.join(folder, f".{short}.{secrets.token_hex(6)}{TEMPORARY}")


def write_durably(path: str, content: bytes, mode: int | None = None) -> None:
    """Write a new file, and see it on the disk; there is none of it if that fails."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        os.unlink(path)
        raise


def unreadable(note_id: str, error: OSError | ValueError) -> VaultError:
    return VaultError(f"{note_id} cannot be read: {_why(error)}; see to the file's permissions and try again")


def unwritable(note_id: str, error: OSError) -> VaultError:
    return VaultError(f"{note_id} cannot be written: {_why(error)}; nothing was changed, see to the disk and try again")


def _why(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _all(descriptor: int, size: int) -> bytes:
    content = os.read(descriptor, size + 1)
    if len(content) == size:
        return content
    parts = [content]
    while more := os.read(descriptor, 1 << 20):
        parts.append(more)
    return b"".join(parts)
