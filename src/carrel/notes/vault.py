"""The vault: the folder that holds the notes, and which of its files are notes.

Every access goes through `Vault.directory`, which opens each folder from its parent's descriptor without following
links, so that no link swapped in between a check and its use leads outside.
"""

import errno
import os
import secrets
import stat as stat_module
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from carrel.common import SURROGATE
from carrel.directory import MAX_PATH_LENGTH, Directory, Folder, LinkFound, split_path
from carrel.notes.links import join_path, normalize_path
from carrel.notes.note_names import is_note, key
from carrel.notes.note_store import NotesError

ALWAYS_IGNORED = "node_modules"
TEMPORARY_SUFFIX = ".carrel-tmp"

_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


class VaultError(NotesError):
    """The disk has failed or refused an operation; the message says what to do."""


MAX_FILE_BYTES = 16 * 1024 * 1024
"""Bytes of a file that is read."""


class NoteTooLarge(VaultError):
    """The file of a note exceeds `MAX_FILE_BYTES`."""

    def __init__(self, note_id: str, stamp: "Stamp") -> None:
        self.note_id = note_id
        self.stamp = stamp
        self.reason = f"the file has over {MAX_FILE_BYTES >> 20} MiB"
        super().__init__(f"{note_id} is not read: {self.reason}; part it into smaller notes")


class Stamp(NamedTuple):
    """Size and time of a file, which tell a changed file without reading it."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> "Stamp":
        return cls(stat.st_size, stat.st_mtime_ns)


class Vault:
    """The folder of notes, and the rules for what is ignored in it."""

    def __init__(self, folder: Path, ignore: Sequence[str] = ()) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.directory = Directory(self.folder)
        """The only way to the files."""
        self._root = f"{self.folder}{os.sep}"
        self._names = [pattern.strip("/") for pattern in ignore if "/" not in pattern.strip("/")]
        self._paths = [pattern.strip("/") for pattern in ignore if "/" in pattern.strip("/")]

    def path(self, note_id: str) -> str:
        """Return the absolute path of a note's file."""
        return self._root + note_id.replace("/", os.sep)

    def id_of(self, path: str) -> str | None:
        """Return the ID that a file at this path has or would have; None if it cannot be a note."""
        if not path.startswith(self._root):
            return None
        relative = path[len(self._root) :].replace(os.sep, "/")
        if not is_note(relative) or not is_text(relative) or self.ignores(relative):
            return None
        return relative if _has_no_links(os.path.dirname(path)) else None

    def id_on_disk(self, note_id: str) -> str | None:
        """Return the id if exactly this file exists, with no link on the way to it; for notes not indexed yet."""
        if len(note_id) > MAX_PATH_LENGTH or not is_text(note_id) or "\0" in note_id or "\\" in note_id:
            return None
        path = self.path(note_id)
        try:
            is_there = os.path.realpath(path, strict=True) == path
        except (OSError, ValueError):
            return None
        return self.id_of(path) if is_there else None

    def folder_of_path(self, path: str) -> str | None:
        """Return the folder at this path, existing or not, with a final slash; None if there can be none."""
        if not f"{path}{os.sep}".startswith(self._root) or (os.path.lexists(path) and not os.path.isdir(path)):
            return None
        if not _has_no_links(path):
            return None
        relative = path[len(self._root) :].replace(os.sep, "/")
        if not relative:
            return ""
        return None if self.is_folder_ignored(relative) or not is_text(relative) else f"{relative}/"

    def ignores(self, relative: str) -> bool:
        """Whether a note or folder is ignored, itself or by a folder above it."""
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
        """Whether everything in a folder is ignored."""
        return self.ignores(f"{relative}/x") if relative else False

    def is_excluded(self, folder: str) -> bool:
        """Whether the folder at this absolute path holds no notes, for the watcher."""
        relative = folder[len(self._root) :].replace(os.sep, "/")
        return not is_text(relative) or self.is_folder_ignored(relative)

    def scan(self, below: str = "") -> Iterator[tuple[str, Stamp]]:
        """Yield every note with its stamp; `below` limits the scan to a folder, with a final slash."""
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            if len(folder) > MAX_PATH_LENGTH:
                continue  # no program could open what is in it
            found: list[tuple[str, Stamp]] = []
            try:
                with self.directory.folder(folder, listed=True) as opened:
                    self._scan_folder(opened, folder, found, waiting)
            except (OSError, ValueError):
                pass  # it has just gone, or is not for us to read
            yield from found

    def _scan_folder(self, opened: Folder, folder: str, found: list[tuple[str, Stamp]], inner: list[str]) -> None:
        has_rules = bool(self._names or self._paths)
        for entry in opened.entries():
            name = entry.name
            if not is_text(name):
                continue  # it has no name that can be sent
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_note(name) and not is_folder:
                    if (stamp := self._stamp(entry, folder)) and not (has_rules and self.ignores(folder + name)):
                        found.append((folder + name, stamp))
                elif (
                    is_folder
                    and not name.startswith(".")
                    and name != ALWAYS_IGNORED
                    and not (has_rules and self.is_folder_ignored(folder + name))
                ):
                    inner.append(f"{folder}{name}/")
            except OSError:
                continue

    def _stamp(self, entry: "os.DirEntry[str]", folder: str) -> Stamp | None:
        stat = entry.stat(follow_symlinks=False)
        if stat_module.S_ISLNK(stat.st_mode):
            return self.stamp(folder + entry.name)
        return Stamp.of(stat) if stat_module.S_ISREG(stat.st_mode) else None

    def real_path(self, note_id: str) -> str:
        """Return the path of a note's file, which is its ID, or the target of a link there. Raises `OSError`."""
        folder, name = split_path(note_id)
        with self.directory.folder(folder) as opened:
            if not stat_module.S_ISLNK(opened.lstat(name).st_mode):
                return note_id
        target = self.directory.target(note_id)
        if target is None:
            raise FileNotFoundError(errno.ENOENT, "a link that leads outside", note_id)
        return target

    def read(self, note_id: str) -> tuple[bytes, Stamp] | None:
        """Return a note's content and stamp; None if there is no such file in the vault. Raises `VaultError`."""
        try:
            try:
                return self._read(note_id, note_id)
            except LinkFound:
                target = self.directory.target(note_id) if self._is_link(note_id) else None
                return None if target is None else self._read(target, note_id)
        except (FileNotFoundError, NotADirectoryError, LinkFound):
            return None
        except (OSError, ValueError) as error:
            raise read_error(note_id, error) from error

    def _read(self, path: str, note_id: str) -> tuple[bytes, Stamp] | None:
        folder, name = split_path(path)
        with self.directory.folder(folder) as opened:
            descriptor = opened.open(name)
        try:
            stat = os.fstat(descriptor)
            if not stat_module.S_ISREG(stat.st_mode):
                return None
            if stat.st_size > MAX_FILE_BYTES:
                raise NoteTooLarge(note_id, Stamp.of(stat))
            return read_descriptor(descriptor, stat.st_size), Stamp.of(stat)
        finally:
            os.close(descriptor)

    def _is_link(self, note_id: str) -> bool:
        """Whether a link is in the place of the file, rather than in that of a folder above it."""
        folder, name = split_path(note_id)
        with self.directory.folder(folder) as opened:
            return stat_module.S_ISLNK(opened.lstat(name).st_mode)

    def stamp(self, note_id: str) -> Stamp | None:
        """Return a note's stamp; None if there is no such file."""
        try:
            folder, name = split_path(self.real_path(note_id))
            with self.directory.folder(folder) as opened:
                stat = opened.lstat(name)
        except (OSError, ValueError):
            return None
        return Stamp.of(stat) if stat_module.S_ISREG(stat.st_mode) else None

    def sibling_names(self, note_id: str) -> list[str]:
        """Return the names of the files in a note's folder."""
        try:
            with self.directory.folder(split_path(note_id)[0], listed=True) as folder:
                return [entry.name for entry in folder.entries()]
        except OSError:
            return []


