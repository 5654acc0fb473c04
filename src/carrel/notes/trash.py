"""Notes that were deleted, kept until somebody empties the folder."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from carrel.notes.vault import Vault, VaultError, put_in_place, temporary_beside, unwritable

FOLDER = "trash"
_TIME = "%Y-%m-%dT%H-%M-%S.%fZ"


class Trashed(NamedTuple):
    id: str
    deleted: datetime
    path: Path


class Trash:
    """Each note lies under the time when it was deleted, with the path that it had."""

    def __init__(self, vault: Vault, own_folder: Path) -> None:
        self._vault = vault
        self._folder = own_folder / FOLDER

    def take(self, note_id: str) -> bool:
        """Whether there was such a note. Raises `VaultError`."""
        source = self._vault.path(note_id)
        place = self._folder / datetime.now(UTC).strftime(_TIME) / note_id
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _move(source, place)
        except FileNotFoundError:
            self._remove_empty(place.parent)
            return False
        except OSError as error:
            self._remove_empty(place.parent)
            raise unwritable(note_id, error) from error
        return True

    def __iter__(self) -> Iterator[Trashed]:
        """The newest first."""
        for folder in sorted(self._folder.glob("*Z"), reverse=True):
            try:
                deleted = datetime.strptime(folder.name, _TIME).replace(tzinfo=UTC)
            except ValueError:  # none of ours
                continue
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    yield Trashed(path.relative_to(folder).as_posix(), deleted, path)

    def restore(self, trashed: Trashed, as_id: str) -> None:
        """Raises `VaultError`."""
        target = self._vault.path(as_id)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _put_back(trashed.path, target)
        except FileExistsError as error:
            raise VaultError(f"{as_id} is there already; name another place with --as") from error
        except OSError as error:
            raise unwritable(as_id, error) from error
        self._remove_empty(trashed.path.parent)

    def _remove_empty(self, folder: Path) -> None:
        """A folder of the trash, and those above it, as far as nothing is in them."""
        with suppress(OSError):
            while folder != self._folder:
                folder.rmdir()
                folder = folder.parent


def _put_back(source: Path, target: str) -> None:
    """Beside its place first, for the trash may be on another disk."""
    temporary = temporary_beside(target)
    try:
        shutil.copy2(source, temporary)
        put_in_place(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    source.unlink()


def _move(source: str, place: Path) -> None:
    try:
        os.rename(source, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, place)  # the trash is on another disk
        try:
            os.unlink(source)
        except OSError:
            place.unlink()
            raise
