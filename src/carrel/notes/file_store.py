"""The store of notes in a folder of Markdown files: answers come from the index, full texts from the files."""

import asyncio
import heapq
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from carrel.common import AsyncProgress
from carrel.notes.frontmatter import read
from carrel.notes.graph import Direction, Metric, Node
from carrel.notes.index import SMALL_NOTE_BYTES, Index
from carrel.notes.note_names import is_attachment, key, name_of
from carrel.notes.note_store import (
    NO_OBSERVER,
    Completions,
    Hub,
    LinkView,
    Listener,
    Neighbor,
    Neighborhood,
    NotesError,
    NoteView,
    Overview,
    Refusal,
    WriteObserver,
    overview_of,
    snapshot,
)
from carrel.notes.parser import decoded, parse, shown
from carrel.notes.vault import NoteTooLarge, Vault, VaultError
from carrel.notes.writer import Writer
from carrel.storage.sqlite import create_folder

PROGRESS_INTERVAL_SECONDS = 0.25
MAX_LISTED_LINKS = 50_000
"""Links in one answer; serializing more would delay other callers."""


class FileStore:
    """The notes of a vault. Implements `NoteStore`."""

    def __init__(self, vault: Vault, own_folder: Path) -> None:
        folder = own_folder / "notes"
        create_folder(folder)
        folder.mkdir(exist_ok=True)
        self.index = Index(vault, folder / "index.db")
        self._vault = vault
        self._writer = Writer(self.index, own_folder)
        self._random = random.SystemRandom()

    async def open(self, *, watch: bool = True) -> None:
        """Recover from a crash, and start the index."""
        await self._writer.recover()
        self.index.start(watch=watch)

    async def wait_until_indexed(self, progress: AsyncProgress) -> None:
        """Wait until all notes are indexed, and report progress meanwhile."""
        reported = 0
        while not self.index.is_ready:
            done, total = self.index.progress
            if done > reported:
                await progress(done, total, "notes indexed")
                reported = done
            await self.index.wait_for_ready(PROGRESS_INTERVAL_SECONDS)

    async def close(self) -> None:
        """Finish the write in progress, and close the index."""
        await self._writer.close()
        await self.index.close()

    async def get(self, note_id: str) -> NoteView | None:
        """Return a note with its full content; None if there is none."""
        await self.index.wait_until_ready()
        node = await self.index.find(note_id)
        return None if node is None else await self._full_view(node)

    async def get_many(self, ids: Sequence[str]) -> list[NoteView]:
        """Return those of these notes that exist, in this order, with excerpts for content."""
        return self._excerpts([node for note_id in ids if (node := self.index.graph.get(note_id)) is not None])

    async def neighborhood(self, note_id: str, direction: Direction, limit: int) -> Neighborhood | None:
        """Return a note's neighbors; None if there is no such note."""
        await self.index.wait_until_ready()
        node = await self.index.find(note_id)
        if node is None:
            return None
        neighbors = self.index.graph.neighbors(node, direction, limit)
        notes = self._excerpts([each for each, _ in neighbors])
        return Neighborhood(
            [Neighbor(note, way) for note, (_, way) in zip(notes, neighbors, strict=True)],
            len(node.into),
            len(node.out),
        )

    async def path(self, source: str, target: str) -> list[str] | None:
        """Return the IDs of the shortest path along links; None if there is none."""
        await self.index.wait_until_ready()
        start, end = await self.index.find(source), await self.index.find(target)
        if start is None or end is None:
            return None
        found = self.index.graph.path(start, end)
        return None if found is None else [node.id for node in found]

    async def hubs(self, metric: Metric, limit: int) -> list[Hub]:
        """Return the notes with the most links."""
        await self.index.wait_until_ready()
        return [Hub(node.id, node.facts.title, score) for node, score in self.index.graph.hubs(metric, limit)]

    async def find_by_tags(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]:
        """Return the notes that have one of the tags, or all of them, by ID."""
        await self.index.wait_until_ready()
        return self._excerpts(self.index.graph.find_by_tags(tags, all_of_them=all_of_them, limit=limit))

    async def random(self, tags: Sequence[str] | None) -> NoteView | None:
        """Return a note with one of the tags, or any note, each with the same probability."""
        await self.index.wait_until_ready()
        while (node := self.index.graph.random(tags, self._random)) is not None:
            if (found := await self._full_view(node)) is not None:
                return found
        return None

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> NoteView | Refusal:
        """Write a new note."""
        return await self._written(await self._writer.create(title, content, tags, directory))

    async def update(
        self,
        note_id: str,
        *,
        title: str | None,
        content: str | None,
        tags: Sequence[str] | None,
        observer: WriteObserver = NO_OBSERVER,
    ) -> NoteView | Refusal:
        """Change title, content or tags of a note; a new title may change its ID and the links to it."""
        await self.index.wait_until_ready()
        outcome = await self._writer.update(note_id, title=title, content=content, tags=tags, observer=observer)
        return await self._written(outcome)

    async def _written(self, outcome: str | Refusal) -> NoteView | Refusal:
        if isinstance(outcome, Refusal):
            return outcome
        note = await self.get(outcome)
        if note is None:
            raise VaultError(f"{outcome} was written, and somebody else has removed it since")
        return note

    async def delete(self, note_id: str) -> bool:
        """Delete a note; return whether there was one."""
        await self.index.wait_until_ready()
        return await self._writer.delete(note_id)

    async def page(self, after: str, limit: int) -> list[LinkView]:
        """Return notes in order of their IDs, beginning after the ID `after`."""
        await self.index.wait_until_ready()
        behind = (node for node in self.index.graph if node.id > after)
        nodes = heapq.nsmallest(limit, behind, key=lambda node: node.id)
        return [LinkView(node.id, node.facts.title) for node in nodes]

    async def overview(self, most: int) -> Overview:
        """Return all notes and links, or the `most` best linked notes."""
        await self.index.wait_until_ready(no_timeout=True)
        return await asyncio.to_thread(overview_of, snapshot(self.index.graph), most)

    async def completions(self, start: str, limit: int) -> Completions:
        """Return IDs with this prefix, then those with a folder or file name that has it."""
        await self.index.wait_until_ready()
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
        """Call the listener on every change."""
        self.index.listeners.append(listener)

    def watch(self) -> Callable[[], None]:
        """Do nothing: the index always watches the files."""
        return lambda: None

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call, and clear them."""
        return self.index.take_warnings()

    async def _full_view(self, node: Node) -> NoteView | None:
        entry = self.index.entry(node.id)
        is_small = entry is not None and entry.stamp.size <= SMALL_NOTE_BYTES
        try:
            found = (
                self._vault.read(node.id)
                if is_small
                else await self.index.on_reader_thread(lambda: self._vault.read(node.id))
            )
        except NoteTooLarge as error:
            node = self.index.refresh_too_large(error)
            return self._view(node, "", node.facts.warnings)
        if found is None:
            self.index.remove(node.id)
            return None
        node = await self.index.refresh_off_loop(node.id, *found)
        has_broken = node.unresolved
        if len(found[0]) <= SMALL_NOTE_BYTES:
            content, links = _content_and_links(node.id, found[0], has_broken=has_broken)
        else:
            content, links = await self.index.on_reader_thread(
                lambda: _content_and_links(node.id, found[0], has_broken=has_broken)
            )
        return self._view(node, content, [*self._broken_links(node, links), *node.facts.warnings])

    def _excerpts(self, nodes: Sequence[Node]) -> list[NoteView]:
        if sum(len(node.out) for node in nodes) > MAX_LISTED_LINKS:
            raise NotesError(f"these notes have over {MAX_LISTED_LINKS:,} links together: ask for fewer at a time")
        return [self._view(node, node.facts.excerpt.decode(), ()) for node in nodes]

    def _view(self, node: Node, content: str, warnings: Sequence[str]) -> NoteView:
        links = [LinkView(other.id, other.facts.title) for other in self.index.graph.outgoing(node)]
        return NoteView(node.id, node.facts.title, content, node.facts.tags, links, warnings)

    def _broken_links(self, node: Node, links: Sequence[tuple[str, str]]) -> list[str]:
        """Return the warnings of links that lead nowhere, each once."""
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