def is_text(name: str) -> bool:
    """Whether a name is Unicode, as a name on Linux need not be."""
    return name.isascii() or not SURROGATE.search(name)


def _has_no_links(folder: str) -> bool:
    """Whether no part of a path is a link: notes behind one are others', or have an id already."""
    try:
        return os.path.realpath(folder) == folder
    except OSError:  # it is becoming a link, or ceasing to be one
        return False


def temporary_name(name: str) -> str:
    """A name for a new file beside one of this name."""
    short = os.fsencode(name)[:60].decode(errors="ignore")
    return f".{short}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"


def read_error(note_id: str, error: OSError | ValueError) -> VaultError:
    """Return the error for a note that could not be read."""
    return VaultError(f"{note_id} cannot be read: {_reason(error)}; see to the file's permissions and try again")


def write_error(what: str, error: OSError) -> VaultError:
    """Return the error for a file that could not be written."""
    if error.errno in _DISK_FULL:
        return VaultError(f"{what} cannot be written: the disk is full; nothing was changed, free space and try again")
    return VaultError(f"{what} cannot be written: {_reason(error)}; nothing was changed, see to the disk and try again")


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def read_descriptor(descriptor: int, size: int) -> bytes:
    """Read a file of about this size to its end."""
    # One byte more than expected: a file that has grown shows in the same read.
    content = os.read(descriptor, size + 1)
    if len(content) == size:
        return content
    parts = [content]
    while more := os.read(descriptor, 1 << 20):
        parts.append(more)
    return b"".join(parts)


class Attachments:
    """The files of a vault that are no notes, listed when first needed."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._by_name: dict[str, list[str]] | None = None

    def has(self, target: str, folder: str) -> bool:
        """Whether a target that resolves to no note names an attachment. Both arguments are keys, the folder with a
        final slash."""
        if "." not in target:
            return False
        if self._by_name is None:
            self._by_name = _attachments_by_name(self._vault)
        paths = self._by_name.get(target[target.rfind("/") + 1 :], ())
        places = (normalize_path(target), join_path(folder, target))
        return any(path in places or f"/{path}".endswith(f"/{target}") for path in paths)


def _attachments_by_name(vault: Vault) -> dict[str, list[str]]:
    """Their paths, by file name. What the settings leave out has no notes, but may have pictures."""
    by_name: dict[str, list[str]] = {}
    waiting = [""]
    while waiting:
        place = waiting.pop()
        with suppress(OSError), vault.directory.folder(place, listed=True) as folder:
            for entry in folder.entries():
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if not name.startswith(".") and name != ALWAYS_IGNORED and len(place) < MAX_PATH_LENGTH:
                        waiting.append(f"{place}{name}/")
                elif not is_note(name) and is_text(place + name):
                    by_name.setdefault(key(name), []).append(key(place + name))
    return by_name
