"""Creating, changing and deleting notes: one at a time, also between processes.

Files are read and written, and notes parsed, on the writer's own thread; the graph is changed on the event loop. The
order in which locks are taken is that of `carrel.notes.vault_lock`.
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

from carrel.common import Tell
from carrel.directory import LinkFound
from carrel.notes.drafts import Draft, draft_change, draft_new
from carrel.notes.frontmatter_edits import Heads
from carrel.notes.graph import Graph, Node
from carrel.notes.index import Index
from carrel.notes.journal import TRIES, Change, Journal
from carrel.notes.links import Name, links_to_change, rewritten
from carrel.notes.note_names import folder_of, is_note, key, stem
from carrel.notes.note_reader import Difference, Entry, entry_of
from carrel.notes.note_store import NOBODY, Refused, Waiting
from carrel.notes.parser import decoded, facts_of
from carrel.notes.replacement import FileChanged
from carrel.notes.vault import Stamp, Vault, VaultError
from carrel.notes.vault_lock import locked

log = logging.getLogger("carrel.notes")

T = TypeVar("T")

TELL_SECONDS = 0.25
LONG_LIST = 5000
"""Files in a folder that are looked through for one whose name differs in case only; beyond, the index knows."""


class Writer:
    def __init__(self, index: Index, own_folder: Path) -> None:
        self._index = index
        self._vault: Vault = index.vault
        self._own_folder = own_folder
        self._journal = Journal(self._vault, own_folder, rewritten)
        self._heads = Heads(own_folder / "notes" / "heads")
        self._writing = asyncio.Lock()
        self._holding = ExitStack()
        """What no other process has while we write."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="carrel-notes-write")

    async def recover(self) -> None:
        """Finish or undo what a process was killed in. Where that cannot be done yet, notes are served all the same,
        and every write tries it again first."""
        try:
            async with self._alone():
                pass
        except VaultError as error:
            log.error("%s", error)

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> str | Refused:
        draft = await self._do(lambda: draft_new(title, content, tags, directory))
        if isinstance(draft, Refused):
            return draft
        if self._vault.ignores(draft.id):
            return Refused("INVALID_PARAMS", "directory is one that the settings leave out of the vault")
        async with self._alone(), self._index.turn:
            entry = await self._do(lambda: self._create(draft))
            if isinstance(entry, Refused):
                return entry
            self._index.apply(Difference([entry], [], []))
        return draft.id

    def _create(self, draft: Draft) -> Entry | Refused:
        if self._taken(draft.id):
            return _exists(draft.id)
        try:
            stamp = self._journal.create(draft.id, draft.content)
        except LinkFound:
            return Refused("INVALID_PARAMS", "directory is, or is in, a linked folder, which is none of the vault")
        return entry_of(draft.id, draft.content, stamp) if stamp else _exists(draft.id)

    def _taken(self, note_id: str, other_than: str = "") -> bool:
        """Whether there is a note of this id, case aside."""
        wanted = key(stem(note_id))
        if any(node.id != other_than and self._vault.stamp(node.id) for node in self._index.graph.at_path(wanted)):
            return True
        names = self._vault.names_beside(note_id)
        if len(names) > LONG_LIST:
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
        waiting: Waiting = NOBODY,
    ) -> str | Refused:
        """Its id from now on."""
        for _ in range(TRIES):
            if title is not None:
                await self._index.settled(patiently=True)
            with suppress(FileChanged):
                async with self._alone():
                    return await self._update(note_id, title, content, tags, waiting)
            await self._index.look_through()
        raise VaultError(f"{note_id} is being changed by others all the time; nothing was changed, try again")

    async def _update(
        self, note_id: str, title: str | None, content: str | None, tags: Sequence[str] | None, waiting: Waiting
    ) -> str | Refused:
        if title is not None:
            await self._index.look_through()
        async with self._index.turn:
            known = await self._index.found(note_id)
            if known is None:
                return _missing(note_id)
            before = await self._do(lambda: self._vault.read(known.id))
            if before is None:
                self._index.apply(Difference([], [known.id], []))
                return _missing(note_id)
            node = await self._index.seen(known.id, *before)
            draft = await self._do(
                lambda: draft_change(
                    node.id,
                    before[0],
                    title=title,
                    content=content,
                    tags=tags,
                    earlier=partial(self._heads.earlier, node.id),
                )
            )
            if isinstance(draft, Refused):
                return draft
            if title is not None and title != node.facts.title:
                return await self._rename(node, before[0], draft, waiting)
            return await self._replace(node, before[0], draft, has_tags=tags is not None)

    async def _replace(self, node: Node, before: bytes, draft: Draft, *, has_tags: bool) -> str:
        def replace() -> Entry | None:
            found = self._vault.read(node.id)
            if found is None or found[0] != before:
                raise FileChanged(node.id)
            if draft.earlier is not None:
                self._heads.keep(node.id, draft.head, draft.earlier)
            elif has_tags:
                self._heads.forget(node.id)
            if draft.content == before:
                return None
            return entry_of(node.id, draft.content, self._journal.replace(node.id, before, draft.content))

        if (entry := await self._do(replace)) is not None:
            self._index.apply(Difference([entry], [], []))
        return node.id

    async def _rename(self, node: Node, before: bytes, draft: Draft, waiting: Waiting) -> str | Refused:
        graph = self._index.graph
        linking = [other.id for other in graph.incoming(node) if other.id != node.id]
        changes = await self._do(lambda: self._planned(graph, node, before, draft, linking))
        if changes is None:
            return _exists(draft.id)
        is_given_up, total = threading.Event(), 2 * len(changes)
        done = 0

        def tell(number: int, offset: int = 0) -> None:
            nonlocal done
            done = max(done, offset + number)

        def carry_out() -> list[Entry]:
            self._journal.carry_out(lambda number: tell(number, len(changes)))
            self._heads.forget(node.id)
            return [entry_of(each.is_at, each.after, self._vault.stamp(each.is_at) or Stamp(0, 0)) for each in changes]

        async with _told(waiting, lambda: (done, total)):
            try:
                await self._do(lambda: self._journal.prepare(changes, is_given_up.is_set, tell))
            except asyncio.CancelledError:
                is_given_up.set()
                self._thread.submit(self._journal.drop)
                raise
            waiting.decided()
            read = await self._do(carry_out)
        await self._index.apply_in_parts(Difference(read, [node.id] if draft.id != node.id else [], []))
        return draft.id

    def _planned(
        self, graph: Graph, node: Node, before: bytes, draft: Draft, linking: Sequence[str]
    ) -> list[Change] | None:
        """What becomes of the note, and of those that link to it; None if its new name is taken."""
        if draft.id != node.id and self._taken(draft.id, node.id):
            return None
        old, facts = Name(node.id, node.facts.title), facts_of(draft.id, draft.content)
        new, will_lead_there = Name(draft.id, facts.title), graph.resolve_renamed(node, draft.id, facts)
        contents = {each: found[0] for each in linking if (found := self._vault.read(each))}

        def change(note_id: str, content: bytes) -> Mapping[str, str]:
            folder = key(folder_of(note_id))
            return links_to_change(
                decoded(content),
                leads_there=lambda target: (found := graph.resolve(target, folder)) is not None and found is node,
                will_lead_there=lambda target: will_lead_there(target, folder),
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
        async with self._alone(), self._index.turn:
            node = await self._index.found(note_id)
            if node is None:
                return False
            was_there = await self._do(lambda: self._journal.remove(node.id))
            self._index.apply(Difference([], [node.id], []))
            return was_there

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """While no other process writes. It is taken before the index's turn, never after it."""
        async with self._writing:
            try:
                await self._do(self._hold)
                yield
            finally:
                self._thread.submit(self._holding.close)  # after whatever is under way there

    def _hold(self) -> None:
        self._holding.enter_context(locked(self._vault, self._own_folder))
        self._journal.recover()

    async def _do(self, job: Callable[[], T]) -> T:
        """On the thread; a call that is given up does not stop it half-way."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, job))

    async def close(self) -> None:
        """Wait for the write that is under way, off the event loop."""
        await asyncio.to_thread(self._thread.shutdown)


@asynccontextmanager
async def _told(waiting: Waiting, progress: Callable[[], tuple[int, int]]) -> AsyncGenerator[None]:
    """While something is done, tell now and then how far it is, if that is wanted."""

    async def tell_of(tell: Tell) -> None:
        told = 0
        while True:
            await asyncio.sleep(TELL_SECONDS)
            done, total = progress()
            if done > told:
                await tell(done, total, "files written")
                told = done

    telling = asyncio.create_task(tell_of(waiting.tell)) if waiting.tell else None
    try:
        yield
    finally:
        if telling:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)


def _exists(note_id: str) -> Refused:
    return Refused("NODE_EXISTS", f"There is a note at {note_id} already; choose another title or update that one")


def _missing(note_id: str) -> Refused:
    return Refused("NODE_NOT_FOUND", f"There is no note {note_id}")
