"""Changes to files of the vault that a crash cannot leave half done.

A single file: before it is touched, a record names it, its temporary file and the hash of its content.

Several files, all or none, as for a rename: all new files are staged beside the old ones and flushed. Then the journal
is marked as decided, which is the commit point, and the files are put in place. Whoever finds a decided journal
finishes it; any other is undone. Both records belong to a workspace and are written under its lock and the vault's.
Writers of other workspaces do not see them and may change the same files before recovery, which therefore compares
every file's hash first and never removes text that is not the journal's own.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from carrel.common import Progress
from carrel.directory import Directory, LinkFound, split_path
from carrel.notes.replacement import FileChanged, Replacement, Slot, write_durably
from carrel.notes.trash import Trash
from carrel.notes.vault import TEMPORARY_SUFFIX, Stamp, Vault, VaultError, write_error
from carrel.untrusted import Limits, load_json

log = logging.getLogger("carrel.notes")

JOURNAL_FILE = "journal.json"
RECORD_FILE = "writing"
"""Name of the record of the single file that is being written."""
MAX_ATTEMPTS = 5
"""Attempts to write a file that other programs change at the same time."""
JOURNAL_LIMITS = Limits(characters=64 * 1024 * 1024, depth=8)
"""Limits of the journal: a few hundred characters for each file."""
FLUSH_THREADS = 16
"""Files that are flushed concurrently; a disk flushes many in the time of one."""

_MISSING_ERRORS = (FileNotFoundError, NotADirectoryError, LinkFound)
"""Errors of a file whose folder is gone or has become a link."""

Rewrite = Callable[[bytes, Mapping[str, str]], bytes]
"""Rewrites links in a file's content, by a mapping from old to new link text."""


