"""Creating, changing and deleting notes: one at a time, also between processes."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from carrel.notes.drafting import Draft, draft_change, draft_new
from carrel.notes.facts import decoded, facts_of
from carrel.notes.graph import Node
from carrel.notes.heads import Heads
from carrel.notes.index import Index
from carrel.notes.indexing import Difference, entry_of
from carrel.notes.journal import Change, FileChanged, Journal
from carrel.notes.locking import locked
from carrel.notes.names import is_note, key, stem
from carrel.notes.rewriting import Name, links_to_change, rewritten
from carrel.notes.store import Refused
from carrel.notes.trash import Trash
from carrel.notes.vault import Stamp, Vault, VaultError

log = logging.getLogger("carrel.notes")

T = TypeVar("T")

TRIES = 5
"""For a note that others change at the same time."""
LONG_LIST = 5000
"""Files in a folder that are looked through for one whose name differs in case only; beyond, the index knows."""


class Writer:
    def __init__(self, index: Index, own_folder: Path) -> None:
        self._index = index
        self._vault: Vault = index.vault
        self._lock = own_folder / "notes" / "lock"
        self._trash = Trash(self._vault, own_folder)
        self._journal = Journal(self._vault, own_folder / "notes")
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
        draft = draft_new(title, content, tags, directory)
        if isinstance(draft, Refused):
            return draft
        if self._vault.ignores(draft.id):
            return Refused("INVALID_PARAMS", "directory is one that the settings leave out of the vault")
        async with self._alone(), self._index.turn:
            stamp = await self._do(lambda: self._create(draft))
            if isinstance(stamp, Refused):
                return stamp
            self._index.apply(Difference([entry_of(draft.id, draft.content, stamp)], [], []))
        return draft.id

    def _create(self, draft: Draft) -> Stamp | Refused:
        folder = os.path.dirname(self._vault.path(draft.id))
        inside = str(self._vault.folder)
        if not (os.path.realpath(folder) + os.sep).startswith(inside + os.sep):
            return Refused("INVALID_PARAMS", "directory leads outside the vault")
        if self._taken(draft.id):
            return _exists(draft.id)
        with self._journal.writing(draft.id):
            return self._vault.create(draft.id, draft.content) or _exists(draft.id)

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
        self, note_id: str, *, title: str | None, content: str | None, tags: Sequence[str] | None
    ) -> str | Refused:
        """Its id from now on."""
        for _ in range(TRIES):
            if title is not None:
                await self._index.settled(patiently=True)
            with suppress(FileChanged):
                async with self._alone():
                    return await self._update(note_id, title, content, tags)
            await self._index.look_through()
        raise VaultError(f"{note_id} is being changed by others all the time; nothing was changed, try again")

    async def _update(
        self, note_id: str, title: str | None, content: str | None, tags: Sequence[str] | None
    ) -> str | Refused:
        if title is not None:
            await self._index.look_through()
        async with self._index.turn:
            known = self._index.find(note_id)
            if known is None:
                return _missing(note_id)
            before = await self._do(lambda: self._vault.read(known.id))
            if before is None:
                self._index.apply(Difference([], [known.id], []))
                return _missing(note_id)
            node = self._index.see(known.id, *before)
            earlier = partial(self._heads.earlier, node.id)
            draft = draft_change(node.id, before[0], title=title, content=content, tags=tags, earlier=earlier)
            if isinstance(draft, Refused):
                return draft
            if title is not None and title != node.facts.title:
                return await self._rename(node, before[0], draft)
            return await self._replace(node, before[0], draft, has_tags=tags is not None)

    async def _replace(self, node: Node, before: bytes, draft: Draft, *, has_tags: bool) -> str:
        def replace() -> Stamp:
            found = self._vault.read(node.id)
            if found is None or found[0] != before:
                raise FileChanged(node.id)
            if draft.earlier is not None:
                self._heads.keep(node.id, draft.head, draft.earlier)
            elif has_tags:
                self._heads.forget(node.id)
            if draft.content == before:
                return found[1]
            with self._journal.writing(node.id):
                return self._vault.replace(node.id, draft.content)

        stamp = await self._do(replace)
        self._index.apply(Difference([entry_of(node.id, draft.content, stamp)], [], []))
        return node.id

    async def _rename(self, node: Node, before: bytes, draft: Draft) -> str | Refused:
        if draft.id != node.id and await self._do(lambda: self._taken(draft.id, node.id)):
            return _exists(draft.id)
        linking = [other.id for other in self._index.graph.incoming(node) if other.id != node.id]
        contents = await self._do(lambda: {each: found[0] for each in linking if (found := self._vault.read(each))})
        changes = self._planned(node, before, draft, contents)

        def commit() -> list[Stamp]:
            if draft.id != node.id and self._taken(draft.id, node.id):
                raise FileChanged(draft.id)
            self._journal.commit(changes)
            self._heads.forget(node.id)
            return [self._vault.stamp(change.is_at) or Stamp(0, 0) for change in changes]

        stamps = await self._do(commit)
        read = [entry_of(each.is_at, each.after, stamp) for each, stamp in zip(changes, stamps, strict=True)]
        self._index.apply(Difference(read, [node.id] if draft.id != node.id else [], []))
        return draft.id

    def _planned(self, node: Node, before: bytes, draft: Draft, linking: dict[str, bytes]) -> list[Change]:
        """What becomes of the note and of those that link to it. The graph is as if it were done, for a moment."""
        graph, old = self._index.graph, Name(node.id, node.facts.title)
        facts = facts_of(draft.id, draft.content)
        new = Name(draft.id, facts.title)
        sources = {node.id: draft.content, **linking}
        folders = {note_id: key(note_id[: note_id.rfind("/") + 1]) for note_id in sources}
        leading = {note_id: _leading(graph.resolve, folder, node.id) for note_id, folder in folders.items()}
        now = {
            note_id: {target for target in facts_of(note_id, content).targets if leading[note_id](target)}
            for note_id, content in sources.items()
        }
        kept = node.facts
        graph.remove(node.id)
        graph.put(draft.id, facts)
        try:
            links = {
                note_id: links_to_change(
                    decoded(content),
                    leads_there=now[note_id].__contains__,
                    will_lead_there=_leading(graph.resolve, folders[note_id], draft.id),
                    before=old,
                    after=new,
                )
                for note_id, content in sources.items()
            }
        finally:
            graph.remove(draft.id)
            graph.put(node.id, kept)
        own = Change(node.id, before, rewritten(draft.content, links[node.id]), links[node.id], draft.id)
        return [
            *(
                Change(each, linking[each], rewritten(linking[each], links[each]), links[each])
                for each in linking
                if links[each]
            ),
            own,
        ]

    async def delete(self, note_id: str) -> bool:
        async with self._alone(), self._index.turn:
            node = self._index.find(note_id)
            if node is None:
                return False
            was_there = await self._do(lambda: self._trash.take(node.id))
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
        self._holding.enter_context(locked(self._lock))
        self._journal.recover(rewritten)

    async def _do(self, job: Callable[[], T]) -> T:
        """On the thread; a call that is given up does not stop it half-way."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, job))

    async def close(self) -> None:
        """Wait for the write that is under way, off the event loop."""
        await asyncio.to_thread(self._thread.shutdown)


def _leading(resolve: Callable[[str, str], Node | None], folder: str, note_id: str) -> Callable[[str], bool]:
    def leads(target: str) -> bool:
        node = resolve(target, folder)
        return node is not None and node.id == note_id

    return leads


def _exists(note_id: str) -> Refused:
    return Refused("NODE_EXISTS", f"There is a note at {note_id} already; choose another title or update that one")


def _missing(note_id: str) -> Refused:
    return Refused("NODE_NOT_FOUND", f"There is no note {note_id}")
