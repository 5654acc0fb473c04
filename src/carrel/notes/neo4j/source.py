"""The notes in the database as documents to search."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from carrel.notes.neo4j.records import title_of
from carrel.notes.neo4j.store import Neo4jStore
from carrel.notes.search import passages
from carrel.search.document import Document

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
