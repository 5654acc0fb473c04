"""A project's quotable blocks."""

from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.field_types import DAY_MS, MAX_TIME_MS, MIN_TIME_MS, fold
from carrel.content.page import Page, Window
from carrel.content.pagination import Conditions, Listing, columns
from carrel.content.projects import Project
from carrel.storage.database import Row, Session


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


_LISTING = Listing(
    "quotable_block",
    key="id",
    order="created_at DESC, id DESC",
    columns=columns(QuotableBlock),
    joins="LEFT JOIN entity ON entity.pk = kept.entity_pk",
    filtered="claim_type, topic_fold, verified_until",
    order_index="quotable_block_by_creation",
    scan_index="quotable_block_by_topic",
    has_trigrams=False,
)

_ROW_COUNT = "SELECT sum(total) FROM quotable_block_expiry_tally"


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """A filter on quotable blocks; an empty field does not restrict the list."""

    entity_id: str | None = None
    claim_type: str | None = None
    topic: str = ""
    verified_until_before: int | None = None
    verified_until_after: int | None = None

    @property
    def is_about_expiry(self) -> bool:
        return self.verified_until_before is not None or self.verified_until_after is not None


class BlockRepository:
    """The quotable blocks of one project."""

    def __init__(self, session: Session, project: Project) -> None:
        self._session = session
        self._project = project

    async def page(self, wanted: BlockFilter, window: Window) -> Page[QuotableBlock]:
        """Return a page of the blocks that pass the filter, newest first."""
        found = await self._rows(wanted, window)
        return Page([QuotableBlock(*row) for row in found.rows], found.total)

    async def _rows(self, wanted: BlockFilter, window: Window) -> Page[Row]:
        conditions = self._conditions(wanted)
        texts = [(("topic_fold",), needle)] if (needle := fold(wanted.topic)) else []
        if "\0" in needle:
            return Page([], 0)
        if wanted.entity_id is not None:
            return await self._of_entity(wanted.entity_id, conditions.containing(self._session, texts), window)
        if texts:
            return await _LISTING.page_containing(self._session, conditions, texts, window)
        index = "quotable_block_by_claim" if wanted.claim_type else "quotable_block_by_creation"
        return await _LISTING.page(self._session, conditions, window, await self.total(wanted), index)

    async def total(self, wanted: BlockFilter) -> int:
        """Count the blocks that pass the filter.

        `quotable_block_expiry_tally` counts expiries by day: whole days are summed from there, and only the partial
        days at both ends are counted row by row, so that the total of a million blocks costs a few index reads.
        """
        claimed = self._claimed(wanted)
        if not wanted.is_about_expiry:
            return await claimed.total(self._session, _ROW_COUNT)
        after = MIN_TIME_MS if wanted.verified_until_after is None else wanted.verified_until_after
        before = MAX_TIME_MS if wanted.verified_until_before is None else wanted.verified_until_before
        first, last = -((MIN_TIME_MS - after) // DAY_MS), (before + 1 - MIN_TIME_MS) // DAY_MS - 1
        if first > last:
            return await self._count_expiring(claimed, after, before)
        days = claimed.plus("verified_day BETWEEN :first AND :last", first=first, last=last)
        return (
            await days.total(self._session, _ROW_COUNT)
            + await self._count_expiring(claimed, after, MIN_TIME_MS + first * DAY_MS - 1)
            + await self._count_expiring(claimed, MIN_TIME_MS + (last + 1) * DAY_MS, before)
        )

    async def _count_expiring(self, claimed: Conditions, after: int, before: int) -> int:
        if after > before:
            return 0
        conditions = claimed.plus("verified_until BETWEEN :after AND :before", after=after, before=before)
        return await self._count(conditions, "quotable_block_by_expiry")

    def _claimed(self, wanted: BlockFilter) -> Conditions:
        conditions = Conditions.within(self._project)
        return conditions if wanted.claim_type is None else conditions.equal("claim_type", wanted.claim_type)

    def _conditions(self, wanted: BlockFilter) -> Conditions:
        conditions = self._claimed(wanted)
        if wanted.verified_until_before is not None:
            conditions = conditions.plus("verified_until <= :before", before=wanted.verified_until_before)
        if wanted.verified_until_after is not None:
            conditions = conditions.plus("verified_until >= :after", after=wanted.verified_until_after)
        return conditions

    async def _of_entity(self, entity: str, conditions: Conditions, window: Window) -> Page[Row]:
        mine, index = "(SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)", "quotable_block_by_entity"
        conditions = conditions.plus(f"entity_pk = {mine}", entity=entity)
        total = await self._count(conditions, index)
        return await _LISTING.page(self._session, conditions, window, total, index)

    async def _count(self, conditions: Conditions, index: str) -> int:
        using = self._session.syntax.using(index)
        return await conditions.total(self._session, f"SELECT count(*) FROM quotable_block {using}")


# --- blocks that have expired or will soon


class ExpiringBlock(NamedTuple):
    id: str
    text: str
    claim_type: str
    topic_tag: str | None
    verified_until: int
    entity_id: str
    entity_title: str


async def expiring_blocks(session: Session, project: Project, until: int, limit: int) -> Page[ExpiringBlock]:
    """Return blocks whose verification ends by `until`, soonest first, and how many there are."""
    rows = await session.all(
        f"""
        SELECT kept.id, kept.text, kept.claim_type, kept.topic_tag, kept.verified_until, entity.id, entity.title
        FROM (
            SELECT pk, verified_until, id FROM quotable_block {session.syntax.using("quotable_block_by_expiry")}
            WHERE project_pk = :project AND verified_until <= :until ORDER BY verified_until, id LIMIT :limit
        ) AS soonest
        JOIN quotable_block AS kept ON kept.pk = soonest.pk JOIN entity ON entity.pk = kept.entity_pk
        ORDER BY soonest.verified_until, soonest.id
        """,
        {"project": project.pk, "until": until, "limit": limit},
    )
    total = await BlockRepository(session, project).total(BlockFilter(verified_until_before=until))
    return Page([ExpiringBlock(*row) for row in rows], total)
