"""Entities as documents to search: their summaries and quotable blocks."""

from collections.abc import AsyncIterator, Sequence

from carrel.search.documents import Document, Passage, split
from carrel.storage.database import Database, Row, Session

VERSIONS_BATCH_ROWS = 2000

_ENTITIES = """
    SELECT entity.pk, entity.id, title, entity_type, status, project.slug, summary, entity.updated_at,
           (SELECT count(*) FROM {blocks}), (SELECT sum(updated_at) FROM {blocks})
    FROM entity JOIN project ON project.pk = entity.project_pk WHERE {{}}
""".format(blocks="quotable_block WHERE quotable_block.project_pk = entity.project_pk AND entity_pk = entity.pk")
_BLOCKS = """
    SELECT entity_pk, topic_tag, text FROM entity JOIN quotable_block
    ON quotable_block.project_pk = entity.project_pk AND entity_pk = entity.pk
    WHERE {} ORDER BY quotable_block.id
"""


class ContentSource:
    """The entities of all projects, each with its project's slug to filter by."""

    collection = "content"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        after, some = _ENTITIES.format("entity.pk > :after ORDER BY entity.pk LIMIT :most"), True
        place = 0
        while some:
            parameters = {"after": place, "most": VERSIONS_BATCH_ROWS}
            rows = await self._database.read(lambda session, given=parameters: session.all(after, given))
            for row in rows:
                yield row[1], _version(row)
            some = bool(rows)
            place = rows[-1][0] if rows else place

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        async def read(session: Session) -> tuple[list[Row], list[Row]]:
            chosen = session.syntax.among("entity.id", "ids")
            given = {"ids": session.syntax.values(ids)}
            return (
                await session.all(_ENTITIES.format(chosen), given),
                await session.all(_BLOCKS.format(chosen), given),
            )

        rows, blocks = await self._database.read(read)
        passages: dict[int, list[Passage]] = {}
        for entity_pk, topic, text in blocks:
            passages.setdefault(entity_pk, []).extend(Passage(part, topic or "") for part in split(text))
        return [_document(row, passages.get(row[0], [])) for row in rows]


def _document(row: Row, blocks: Sequence[Passage]) -> Document:
    _, entity_id, title, entity_type, status, project, summary, updated_at, *_ = row
    summaries = [Passage(part) for part in split(summary or "")]
    filters = {"project": project, "type": entity_type, "status": status}
    return Document(entity_id, title, [*summaries, *blocks], _version(row), updated_at, filters)


def _version(row: Row) -> str:
    """Return a version that changes with the entity, its blocks (whose changes leave the entity untouched) and the
    project's slug."""
    *_, project, _, updated_at, blocks, block_times = row
    return f"{updated_at}/{blocks}/{int(block_times or 0)}/{project}"
