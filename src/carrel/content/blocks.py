"""A project's quotable blocks."""

from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.listing import Listing
from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.content.text import fold
from carrel.storage.database import Row, Session

_LISTING = Listing(
    "quotable_block",
    key="id",
    order="created_at DESC, id DESC",
    columns="kept.id, entity.id, kept.text, kept.claim_type, kept.source_citation, kept.verified_until, "
    "kept.topic_tag, kept.created_at, kept.updated_at",
    joins="JOIN entity ON entity.pk = kept.entity_pk",
)


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
        found = await self._rows(wanted, window)
        return Page([QuotableBlock(*row) for row in found.rows], found.total)

    async def _rows(self, wanted: BlockFilter, window: Window) -> Page[Row]:
        session, syntax = self._session, self._session.syntax
        conditions = self._conditions(wanted)
        counted = "sum(total) FROM quotable_block_tally" if wanted.is_tallied else "count(*) FROM quotable_block"
        if not wanted.topic:
            return await _LISTING.page(
                session, conditions, window, await conditions.total(session, f"SELECT {counted}")
            )
        topics = await self._topics(fold(wanted.topic))
        if not topics:
            return Page([], 0)
        conditions = conditions.plus(syntax.among("topic_fold", "topics"), topics=syntax.values(topics))
        total = await conditions.total(session, f"SELECT {counted}")
        if window.offset >= total:
            return Page([], total)
        enough = f"ORDER BY {_LISTING.order} LIMIT :enough"
        of_topic = (
            f"SELECT id, created_at FROM quotable_block {conditions.where} AND topic_fold = topics.value {enough}"
        )
        keys = syntax.for_each("topics", "text", ("id", "created_at"), of_topic)
        return Page(
            await _LISTING.rows(
                session, keys, {**conditions.parameters, "enough": window.offset + window.limit}, window
            ),
            total,
        )

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

    def _conditions(self, wanted: BlockFilter) -> Conditions:
        conditions = Conditions.within(self._project)
        if wanted.claim_type is not None:
            conditions = conditions.equal("claim_type", wanted.claim_type)
        if wanted.entity_id is not None:
            mine = "(SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"
            conditions = conditions.plus(f"entity_pk = {mine}", entity=wanted.entity_id)
        if wanted.verified_until_before is not None:
            conditions = conditions.plus("verified_until <= :before", before=wanted.verified_until_before)
        if wanted.verified_until_after is not None:
            conditions = conditions.plus("verified_until >= :after", after=wanted.verified_until_after)
        return conditions
