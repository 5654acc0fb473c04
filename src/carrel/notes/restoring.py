"""Bringing notes back out of the trash."""

from pathlib import Path

from carrel.notes.locking import locked
from carrel.notes.names import SUFFIX, is_note, key
from carrel.notes.trash import Trash, Trashed
from carrel.notes.vault import Vault, VaultError, is_text


class Restorer:
    def __init__(self, vault: Vault, own_folder: Path) -> None:
        self._vault = vault
        self._own_folder = own_folder
        self._trash = Trash(vault, own_folder)

    def trashed(self, note_id: str | None = None) -> list[Trashed]:
        """What is in the trash, the newest first: all of it, or the notes of an id."""
        found = list(self._trash)
        if note_id is None:
            return found
        exact = [each for each in found if each.id == note_id]
        wanted = _comparable(note_id)
        return exact or [each for each in found if _comparable(each.id) == wanted]

    def restore(self, trashed: Trashed, as_id: str) -> str:
        """Its id from now on. Raises `VaultError`, and then nothing has changed."""
        if as_id != trashed.id and not is_note(as_id):
            as_id += SUFFIX
        self._refuse_place(as_id)
        (self._own_folder / "notes").mkdir(exist_ok=True)
        with locked(self._vault, self._own_folder):
            name = key(as_id[as_id.rfind("/") + 1 :])
            if beside := next((each for each in self._vault.names_beside(as_id) if key(each) == name), None):
                folder = as_id[: as_id.rfind("/") + 1]
                raise VaultError(f"{folder}{beside} is there already; name another place with --as")
            self._trash.restore(trashed, as_id)
        return as_id

    def _refuse_place(self, note_id: str) -> None:
        if {"", ".", ".."} & set(note_id.split("/")) or "\\" in note_id or not is_text(note_id):
            raise VaultError(f"{note_id} is no place in the vault: name one with --as, such as ideas/garden.md")
        if self._vault.id_of(self._vault.path(note_id)) is None:
            raise VaultError(
                f"{note_id} would not be seen: it is hidden, left out by notes.ignore, or behind a link; "
                "name another place with --as"
            )


def _comparable(note_id: str) -> str:
    return key(note_id).removesuffix(SUFFIX)
