"""The trash: deleted notes, kept until somebody empties the folder, and how they are restored."""

import errno
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from carrel.directory import Directory, Folder, LinkFound, split_path
from carrel.notes.note_names import SUFFIX, is_note, key
from carrel.notes.replacement import Replacement, Slot, read_content, write_durably
from carrel.notes.vault import Vault, VaultError, is_text, write_error
from carrel.notes.vault_lock import locked

FOLDER = "trash"
_TIME = "%Y-%m-%dT%H-%M-%S.%fZ"


class TrashedNote(NamedTuple):
    """A deleted note: its former ID, when it was deleted, and its file in the trash."""

    id: str
    deleted: datetime
    path: Path


class Trash:
    """The trash folder, in which each note lies under the time of its deletion and its former path."""

    def __init__(self, vault: Vault, own_folder: Path) -> None:
        self._vault = vault
        self._own_directory = Directory(own_folder)
        self._folder = Path(self._own_directory.path) / FOLDER

    def add(self, slot: Slot, name: str = "") -> bool:
        """Move a file of the vault to the trash; return whether there was one. `name` is its present name if it is not
        its place's. Raises `VaultError`."""
        place = f"{FOLDER}/{datetime.now(UTC).strftime(_TIME)}/{slot.place}"
        inner, new_name = split_path(place)
        try:
            folder = self._vault.directory.folder(slot.folder)
        except (FileNotFoundError, NotADirectoryError, LinkFound):  # it has gone, or is another folder's name by now
            return False
        except OSError as error:
            raise write_error(slot.place, error) from error
        try:
            with folder, self._own_directory.make(inner) as trash:
                self._move(folder, name or slot.name, slot, trash, new_name)
        except FileNotFoundError:
            self._remove_empty(inner)
            return False
        except OSError as error:
            self._remove_empty(inner)
            raise write_error(slot.place, error) from error
        return True

    def __iter__(self) -> Iterator[TrashedNote]:
        """The newest first."""
        for folder in sorted(self._folder.glob("*Z"), reverse=True):
            try:
                deleted = datetime.strptime(folder.name, _TIME).replace(tzinfo=UTC)
            except ValueError:  # none of ours
                continue
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    yield TrashedNote(path.relative_to(folder).as_posix(), deleted, path)

    def restore(self, trashed: TrashedNote, as_id: str) -> None:
        """Move a note back into the vault. Raises `VaultError`."""
        old_folder, name = split_path(trashed.path.relative_to(self._own_directory.path).as_posix())
        slot = Slot.at(as_id)
        try:
            with self._own_directory.folder(old_folder) as trash, self._vault.directory.make(slot.folder) as folder:
                try:
                    trash.move(name, folder, slot.name)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    self._copy_back(trash, name, slot)
                folder.sync()
        except FileExistsError as error:
            raise VaultError(f"{as_id} is there already; name another place with --as") from error
        except OSError as error:
            raise write_error(as_id, error) from error
        self._remove_empty(old_folder)

    def _move(self, folder: Folder, name: str, slot: Slot, trash: Folder, new_name: str) -> None:
        if stat.S_ISLNK(folder.lstat(name).st_mode):
            found = self._vault.read(slot.place)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, "a link that leads to no note", name)
            write_durably(trash, new_name, found[0])
            folder.unlink(name)
        else:
            try:
                folder.rename(name, trash, new_name)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._copy(folder, name, slot.temporary, trash, new_name)
        folder.sync()

    def _copy(self, folder: Folder, name: str, temporary: str, trash: Folder, new_name: str) -> None:
        """Move to another disk. Renaming the file first keeps programs from saving over it before its removal."""
        if name != temporary:
            folder.rename(name, folder, temporary)
        try:
            mode = stat.S_IMODE(folder.lstat(temporary).st_mode)
            write_durably(trash, new_name, read_content(folder, temporary) or b"", mode)
        except OSError:
            if name != temporary:
                with suppress(FileExistsError):
                    folder.move(temporary, folder, name)
            raise
        folder.unlink(temporary)

    def _copy_back(self, trash: Folder, name: str, slot: Slot) -> None:
        """Copy from another disk to a temporary file, then publish it."""
        content, mode = read_content(trash, name), stat.S_IMODE(trash.lstat(name).st_mode)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "it is not in the trash any more")
        with Replacement(self._vault.directory, slot) as replacement:
            replacement.stage(content, mode)
            try:
                replacement.publish()
            except OSError:
                replacement.discard()
                raise
        trash.unlink(name)

    def _remove_empty(self, folder: str) -> None:
        """A folder of the trash, and those above it, as far as nothing is in them."""
        relative = folder.rstrip("/")
        with suppress(OSError):
            while relative != FOLDER:
                above, name = split_path(relative)
                with self._own_directory.folder(above) as opened:
                    opened.rmdir(name)
                relative = above.rstrip("/")


class Restorer:
    """Lists and restores deleted notes, for the command line."""

    def __init__(self, vault: Vault, own_folder: Path) -> None:
        self._vault = vault
        self._own_folder = own_folder
        self._trash = Trash(vault, own_folder)

    def trashed(self, note_id: str | None = None) -> list[TrashedNote]:
        """Return the notes in the trash, newest first: all of them, or those of an ID."""
        found = list(self._trash)
        if note_id is None:
            return found
        exact = [each for each in found if each.id == note_id]
        wanted = _match_key(note_id)
        return exact or [each for each in found if _match_key(each.id) == wanted]

    def restore(self, trashed: TrashedNote, as_id: str) -> str:
        """Restore a note and return its ID. Raises `VaultError`, and then nothing has changed."""
        if as_id != trashed.id and not is_note(as_id):
            as_id += SUFFIX
        self._check_target(as_id)
        (self._own_folder / "notes").mkdir(exist_ok=True)
        with locked(self._vault, self._own_folder):
            name = key(as_id[as_id.rfind("/") + 1 :])
            if beside := next((each for each in self._vault.sibling_names(as_id) if key(each) == name), None):
                folder = as_id[: as_id.rfind("/") + 1]
                raise VaultError(f"{folder}{beside} is there already; name another place with --as")
            self._trash.restore(trashed, as_id)
        return as_id

    def _check_target(self, note_id: str) -> None:
        if {"", ".", ".."} & set(note_id.split("/")) or "\\" in note_id or not is_text(note_id):
            raise VaultError(f"{note_id} is no place in the vault: name one with --as, such as ideas/garden.md")
        if self._vault.id_of(self._vault.path(note_id)) is None:
            raise VaultError(
                f"{note_id} would not be seen: it is hidden, left out by notes.ignore, or behind a link; "
                "name another place with --as"
            )


def _match_key(note_id: str) -> str:
    return key(note_id).removesuffix(SUFFIX)
