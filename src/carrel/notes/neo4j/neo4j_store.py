"""The store of notes in Neo4j, with the same answers as the one in files, and its documents for search."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Final

from carrel.notes.graph import Direction, Metric
from carrel.notes.neo4j import queries
from carrel.notes.neo4j.connection import Connection, PermissionDenied, read_state, removed_between
from carrel.notes.neo4j.constraints import adopt, prepare
from carrel.notes.neo4j.records import title_of
from carrel.notes.neo4j.transactions import Writer, Written
from carrel.notes.note_search import passages
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
)
from carrel.search.documents import Document

REFRESH_SECONDS = 0.5

CHANGED: Final = "MATCH (n:Node) WHERE n.turn > $after AND n.turn <= $until RETURN n.id AS id"
IDS_AND_PATHS: Final = """
MATCH (n:Node) WHERE n.id IN $ids RETURN n.id AS id, n.path AS path
UNION
MATCH (n:Node) WHERE n.path IN $paths RETURN n.id AS id, n.path AS path
"""

log = logging.getLogger("carrel.notes")


class Neo4jStore:
    """The notes of a database, connected on first use. Implements `NoteStore`."""

    def __init__(self, connection: Connection, *, refresh_seconds: float = REFRESH_SECONDS) -> None:
        """Other programs' changes are looked for at most every `refresh_seconds`."""
        self.connection = connection
        self._refresh_seconds = refresh_seconds
        self._listeners: list[Listener] = []
        self._watchers = 0
        self._writer = Writer(connection)
        self._is_prepared = False
        self._checked_at = 0.0
        self._revision = 0
        """The last change that the listeners know of."""
        self._check_lock = asyncio.Lock()
        self._watch_task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop watching, and close the connection."""
        if self._watch_task:
            self._watch_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch_task
        await self.connection.close()

    def listen(self, listener: Listener) -> None:
        """Call the listener on every change."""
        self._listeners.append(listener)

    def watch(self) -> Callable[[], None]:
        """Look for other programs' changes at intervals until the returned function is called."""
        self._watchers += 1
        if self.is_idle:
            self._watch_task = asyncio.create_task(self._watch_loop())
        is_stopped = False

        def stop() -> None:
            nonlocal is_stopped
            self._watchers -= not is_stopped
            is_stopped = True

        return stop

    @property
    def is_idle(self) -> bool:
        """Whether no task looks for other programs' changes."""
        return self._watch_task is None or self._watch_task.done()

    async def _watch_loop(self) -> None:
        while self._watchers:
            try:
                await self.ready()
            except NotesError as error:
                log.debug("the notes in the database are not followed at the moment: %s", error)
            await asyncio.sleep(self._refresh_seconds)

    async def ready(self) -> None:
        """Prepare the database once, and take in what others have changed."""
        if self._is_prepared and time.monotonic() < self._checked_at + self._refresh_seconds:
            return
        async with self._check_lock:
            if not self._is_prepared:
                await prepare(self.connection)
                self._revision = (await read_state(self.connection)).revision
                self._is_prepared = True
            elif time.monotonic() >= self._checked_at + self._refresh_seconds:
                await self._check_for_changes()
            self._checked_at = time.monotonic()

    async def _check_for_changes(self) -> None:
        now = await read_state(self.connection)
        if now.has_external_changes:
            with suppress(PermissionDenied):
                await adopt(self.connection)
            now = await read_state(self.connection)
        if now.revision != self._revision:
            if self._listeners:
                rows = await self.connection.read(CHANGED, after=self._revision, until=now.revision)
                changed = [row["id"] for row in rows]
                gone = set(await removed_between(self.connection, self._revision, now.revision)).difference(changed)
                self.notify(changed, sorted(gone), now.listed > self._revision)
            self._revision = now.revision

    def notify(self, changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
        """Call the listeners, if there is anything to report."""
        if changed or gone or has_others:
            for listener in self._listeners:
                listener(changed, gone, has_others)

    def _notify_written(self, written: Written) -> None:
        """Report our own change, and skip it in the next look unless another came in between."""
        if written.revision == self._revision + 1:
            self._revision = written.revision
        self.notify(written.changed, written.gone, written.is_new or bool(written.gone))

    async def get(self, note_id: str) -> NoteView | None:
        """Return a note with its full content; None if there is none."""
        await self.ready()
        return await queries.whole(self.connection, note_id)

    async def get_many(self, ids: Sequence[str]) -> list[NoteView]:
        """Return those of these notes that exist, in this order, with excerpts for content."""
        return await queries.get_many(self.connection, ids)

    async def neighborhood(self, note_id: str, direction: Direction, limit: int) -> Neighborhood | None:
        """Return a note's neighbors; None if there is no such note."""
        await self.ready()
        found = await queries.neighborhood(self.connection, note_id, direction, limit)
        if found is None:
            return None
        notes = await queries.get_many(self.connection, list(found.directions))
        return Neighborhood(
            [Neighbor(note, found.directions[note.id]) for note in notes], found.incoming, found.outgoing
        )

    async def path(self, source: str, target: str) -> list[str] | None:
        """Return the IDs of the shortest path along links; None if there is none."""
        await self.ready()
        paths = [*queries.paths_of(source), *queries.paths_of(target)]
        rows = await self.connection.read(IDS_AND_PATHS, ids=[source, target], paths=paths)
        start, end = queries.matching_row(source, rows), queries.matching_row(target, rows)
        if start is None or end is None:
            return None
        return await queries.first_path(self.connection, start["id"], end["id"])

    async def hubs(self, metric: Metric, limit: int) -> list[Hub]:
        """Return the notes with the most links."""
        await self.ready()
        return await queries.hubs(self.connection, metric, limit)

    async def find_by_tags(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]:
        """Return the notes that have one of the tags, or all of them, by ID."""
        await self.ready()
        return await queries.find_by_tags(self.connection, tags, all_of_them=all_of_them, limit=limit)

    async def random(self, tags: Sequence[str] | None) -> NoteView | None:
        """Return a note with one of the tags, or any note, each with the same probability."""
        await self.ready()
        return await queries.random_one(self.connection, tags)

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> NoteView | Refusal:
        """Write a new note."""
        await self.ready()
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
        """Change a note in one transaction, which nothing commits before its end: `observer` is not needed."""
        await self.ready()
        return await self._written(await self._writer.update(note_id, title=title, content=content, tags=tags))

    async def delete(self, note_id: str) -> bool:
        """Delete a note; return whether there was one."""
        await self.ready()
        written = await self._writer.delete(note_id)
        if written is None:
            return False
        self._notify_written(written)
        return True

    async def page(self, after: str, limit: int) -> list[LinkView]:
        """Return notes in order of their IDs, beginning after the ID `after`."""
        await self.ready()
        return await queries.page(self.connection, after, limit)

    async def overview(self, most: int) -> Overview:
        """Return all notes and links, or the `most` best linked notes."""
        await self.ready()
        return await queries.overview(self.connection, most)

    async def completions(self, start: str, limit: int) -> Completions:
        """Return IDs with this prefix, then those with a folder or file name that has it."""
        await self.ready()
        return await queries.completions(self.connection, start, limit)

    def take_warnings(self) -> list[str]:
        """Return nothing: warnings come with their notes."""
        return []

    async def _written(self, outcome: Written | Refusal) -> NoteView | Refusal:
        if isinstance(outcome, Refusal):
            return outcome
        self._notify_written(outcome)
        note = await queries.whole(self.connection, outcome.id)
        if note is None:
            raise NotesError(f"{outcome.id} was written, and somebody else has removed it since")
        return note


VERSIONS: Final = "MATCH (n:Node) WHERE n.version IS NOT NULL RETURN n.id AS id, n.version AS version"
DOCUMENTS: Final = """
MATCH (n:Node) WHERE n.id IN $ids
RETURN n.id AS id, n.title AS title, n.content AS content, n.version AS version, n.turn AS revision
"""


class Neo4jSource:
    """The notes of a database as documents to search."""

    def __init__(self, store: Neo4jStore, collection: str = "notes") -> None:
        self._store = store
        self.collection = collection

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        """Yield every note with its version."""
        await self._store.ready()
        for row in await self._store.connection.read(VERSIONS):
            yield row["id"], row["version"]

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        """Return these notes as documents; those that are gone are left out."""
        rows = {row["id"]: row for row in await self._store.connection.read(DOCUMENTS, ids=list(ids))}
        return [
            Document(
                id=note_id,
                title=title_of(note_id, row["title"]),
                passages=passages(row["content"] or ""),
                version=row["version"] or "",
                newness=row["revision"] or 0,
            )
            for note_id in ids
            if (row := rows.get(note_id)) is not None
        ]
