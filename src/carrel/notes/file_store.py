"""Notes in a folder of markdown files."""

import asyncio
import heapq
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from carrel.common import Tell
from carrel.notes.frontmatter import read
from carrel.notes.graph import Direction, Metric, Node
from carrel.notes.index import SMALL, Index
from carrel.notes.note_names import is_attachment, key, name_of
from carrel.notes.note_store import (
    NOBODY,
    Completions,
    Hub,
    LinkView,
    Listener,
    Neighbor,
    NotesError,
    NoteView,
    Overview,
    Refused,
    Surroundings,
    Waiting,
    overview_of,
    take,
)
from carrel.notes.parser import decoded, parse, shown
from carrel.notes.vault import TooLarge, Vault, VaultError
from carrel.notes.writer import Writer
from carrel.storage.sqlite import create_folder

TELL_SECONDS = 0.25
MAX_LINKS_IN_ALL = 50_000
"""Links of the notes of one answer: to write down more would keep others waiting."""


class FileStore:
    """A vault. Every answer is from the index; the whole text of a note, from its file."""

    def __init__(self, vault: Vault, own_folder: Path) -> None:
        folder = own_folder / "notes"
        create_folder(folder)
        folder.mkdir(exist_ok=True)
        self.index = Index(vault, folder / "index.db")
        self._vault = vault
        self._writer = Writer(self.index, own_folder)
        self._random = random.SystemRandom()

    async def open(self, *, watch: bool = True) -> None:
        await self._writer.recover()
        self.index.start(watch=watch)

    async def prepared(self, tell: Tell) -> None:
        """Wait until all notes are indexed, and tell how far that is."""
        told = 0
        while not self.index.is_ready:
            done, total = self.index.progress
            if done > told:
                await tell(done, total, "notes indexed")
                told = done
            await self.index.ready_within(TELL_SECONDS)

    async def close(self) -> None:
        await self._writer.close()
        await self.index.close()

    async def get(self, note_id: str) -> NoteView | None:
        await self.index.settled()
        node = await self.index.found(note_id)
        return None if node is None else await self._whole(node)

    async def some(self, ids: Sequence[str]) -> list[NoteView]:
        return self._shorts([node for note_id in ids if (node := self.index.graph.get(note_id)) is not None])

    async def surroundings(self, note_id: str, direction: Direction, limit: int) -> Surroundings | None:
        await self.index.settled()
        node = await self.index.found(note_id)
        if node is None:
            return None
        neighbors = self.index.graph.neighbors(node, direction, limit)
        notes = self._shorts([each for each, _ in neighbors])
        return Surroundings(
            [Neighbor(note, way) for note, (_, way) in zip(notes, neighbors, strict=True)],
            len(node.into),
            len(node.out),
        )

    async def path(self, source: str, target: str) -> list[str] | None:
        await self.index.settled()
        start, end = await self.index.found(source), await self.index.found(target)
        if start is None or end is None:
            return None
        found = self.index.graph.path(start, end)
        return None if found is None else [node.id for node in found]

    async def hubs(self, metric: Metric, limit: int) -> list[Hub]:
        await self.index.settled()
        return [Hub(node.id, node.facts.title, score) for node, score in self.index.graph.hubs(metric, limit)]

    async def tagged(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]:
        await self.index.settled()
        return self._shorts(self.index.graph.tagged(tags, all_of_them=all_of_them, limit=limit))

    async def random(self, tags: Sequence[str] | None) -> NoteView | None:
        await self.index.settled()
        while (node := self.index.graph.random(tags, self._random)) is not None:
            if (found := await self._whole(node)) is not None:
                return found
        return None

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> NoteView | Refused:
        return await self._written(await self._writer.create(title, content, tags, directory))

    async def update(
        self,
        note_id: str,
        *,
        title: str | None,
        content: str | None,
        tags: Sequence[str] | None,
        waiting: Waiting = NOBODY,
    ) -> NoteView | Refused:
        await self.index.settled()
        outcome = await self._writer.update(note_id, title=title, content=content, tags=tags, waiting=waiting)
        return await self._written(outcome)

    async def _written(self, outcome: str | Refused) -> NoteView | Refused:
        if isinstance(outcome, Refused):
            return outcome
        note = await self.get(outcome)
        if note is None:
            raise VaultError(f"{outcome} was written, and somebody else has removed it since")
        return note

    async def delete(self, note_id: str) -> bool:
        await self.index.settled()
        return await self._writer.delete(note_id)

    async def page(self, after: str, limit: int) -> list[LinkView]:
        await self.index.settled()
        behind = (node for node in self.index.graph if node.id > after)
        nodes = heapq.nsmallest(limit, behind, key=lambda node: node.id)
        return [LinkView(node.id, node.facts.title) for node in nodes]

    async def overview(self, most: int) -> Overview:
        await self.index.settled(patiently=True)
        return await asyncio.to_thread(overview_of, take(self.index.graph), most)

    async def completions(self, start: str, limit: int) -> Completions:
        await self.index.settled()
        wanted = key(start)
        inner = f"/{wanted}"
        first: list[str] = []
        second: list[str] = []
        for node in self.index.graph:
            if node.path.startswith(wanted):
                first.append(node.id)
            elif inner in node.path:
                second.append(node.id)
        found = [*heapq.nsmallest(limit, first), *heapq.nsmallest(limit, second)][:limit]
        return Completions(found, len(first) + len(second))

    def listen(self, listener: Listener) -> None:
        self.index.listeners.append(listener)

    def follow(self) -> Callable[[], None]:
        """They are followed as it is."""
        return lambda: None

    def collected(self) -> list[str]:
        return self.index.warnings()

    async def _whole(self, node: Node) -> NoteView | None:
        entry = self.index.entry(node.id)
        is_small = entry is not None and entry.stamp.size <= SMALL
        try:
            found = (
                self._vault.read(node.id)
                if is_small
                else await self.index.read_apart(lambda: self._vault.read(node.id))
            )
        except TooLarge as error:
            node = self.index.see_unread(error)
            return self._view(node, "", node.facts.warnings)
        if found is None:
            self.index.forget(node.id)
            return None
        node = await self.index.seen(node.id, *found)
        has_broken = node.unresolved
        if len(found[0]) <= SMALL:
            content, links = _content_and_links(node.id, found[0], has_broken=has_broken)
        else:
            content, links = await self.index.read_apart(
                lambda: _content_and_links(node.id, found[0], has_broken=has_broken)
            )
        return self._view(node, content, [*self._broken(node, links), *node.facts.warnings])

    def _shorts(self, nodes: Sequence[Node]) -> list[NoteView]:
        if sum(len(node.out) for node in nodes) > MAX_LINKS_IN_ALL:
            raise NotesError(f"these notes have over {MAX_LINKS_IN_ALL:,} links together: ask for fewer at a time")
        return [self._view(node, node.facts.head.decode(), ()) for node in nodes]

    def _view(self, node: Node, content: str, warnings: Sequence[str]) -> NoteView:
        links = [LinkView(other.id, other.facts.title) for other in self.index.graph.outgoing(node)]
        return NoteView(node.id, node.facts.title, content, node.facts.tags, links, warnings)

    def _broken(self, node: Node, links: Sequence[tuple[str, str]]) -> list[str]:
        """Those of them that lead nowhere, as they are written."""
        resolve, folder = self.index.graph.resolve, node.folder
        return list(dict.fromkeys(said for target, said in links if resolve(target, folder) is None))


def _content_and_links(note_id: str, file: bytes, *, has_broken: bool) -> tuple[str, list[tuple[str, str]]]:
    """The content of a note; and, if any is broken, the keys of its links, with what is to be said of them then."""
    text = decoded(file)
    links = parse(text, name_of(note_id)).links if has_broken else ()
    keys = [
        (target, f"Broken link: {shown(f'[[{link.target}]]' if link.is_wiki else link.written(text))}")
        for link in links
        if not is_attachment(target := key(shown(link.target)))
    ]
    return shown(text[read(text).body :]), keys
