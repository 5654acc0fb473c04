"""Changes to several files, all of them or none, also if the process is killed half-way.

All new files are written beside the old ones first. Then a journal says that it is decided, and they are put in place.
A journal that is found later was left behind by a process that died: what was decided is finished, what was not is
undone. It is made under the vault's lock, as whoever finishes it must be.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from carrel.notes.vault import TEMPORARY, Vault, VaultError, temporary_beside, unwritable, write_durably

log = logging.getLogger("carrel.notes")

NAME = "journal.json"
PLACE = "writing"
"""The folder in which a file is being written: who dies there may leave a temporary one."""

Rewrite = Callable[[bytes, Mapping[str, str]], bytes]
"""Changes the links in a file: what they say, and what they are to say."""


@dataclass(frozen=True, slots=True)
class Change:
    """A note that gets other content, and perhaps another id."""

    id: str
    before: bytes
    after: bytes
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its links said, and say now."""
    new_id: str = ""

    @property
    def is_at(self) -> str:
        return self.new_id or self.id


class FileChanged(Exception):
    """Somebody else has changed a file since it was read."""


class Journal:
    def __init__(self, vault: Vault, folder: Path) -> None:
        self._vault = vault
        self._path = folder / NAME
        self._place = folder / PLACE

    @contextmanager
    def writing(self, note_id: str) -> Generator[None]:
        """While a note is written: should the process die, the next one knows where to tidy up."""
        self._place.write_bytes(os.fsencode(os.path.dirname(os.path.realpath(self._vault.path(note_id)))))
        try:
            yield
        finally:
            self._place.unlink(missing_ok=True)

    def commit(self, changes: Sequence[Change]) -> None:
        """Raises `FileChanged` and `VaultError`, and then nothing has changed."""
        temporaries = [temporary_beside(self._vault.path(change.is_at)) for change in changes]
        records = [_record(change, temporary) for change, temporary in zip(changes, temporaries, strict=True)]
        self._write({"decided": False, "changes": records})
        try:
            for change, temporary in zip(changes, temporaries, strict=True):
                self._stage(change, temporary)
            for change in changes:
                found = self._vault.read(change.id)
                if found is None or found[0] != change.before:
                    raise FileChanged(change.id)
            self._write({"decided": True, "changes": records})
        except BaseException:
            _remove_all(temporaries)
            self._path.unlink(missing_ok=True)
            raise
        self._put_in_place(changes, temporaries)
        self._path.unlink()

    def recover(self, rewrite: Rewrite) -> bool:
        """Finish or undo what a process that died has left; whether there was a rename among it.

        Raises `VaultError` if it cannot be done now, as on a read-only disk. The next write tries again.
        """
        if not (os.path.exists(self._path) or os.path.exists(self._place)):
            return False
        try:
            return self._recover(rewrite)
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error  # the text of an OSError has an absolute path in it
            raise VaultError(
                f"what was cut short in the vault cannot be finished: {why}; see to the disk and try again"
            ) from error

    def _recover(self, rewrite: Rewrite) -> bool:
        self._tidy_up()
        try:
            journal: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        if journal["decided"]:
            for record in journal["changes"]:
                self._finish(record, rewrite)
        else:
            _remove_all([record["temporary"] for record in journal["changes"]])
        self._path.unlink(missing_ok=True)
        log.warning("a rename that was cut short is %s", "finished" if journal["decided"] else "undone")
        return True

    def _tidy_up(self) -> None:
        """Remove what processes that died have not put in place."""
        with suppress(FileNotFoundError):
            if folder := os.fsdecode(self._place.read_bytes()):  # empty if the process died before it wrote the name
                _remove_all([str(path) for path in Path(folder).glob(f".*{TEMPORARY}")])
            self._place.unlink()

    def _stage(self, change: Change, temporary: str) -> None:
        try:
            mode = os.stat(self._vault.path(change.id)).st_mode & 0o7777
            write_durably(temporary, change.after, mode)
        except FileNotFoundError as error:
            raise FileChanged(change.id) from error
        except OSError as error:
            raise unwritable(change.id, error) from error

    def _put_in_place(self, changes: Sequence[Change], temporaries: Sequence[str]) -> None:
        done: list[Change] = []
        try:
            for change, temporary in zip(changes, temporaries, strict=True):
                done.append(change)
                os.replace(temporary, os.path.realpath(self._vault.path(change.is_at)))
                if change.new_id and change.new_id != change.id:
                    _drop(self._vault.path(change.id), self._vault.path(change.new_id))
        except OSError as error:
            self._put_back(done)
            _remove_all(temporaries)
            self._path.unlink(missing_ok=True)
            raise unwritable(done[-1].id, error) from error

    def _put_back(self, done: Sequence[Change]) -> None:
        for change in reversed(done):
            with suppress(VaultError):
                self._vault.replace(change.id, change.before)
            if change.new_id and change.new_id != change.id:
                with suppress(FileNotFoundError):
                    os.unlink(self._vault.path(change.new_id))

    def _finish(self, record: Mapping[str, Any], rewrite: Rewrite) -> None:
        note_id, new_id, temporary = record["id"], record["new_id"] or record["id"], record["temporary"]
        if os.path.exists(temporary):
            found = self._vault.read(note_id)
            if found is None:  # somebody has deleted it meanwhile
                os.unlink(temporary)
                return
            if _hash(found[0]) != record["hash"]:  # it was edited meanwhile: keep that
                self._vault.replace(note_id, rewrite(found[0], record["links"]))
                os.unlink(temporary)
                if new_id != note_id:
                    os.replace(self._vault.path(note_id), self._vault.path(new_id))
                return
            os.replace(temporary, os.path.realpath(self._vault.path(new_id)))
        if new_id != note_id:
            with suppress(FileNotFoundError):
                _drop(self._vault.path(note_id), self._vault.path(new_id))

    def _write(self, journal: Mapping[str, Any]) -> None:
        temporary = temporary_beside(str(self._path))
        try:
            self._place.write_bytes(os.fsencode(self._path.parent))
            write_durably(temporary, json.dumps(journal).encode())
            os.replace(temporary, self._path)
            self._place.unlink()
        except OSError as error:
            raise unwritable(NAME, error) from error


def _record(change: Change, temporary: str) -> dict[str, Any]:
    return {
        "id": change.id,
        "new_id": change.new_id,
        "hash": _hash(change.before),
        "links": dict(change.links),
        "temporary": temporary,
    }


def _drop(old: str, new: str) -> None:
    """Remove a file that has another name now. Where case does not count, the two names may be the same file's."""
    if os.path.samefile(old, new):
        os.rename(old, new)
    else:
        os.unlink(old)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _remove_all(paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
