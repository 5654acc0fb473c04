"""Notes in Neo4j, with the same answers as those in files, and as documents to search."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Final

from carrel.notes.graph import Direction, Metric
from carrel.notes.neo4j import queries
from carrel.notes.neo4j.connection import Connection, NotAllowed, gone_between, state
from carrel.notes.neo4j.constraints import adopt, prepare
from carrel.notes.neo4j.records import title_of
from carrel.notes.neo4j.transactions import Writer, Written
from carrel.notes.note_search import passages
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
)
from carrel.search.documents import Document

FRESH = 0.5

CHANGED: Final = "MATCH (n:Node) WHERE n.turn > $after AND n.turn <= $until RETURN n.id AS id"
PLACES: Final = """
MATCH (n:Node) WHERE n.id IN $ids RETURN n.id AS id, n.path AS path
UNION
MATCH (n:Node) WHERE n.path IN $paths RETURN n.id AS id, n.path AS path
"""

log = logging.getLogger("carrel.notes")


class Neo4jStore:
    """Connects when it is first asked. Raises `NotesError`."""

    def __init__(self, connection: Connection, *, fresh: float = FRESH) -> None:
        """For `fresh` seconds nobody looks whether others have changed the notes."""
        self.connection = connection
        self._fresh = fresh
        self._listeners: list[Listener] = []
        self._followers = 0
        self._writer = Writer(connection)
        self._is_prepared = False
        self._looked = 0.0
        self._turn = 0
        """The last change that the listeners know of."""
        self._looking = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._following:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self.connection.close()

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def follow(self) -> Callable[[], None]:
        self._followers += 1
        if self.is_at_rest:
            self._following = asyncio.create_task(self._follow())
        is_stopped = False

        def stop() -> None:
            nonlocal is_stopped
            self._followers -= not is_stopped
            is_stopped = True

        return stop

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody looks for others' changes."""
        return self._following is None or self._following.done()

    async def _follow(self) -> None:
        while self._followers:
            try:
                await self.ready()
            except NotesError as error:
                log.debug("the notes in the database are not followed at the moment: %s", error)
            await asyncio.sleep(self._fresh)

    async def ready(self) -> None:
        """Take in what others have changed."""
        if self._is_prepared and time.monotonic() < self._looked + self._fresh:
            return
        async with self._looking:
            if not self._is_prepared:
                await prepare(self.connection)
                self._turn = (await state(self.connection)).turn
                self._is_prepared = True
            elif time.monotonic() >= self._looked + self._fresh:
                await self._look()
            self._looked = time.monotonic()

    async def _look(self) -> None:
        now = await state(self.connection)
        if now.has_strangers:
            with suppress(NotAllowed):
                await adopt(self.connection)
            now = await state(self.connection)
        if now.turn != self._turn:
            if self._listeners:
                rows = await self.connection.read(CHANGED, after=self._turn, until=now.turn)
                changed = [row["id"] for row in rows]
                gone = set(await gone_between(self.connection, self._turn, now.turn)).difference(changed)
                self.tell(changed, sorted(gone), now.listed > self._turn)
            self._turn = now.turn

    def tell(self, changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
        if changed or gone or has_others:
            for listener in self._listeners:
                listener(changed, gone, has_others)

    def _tell_of(self, written: Written) -> None:
        """And not again when we look what others did, unless they did something at the same time."""
        if written.turn == self._turn + 1:
            self._turn = written.turn
        self.tell(written.changed, written.gone, written.is_new or bool(written.gone))

    async def get(self, note_id: str) -> NoteView | None:
        await self.ready()
        return await queries.whole(self.connection, note_id)

    async def some(self, ids: Sequence[str]) -> list[NoteView]:
        return await queries.some(self.connection, ids)

    async def surroundings(self, note_id: str, direction: Direction, limit: int) -> Surroundings | None:
        await self.ready()
        found = await queries.around(self.connection, note_id, direction, limit)
        if found is None:
            return None
        notes = await queries.some(self.connection, list(found.ways))
        return Surroundings([Neighbor(note, found.ways[note.id]) for note in notes], found.incoming, found.outgoing)

    async def path(self, source: str, target: str) -> list[str] | None:
        await self.ready()
        paths = [*queries.paths_of(source), *queries.paths_of(target)]
        rows = await self.connection.read(PLACES, ids=[source, target], paths=paths)
        start, end = queries.meant(source, rows), queries.meant(target, rows)
        if start is None or end is None:
            return None
        return await queries.first_path(self.connection, start["id"], end["id"])

    async def hubs(self, metric: Metric, limit: int) -> list[Hub]:
        await self.ready()
        return await queries.hubs(self.connection, metric, limit)

    async def tagged(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]:
        await self.ready()
        return await queries.tagged(self.connection, tags, all_of_them=all_of_them, limit=limit)

    async def random(self, tags: Sequence[str] | None) -> NoteView | None:
        await self.ready()
        return await queries.random_one(self.connection, tags)

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> NoteView | Refused:
        await self.ready()
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
        """All of it is one transaction: nothing is decided before its end."""
        await self.ready()
        return await self._written(await self._writer.update(note_id, title=title, content=content, tags=tags))

    async def delete(self, note_id: str) -> bool:
        await self.ready()
        written = await self._writer.delete(note_id)
        if written is None:
            return False
        self._tell_of(written)
        return True

    async def page(self, after: str, limit: int) -> list[LinkView]:
        await self.ready()
        return await queries.page(self.connection, after, limit)

    async def overview(self, most: int) -> Overview:
        await self.ready()
        return await queries.overview(self.connection, most)

    async def completions(self, start: str, limit: int) -> Completions:
        await self.ready()
        return await queries.completions(self.connection, start, limit)

    def collected(self) -> list[str]:
        """Nothing: what is wrong with a note is said with it."""
        return []

    async def _written(self, outcome: Written | Refused) -> NoteView | Refused:
        if isinstance(outcome, Refused):
            return outcome
        self._tell_of(outcome)
        note = await queries.whole(self.connection, outcome.id)
        if note is None:
            raise NotesError(f"{outcome.id} was written, and somebody else has removed it since")
        return note


VERSIONS: Final = "MATCH (n:Node) WHERE n.version IS NOT NULL RETURN n.id AS id, n.version AS version"
DOCUMENTS: Final = """
MATCH (n:Node) WHERE n.id IN $ids
RETURN n.id AS id, n.title AS title, n.content AS content, n.version AS version, n.turn AS turn
"""


class Neo4jSource:
    def __init__(self, store: Neo4jStore, collection: str = "notes") -> None:
        self._store = store
        self.collection = collection

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        await self._store.ready()
        for row in await self._store.connection.read(VERSIONS):
            yield row["id"], row["version"]

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        rows = {row["id"]: row for row in await self._store.connection.read(DOCUMENTS, ids=list(ids))}
        return [
            Document(
                id=note_id,
                title=title_of(note_id, row["title"]),
                passages=passages(row["content"] or ""),
                version=row["version"] or "",
                newness=row["turn"] or 0,
            )
            for note_id in ids
            if (row := rows.get(note_id)) is not None
        ]