@dataclass(frozen=True, slots=True)
class Change:
    """A note that gets new content, and perhaps a new ID."""

    id: str
    before: bytes
    after: bytes
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its links said, and say now."""
    new_id: str = ""

    @property
    def final_id(self) -> str:
        """The ID that the note has after the change."""
        return self.new_id or self.id


class Journal:
    """The crash-safe writes of one workspace. Methods raise `VaultError` or `FileChanged`, and then nothing has
    changed."""

    def __init__(self, vault: Vault, own_folder: Path, rewrite: Rewrite) -> None:
        self._vault = vault
        self._trash = Trash(vault, own_folder)
        self._folder = Directory(own_folder / "notes")
        self._journal_path = own_folder / "notes" / JOURNAL_FILE
        self._record_path = own_folder / "notes" / RECORD_FILE
        self._rewrite = rewrite
        self._prepared: list[tuple[Change, Slot]] = []

    # --- one file

    def create(self, note_id: str, content: bytes) -> Stamp | None:
        """Write a new note; return None if there is one already. Raises `LinkFound` if a folder above it is a link."""
        slot = Slot.at(note_id)
        try:
            self._vault.directory.make(slot.folder).close()
        except LinkFound:
            raise
        except FileNotFoundError as error:  # a disk that is away; what is written in its place would be hidden by it
            raise VaultError(
                f"{note_id} cannot be written: the vault itself is gone; bring it back and try again"
            ) from error
        except OSError as error:
            raise write_error(note_id, error) from error
        with self._recorded(slot, b""), Replacement(self._vault.directory, slot) as replacement:
            stamp = replacement.stage(content)
            try:
                replacement.publish()
            except FileExistsError:
                return None
            finally:
                replacement.discard()
            replacement.sync()
        return stamp

    def replace(self, note_id: str, before: bytes, after: bytes) -> Stamp:
        """Replace a note's content unless another program has changed it since it was read."""
        slot = self._slot(note_id)
        with (
            self._recorded(slot, before),
            _missing_as_changed(note_id),
            Replacement(self._vault.directory, slot) as file,
        ):
            try:
                stamp = file.stage(after)
                self._record_staged(after)
                file.swap(before, after)
            finally:
                file.discard()
            file.sync()
        return stamp

    def remove(self, note_id: str) -> bool:
        """Move a note to the trash; return whether there was one."""
        with self._recorded(slot := Slot.at(note_id), None):
            return self._trash.add(slot)

    def _slot(self, note_id: str) -> Slot:
        try:
            with _missing_as_changed(note_id):
                return Slot.at(self._vault.real_path(note_id))
        except OSError as error:
            raise write_error(note_id, error) from error

    @contextmanager
    def _recorded(self, slot: Slot, before: bytes | None) -> Generator[None]:
        """Keep a record of the file being written; without `before`, its temporary file is the note itself."""
        record = asdict(slot) | ({"after": ""} if before is None else {"before": _hash(before)})
        try:
            self._record_path.unlink(missing_ok=True)  # a link would lead elsewhere
            with self._record_path.open("x", encoding="utf-8") as file:
                file.write(f"{json.dumps(record)}\n")
            yield
        except OSError as error:
            raise write_error(slot.place, error) from error
        finally:
            self._record_path.unlink(missing_ok=True)

    def _record_staged(self, after: bytes) -> None:
        """Extend the record: from the exchange on, the temporary file may hold another program's text."""
        with self._record_path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'after': _hash(after)})}\n")

    # --- several files

    def prepare(
        self,
        changes: Sequence[Change],
        is_cancelled: Callable[[], bool] = lambda: False,
        progress: Progress = lambda _: None,
    ) -> bool:
        """Stage all new files, the one that the others depend on first. Return False if canceled: nothing is prepared
        then."""
        self._prepared = [(change, self._slot(change.id)) for change in changes]
        self._write(decided=False)
        done = 0

        def stage(each: tuple[Change, Slot]) -> None:
            nonlocal done
            if not is_cancelled():
                self._stage(*each)
                done += 1
                progress(done)

        try:
            # A few files are flushed faster without a pool. With many, the disk merges concurrent flushes.
            if len(changes) < FLUSH_THREADS:
                for each in self._prepared:
                    stage(each)
            else:
                with ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="carrel-notes-flush") as flushing:
                    for _ in flushing.map(stage, self._prepared):
                        pass
            # Staging takes time: see once more that nothing has changed before deciding.
            for change in changes:
                found = self._vault.read(change.id)
                if found is None or found[0] != change.before:
                    raise FileChanged(change.id)
        except BaseException:
            self.roll_back()
            raise
        if is_cancelled():
            self.roll_back()
            return False
        return True

    def roll_back(self) -> None:
        """Discard what is prepared, if anything is."""
        prepared, self._prepared = self._prepared, []
        if prepared:
            self._discard(prepared)

    def _discard(self, prepared: Sequence[tuple[Change, Slot]]) -> None:
        for _, slot in prepared:
            with suppress(OSError), Replacement(self._vault.directory, slot) as replacement:
                replacement.discard()
        self._journal_path.unlink(missing_ok=True)

    def commit(self, progress: Progress = lambda _: None) -> None:
        """Put the prepared files in place."""
        try:
            # The commit point: before it a crash undoes the rename, after it a crash finishes it.
            self._write(decided=True)
        except BaseException:
            self.roll_back()
            raise
        prepared, self._prepared = self._prepared, []
        done: list[tuple[Change, Slot]] = []
        try:
            for change, slot in prepared:
                done.append((change, slot))
                if self._put_in_place(change, slot):
                    progress(len(done))
                # The renamed note itself has changed: give up and plan again. A linking note that has changed keeps the
                # new text, and only its links are rewritten.
                elif len(done) == 1:
                    raise FileChanged(change.id)
                else:
                    self._rewrite_edited(change)
        except (OSError, VaultError, FileChanged) as error:
            self._undo(done)
            self._discard(prepared)
            if isinstance(error, OSError):
                raise write_error(done[-1][0].id, error) from error
            raise
        self._finish_all([slot for _, slot in prepared])

    def _stage(self, change: Change, slot: Slot) -> None:
        try:
            with _missing_as_changed(change.id), Replacement(self._vault.directory, slot) as replacement:
                replacement.stage(change.after)
        except OSError as error:
            raise write_error(change.id, error) from error

    def _put_in_place(self, change: Change, slot: Slot) -> bool:
        """Exchange one file; return whether it was still the one that was read."""
        with Replacement(self._vault.directory, slot) as replacement:
            try:
                replacement.swap(change.before, change.after)
            except FileChanged:
                return False
        if change.new_id and change.new_id != change.id:
            try:
                self._move(change.id, change.new_id)
            except (FileExistsError, FileNotFoundError) as error:
                raise FileChanged(change.new_id) from error
        return True

    def _rewrite_edited(self, change: Change) -> None:
        """Change the links in the text that another program has just saved."""
        for _ in range(MAX_ATTEMPTS):
            found = self._vault.read(change.id)
            if found is None or (after := self._rewrite(found[0], change.links)) == found[0]:
                return
            with suppress(FileChanged):
                self.replace(change.id, found[0], after)
                return
        log.warning("%s is being changed by others all the time; its links to the renamed note were left", change.id)

    def _undo(self, done: Sequence[tuple[Change, Slot]]) -> None:
        """Restore the files that are in place already, the last one first."""
        for change, slot in reversed(done):
            with suppress(OSError, VaultError):
                if change.new_id and change.new_id != change.id and self._vault.stamp(change.id) is None:
                    self._move(change.new_id, change.id)
            with suppress(OSError), Replacement(self._vault.directory, slot) as replacement:
                replacement.restore(change.before, change.after)

    def _move(self, note_id: str, new_id: str) -> None:
        """Rename a file without replacing another. On a case-insensitive disk both names may be the same file's."""
        (folder, name), (new_folder, new_name) = split_path(note_id), split_path(new_id)
        with self._vault.directory.folder(folder) as old, self._vault.directory.folder(new_folder) as new:
            if old.is_same(name, new, new_name):
                old.rename(name, new, new_name)
            else:
                old.move(name, new, new_name)

    def _finish_all(self, slots: Sequence[Slot]) -> None:
        """Remove the temporary files and flush the folders; only then may the journal go."""
        temporaries: dict[str, list[str]] = {}
        for slot in slots:
            temporaries.setdefault(slot.folder, []).append(slot.temporary)
        try:
            for folder, names in temporaries.items():
                with self._vault.directory.folder(folder) as opened:
                    for name in names:
                        opened.discard(name)
                    opened.sync()
            self._journal_path.unlink(missing_ok=True)
        except OSError as error:  # it is done; whoever writes next tidies up
            log.warning("what a rename has left behind cannot be removed yet: %s", error.strerror)

    # --- what a process that died has left

    def recover(self) -> bool:
        """Finish or undo what a killed process has left; return whether a rename was among it. Raises `VaultError` if
        the disk does not allow it now."""
        if not (self._journal_path.exists() or self._record_path.exists() or self._own_temporary.exists()):
            return False
        try:
            # A journal that was never renamed into place decides nothing.
            self._own_temporary.unlink(missing_ok=True)
            self._recover_single_file()
            return self._recover_rename()
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error  # the text of an OSError has an absolute path in it
            raise VaultError(
                f"what was cut short in the vault cannot be finished: {why}; see to the disk and try again"
            ) from error

    def _recover_rename(self) -> bool:
        try:
            journal: dict[str, Any] = load_json(self._journal_path.read_bytes(), JOURNAL_LIMITS)
        except FileNotFoundError:
            return False
        for record in journal["changes"]:
            slot = _slot_of(record)
            with suppress(*_MISSING_ERRORS), Replacement(self._vault.directory, slot) as staged:
                if journal["decided"]:
                    self._finish(record, slot, staged)
                else:
                    staged.discard()
        self._journal_path.unlink(missing_ok=True)
        log.warning("a rename that was cut short is %s", "finished" if journal["decided"] else "undone")
        return True

    def _recover_single_file(self) -> None:
        """Settle the one file that a killed process was writing."""
        try:
            lines = self._record_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        record: dict[str, Any] = {}
        try:
            for line in lines:
                record |= load_json(line)
            slot = _slot_of(record)
        except (ValueError, LookupError, TypeError):
            slot = None  # it died before it had said what it would write
        if slot:
            with suppress(*_MISSING_ERRORS), Replacement(self._vault.directory, slot) as staged:
                self._settle_temporary(slot, staged, record.get("before", ""), record.get("after"))
        self._record_path.unlink()

    def _settle_temporary(self, slot: Slot, staged: Replacement, before: str, after: str | None) -> None:
        """Remove the temporary file, unless the exchange left another program's text in it."""
        content = staged.staged
        if content is None or after is None or _hash(content) in (before, after):
            return staged.discard()
        current = staged.current
        if current is None:
            return staged.publish()
        if _hash(current) == after:
            staged.undo_exchange(current)
            return staged.discard()
        self._trash.add(slot, slot.temporary)
        return None

    def _finish(self, record: Mapping[str, Any], slot: Slot, staged: Replacement) -> None:
        """Put one file of a decided rename in place, as far as that was not done."""
        note_id, new_id, links = record["id"], record["new_id"] or record["id"], record["links"]
        content, current = staged.staged, staged.current
        if content is not None and _hash(content) == record["after"] and current is not None:
            if _hash(current) == record["before"]:
                with suppress(FileChanged):
                    staged.swap(current, content)
            elif _hash(current) != record["after"]:  # it was edited meanwhile: keep that
                self._rewrite_edited_after_crash(slot, current, links)
            staged.discard()
        else:
            self._settle_temporary(slot, staged, record["before"], record["after"])
            if (found := staged.current) is not None and _hash(found) not in (record["before"], record["after"]):
                self._rewrite_edited_after_crash(slot, found, links)
        if new_id != note_id:
            try:
                self._move(note_id, new_id)
            except FileExistsError:
                log.warning("%s was not renamed: there is another note at %s by now", note_id, new_id)
            except FileNotFoundError:
                pass  # done, or deleted meanwhile
        staged.sync()

    def _rewrite_edited_after_crash(self, slot: Slot, current: bytes, links: Mapping[str, str]) -> None:
        after = self._rewrite(current, links)
        if after == current:
            return
        beside = Slot.at(slot.place)
        with Replacement(self._vault.directory, beside) as replacement:
            try:
                replacement.stage(after)
                with suppress(FileChanged):
                    replacement.swap(current, after)
            finally:
                replacement.discard()

    # --- the journal itself

    @property
    def _own_temporary(self) -> Path:
        return self._journal_path.with_name(f".{JOURNAL_FILE}{TEMPORARY_SUFFIX}")

    def _write(self, *, decided: bool) -> None:
        records = [
            asdict(slot)
            | {
                "id": change.id,
                "new_id": change.new_id,
                "before": _hash(change.before),
                "after": _hash(change.after),
                "links": dict(change.links),
            }
            for change, slot in self._prepared
        ]
        content = json.dumps({"decided": decided, "changes": records}).encode()
        try:
            with self._folder.folder() as folder:
                write_durably(folder, self._own_temporary.name, content)
                folder.replace(self._own_temporary.name, JOURNAL_FILE)
                folder.sync()
        except OSError as error:
            raise write_error("the notes' journal", error) from error


@contextmanager
def _missing_as_changed(note_id: str) -> Generator[None]:
    """Raise `FileChanged` for a file whose folder is gone or has become a link."""
    try:
        yield
    except _MISSING_ERRORS as error:
        raise FileChanged(note_id) from error


def _slot_of(record: Mapping[str, Any]) -> Slot:
    """Read a slot from a record. Raises `LookupError` or `ValueError` for a record that Carrel cannot have written."""
    slot = Slot(record["folder"], record["name"], record["temporary"])
    if not all(isinstance(each, str) for each in astuple(slot)) or not slot.temporary.endswith(TEMPORARY_SUFFIX):
        raise ValueError("it names files that are not its own")
    return slot


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
