"""A project's quotable blocks."""

from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.content.text import fold
from carrel.storage.database import Session

_COLUMNS = """
    block.id, entity.id, block.text, block.claim_type, block.source_citation, block.verified_until, block.topic_tag,
    block.created_at, block.updated_at
"""


class QuotableBlock(NamedTuple):
    id: str
    entity_id: str
    text: str
    claim_type: str
    source_citation: str | None
    verified_until: int | None
    topic_tag: str | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """What the blocks of a list have in common; empty fields ask for nothing."""

    entity_id: str | None = None
    claim_type: str | None = None
    topic: str = ""
    verified_until_before: int | None = None
    verified_until_after: int | None = None

    @property
    def is_tallied(self) -> bool:
        others = (self.entity_id, self.verified_until_before, self.verified_until_after)
        return all(value is None for value in others)


class BlockRepository:
    """The quotable blocks of one project."""

    def __init__(self, session: Session, project: Project) -> None:
        self._session = session
        self._project = project

    async def page(self, wanted: BlockFilter, window: Window) -> Page[QuotableBlock]:
        """The newest first."""
        conditions = Conditions(self._session, self._project)
        if wanted.claim_type is not None:
            conditions.equal("claim_type", wanted.claim_type)
        topics = await self._topics(fold(wanted.topic)) if wanted.topic else None
        if topics is not None:
            syntax = self._session.syntax
            conditions.add(syntax.among("topic_fold", "topics"), topics=syntax.values(topics))
        self._add_untallied(conditions, wanted)
        if topics == []:
            return Page([], 0)
        counted = "sum(total) FROM quotable_block_tally" if wanted.is_tallied else "count(*) FROM quotable_block"
        total = await conditions.total(f"SELECT {counted}")
        if window.offset >= total:
            return Page([], total)
        return Page(await self._read(conditions, window, by_topic=topics is not None), total)

    async def _topics(self, needle: str) -> list[str]:
        """The topics that contain the needle: there are far fewer of them than blocks."""
        if "\0" in needle:
            return []
        position = self._session.syntax.position("topic_fold", "needle")
        rows = await self._session.all(
            f"SELECT DISTINCT topic_fold FROM quotable_block_tally WHERE project_pk = :project AND {position} > 0",
            {"project": self._project.pk, "needle": needle},
        )
        return [topic for (topic,) in rows]

    def _add_untallied(self, conditions: Conditions, wanted: BlockFilter) -> None:
        if wanted.entity_id is not None:
            mine = "(SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"
            conditions.add(f"entity_pk = {mine}", entity=wanted.entity_id)
        if wanted.verified_until_before is not None:
            conditions.add("verified_until <= :before", before=wanted.verified_until_before)
        if wanted.verified_until_after is not None:
            conditions.add("verified_until >= :after", after=wanted.verified_until_after)

    async def _read(self, conditions: Conditions, window: Window, *, by_topic: bool) -> list[QuotableBlock]:
        """The ids are read first, from the index alone; of each topic no more than the page can hold."""
        parameters = {**conditions.parameters, "limit": window.limit, "offset": window.offset}
        found = f"SELECT id, created_at FROM quotable_block {conditions.where}"
        if by_topic:
            parameters["enough"] = window.offset + window.limit
            inner = f"{found} AND topic_fold = one.value ORDER BY created_at DESC, id DESC LIMIT :enough"
            found = self._session.syntax.for_each("topics", "text", ("id", "created_at"), inner)
        sql = f"""
            SELECT {_COLUMNS} FROM ({found} ORDER BY created_at DESC, id DESC LIMIT :limit OFFSET :offset) AS page
            JOIN quotable_block AS block ON block.id = page.id JOIN entity ON entity.pk = block.entity_pk
            ORDER BY block.created_at DESC, block.id DESC
        """
        return [QuotableBlock(*row) for row in await self._session.all(sql, parameters)]
