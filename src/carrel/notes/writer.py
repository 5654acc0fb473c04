"""Creating, updating, renaming and deleting notes in files, one write at a time across all processes.

Every write reads its file again first, plans the new text, and replaces the file only if it is still the one that was
read (`carrel.notes.replacement`); otherwise it plans again, at most `MAX_ATTEMPTS` times. Files are read, parsed and
written on the writer's own thread; the graph is changed on the event loop. Locks: see `carrel.notes.vault_lock`.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from carrel.common import AsyncProgress
from carrel.directory import LinkFound
from carrel.notes.drafts import Draft, draft_change, draft_new
from carrel.notes.frontmatter_edits import FrontmatterBackup
from carrel.notes.graph import Graph, Node
from carrel.notes.index import Index
from carrel.notes.journal import MAX_ATTEMPTS, Change, Journal
from carrel.notes.links import NoteName, links_to_change, rewritten
from carrel.notes.note_names import folder_of, is_note, key, stem
from carrel.notes.note_reader import Difference, Entry, entry_of
from carrel.notes.note_store import NO_OBSERVER, Refusal, WriteObserver
from carrel.notes.parser import decoded, facts_of
from carrel.notes.replacement import FileChanged
from carrel.notes.vault import Stamp, Vault, VaultError
from carrel.notes.vault_lock import locked

log = logging.getLogger("carrel.notes")

T = TypeVar("T")

PROGRESS_INTERVAL_SECONDS = 0.25
MAX_LISTED_FILES = 5000
"""Files in a folder up to which a name that differs in case only is looked for on disk; beyond, in the index."""


class Writer:
    """The write operations of one server on its vault."""

    def __init__(self, index: Index, own_folder: Path) -> None:
        self._index = index
        self._vault: Vault = index.vault
        self._own_folder = own_folder
        self._journal = Journal(self._vault, own_folder, rewritten)
        self._frontmatter_backup = FrontmatterBackup(own_folder / "notes" / "heads")
        self._lock = asyncio.Lock()
        self._held_locks = ExitStack()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="carrel-notes-write")

    async def recover(self) -> None:
        """Finish or undo what a killed process has left. If the disk does not allow that yet, notes are served all the
        same, and every write tries again first."""
        try:
            async with self._exclusive():
                pass
        except VaultError as error:
            log.error("%s", error)

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> str | Refusal:
        """Write a new note and return its ID."""
        draft = await self._in_thread(lambda: draft_new(title, content, tags, directory))
        if isinstance(draft, Refusal):
            return draft
        # A note that the settings ignore could be written but never be read again.
        if self._vault.ignores(draft.id):
            return Refusal("INVALID_PARAMS", "directory is one that the settings leave out of the vault")
        async with self._exclusive(), self._index.write_lock:
            entry = await self._in_thread(lambda: self._create(draft))
            if isinstance(entry, Refusal):
                return entry
            self._index.apply(Difference([entry], [], []))
        return draft.id

    def _create(self, draft: Draft) -> Entry | Refusal:
        if self._is_taken(draft.id):
            return _exists(draft.id)
        try:
            stamp = self._journal.create(draft.id, draft.content)
        except LinkFound:
            return Refusal("INVALID_PARAMS", "directory is, or is in, a linked folder, which is none of the vault")
        return entry_of(draft.id, draft.content, stamp) if stamp else _exists(draft.id)

    def _is_taken(self, note_id: str, other_than: str = "") -> bool:
        """Whether another note has this ID, or one that differs in case only."""
        wanted = key(stem(note_id))
        if any(node.id != other_than and self._vault.stamp(node.id) for node in self._index.graph.at_path(wanted)):
            return True
        names = self._vault.sibling_names(note_id)
        if len(names) > MAX_LISTED_FILES:
            return note_id != other_than and self._vault.stamp(note_id) is not None
        name, folder = key(os.path.basename(note_id)), note_id[: note_id.rfind("/") + 1]
        return any(is_note(each) and key(each) == name and folder + each != other_than for each in names)

    async def update(
        self,
        note_id: str,
        *,
        title: str | None,
        content: str | None,
        tags: Sequence[str] | None,
        observer: WriteObserver = NO_OBSERVER,
    ) -> str | Refusal:
        """Change title, content or tags of a note and return its ID, which is a new one after a rename."""
        for _ in range(MAX_ATTEMPTS):
            if title is not None:
                # A rename must know every link to the note, so it cannot start from a partial index.
                await self._index.wait_until_ready(no_timeout=True)
            with suppress(FileChanged):
                async with self._exclusive():
                    return await self._update(note_id, title, content, tags, observer)
            await self._index.rescan()
        raise VaultError(f"{note_id} is being changed by others all the time; nothing was changed, try again")

    async def _update(
        self, note_id: str, title: str | None, content: str | None, tags: Sequence[str] | None, observer: WriteObserver
    ) -> str | Refusal:
        if title is not None:
            await self._index.rescan()
        async with self._index.write_lock:
            known = await self._index.find(note_id)
            if known is None:
                return _not_found(note_id)
            before = await self._in_thread(lambda: self._vault.read(known.id))
            if before is None:
                self._index.apply(Difference([], [known.id], []))
                return _not_found(note_id)
            node = await self._index.refresh_off_loop(known.id, *before)
            draft = await self._in_thread(
                lambda: draft_change(
                    node.id,
                    before[0],
                    title=title,
                    content=content,
                    tags=tags,
                    original_of=partial(self._frontmatter_backup.original, node.id),
                )
            )
            if isinstance(draft, Refusal):
                return draft
            if title is not None and title != node.facts.title:
                return await self._rename(node, before[0], draft, observer)
            return await self._replace(node, before[0], draft, has_tags=tags is not None)

    async def _replace(self, node: Node, before: bytes, draft: Draft, *, has_tags: bool) -> str:
        """Write a note's new text over the one that was read."""

        def replace() -> Entry | None:
            found = self._vault.read(node.id)
            if found is None or found[0] != before:
                # The draft was made from other text than the file has now: `update` plans it again.
                raise FileChanged(node.id)
            if draft.original_frontmatter is not None:
                self._frontmatter_backup.save(node.id, draft.frontmatter, draft.original_frontmatter)
            elif has_tags:
                self._frontmatter_backup.delete(node.id)
            if draft.content == before:
                return None
            return entry_of(node.id, draft.content, self._journal.replace(node.id, before, draft.content))

        if (entry := await self._in_thread(replace)) is not None:
            self._index.apply(Difference([entry], [], []))
        return node.id

    async def _rename(self, node: Node, before: bytes, draft: Draft, observer: WriteObserver) -> str | Refusal:
        """Write the note under its new name, and every note that links to it, all or none."""
        graph = self._index.graph
        # Other processes may link to the note without our index knowing yet; `_update` has rescanned the vault just
        # before.
        linking = [other.id for other in graph.incoming(node) if other.id != node.id]
        changes = await self._in_thread(lambda: self._plan_rename(graph, node, before, draft, linking))
        if changes is None:
            return _exists(draft.id)
        is_cancelled, total = threading.Event(), 2 * len(changes)
        done = 0

        def tell(number: int, offset: int = 0) -> None:
            nonlocal done
            done = max(done, offset + number)

        def commit() -> list[Entry]:
            self._journal.commit(lambda number: tell(number, len(changes)))
            self._frontmatter_backup.delete(node.id)
            return [
                entry_of(each.final_id, each.after, self._vault.stamp(each.final_id) or Stamp(0, 0)) for each in changes
            ]

        async with _progress_reported(observer, lambda: (done, total)):
            try:
                await self._in_thread(lambda: self._journal.prepare(changes, is_cancelled.is_set, tell))
            except asyncio.CancelledError:
                is_cancelled.set()
                # The staging job may still run on the thread; it stops at the next file, and this one is queued after
                # it.
                self._thread.submit(self._journal.roll_back)
                raise
            # All files are staged: from here on the rename is carried out, so the call's time limit is lifted.
            observer.committed()
            read = await self._in_thread(commit)
        await self._index.apply_in_chunks(Difference(read, [node.id] if draft.id != node.id else [], []))
        return draft.id

    def _plan_rename(
        self, graph: Graph, node: Node, before: bytes, draft: Draft, linking: Sequence[str]
    ) -> list[Change] | None:
        """Return the changes to the note and to those that link to it; None if its new name is taken."""
        if draft.id != node.id and self._is_taken(draft.id, node.id):
            return None
        old, facts = NoteName(node.id, node.facts.title), facts_of(draft.id, draft.content)
        new, resolves_after = NoteName(draft.id, facts.title), graph.resolve_renamed(node, draft.id, facts)
        contents = {each: found[0] for each in linking if (found := self._vault.read(each))}

        def change(note_id: str, content: bytes) -> Mapping[str, str]:
            folder = key(folder_of(note_id))
            return links_to_change(
                decoded(content),
                resolves_now=lambda target: (found := graph.resolve(target, folder)) is not None and found is node,
                resolves_after=lambda target: resolves_after(target, folder),
                before=old,
                after=new,
            )

        links = change(node.id, draft.content)
        changes = [Change(node.id, before, rewritten(draft.content, links), links, draft.id)]
        for note_id, content in contents.items():
            if links := change(note_id, content):
                changes.append(Change(note_id, content, rewritten(content, links), links))
        return changes

    async def delete(self, note_id: str) -> bool:
        """Move a note to the trash; return whether there was one."""
        async with self._exclusive(), self._index.write_lock:
            node = await self._index.find(note_id)
            if node is None:
                return False
            was_there = await self._in_thread(lambda: self._journal.remove(node.id))
            self._index.apply(Difference([], [node.id], []))
            return was_there

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        """Hold the first three locks. `Index.write_lock` is taken inside, never around it."""
        async with self._lock:
            try:
                await self._in_thread(self._acquire)
                yield
            finally:
                self._thread.submit(self._held_locks.close)  # after whatever is under way there

    def _acquire(self) -> None:
        """Take the file locks, and recover what a killed process has left before anything else is written."""
        self._held_locks.enter_context(locked(self._vault, self._own_folder))
        self._journal.recover()

    async def _in_thread(self, job: Callable[[], T]) -> T:
        """Run a job on the writer's thread. A canceled call does not stop it half-way."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, job))

    async def close(self) -> None:
        """Wait for the write in progress, off the event loop."""
        await asyncio.to_thread(self._thread.shutdown)


@asynccontextmanager
async def _progress_reported(observer: WriteObserver, progress: Callable[[], tuple[int, int]]) -> AsyncGenerator[None]:
    """Report progress at intervals until the block ends, if the caller wants it."""

    async def report(tell: AsyncProgress) -> None:
        told = 0
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL_SECONDS)
            done, total = progress()
            if done > told:
                await tell(done, total, "files written")
                told = done

    task = asyncio.create_task(report(observer.progress)) if observer.progress else None
    try:
        yield
    finally:
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _exists(note_id: str) -> Refusal:
    return Refusal("NODE_EXISTS", f"There is a note at {note_id} already; choose another title or update that one")


def _not_found(note_id: str) -> Refusal:
    return Refusal("NODE_NOT_FOUND", f"There is no note {note_id}")
