"""How a project's pages did in search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.grams import LONGEST_TALLIED, PAGE_URL, QUERY
from carrel.content.listing import Listing
from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.content.rarity import rarity
from carrel.content.row_sets import PERFORMANCE, Dates, containing
from carrel.content.short_text import ShortText
from carrel.content.text import fold
from carrel.storage.database import Row, Session
from carrel.storage.syntax import SHORTEST_INDEXED

# A row is the only one of its dates, query and page, so nothing is left for a tie-break by id to decide.
_LISTING = Listing(
    "search_performance",
    key="pk",
    order="date_start DESC, date_end DESC, query, page_url",
    columns="kept.id, entity.id, kept.page_url, kept.query, kept.impressions, kept.clicks, kept.ctr, "
    "kept.avg_position, kept.date_start, kept.date_end, kept.captured_at",
    joins="LEFT JOIN entity ON entity.pk = kept.entity_pk",
)
TALLIED_AS = {"query_fold": QUERY, "page_url_fold": PAGE_URL}


class SearchPerformance(NamedTuple):
    id: str
    entity_id: str | None
    page_url: str
    query: str
    impressions: int
    clicks: int
    ctr: float
    avg_position: float
    date_start: int
    date_end: int
    captured_at: int


@dataclass(frozen=True, slots=True)
class PerformanceFilter:
    """What the rows of a list have in common; empty fields ask for nothing."""

    query: str = ""
    page_url: str = ""
    entity_id: str | None = None
    date_start: int | None = None
    """The earliest start."""
    date_end: int | None = None
    """The latest end."""


class PerformanceRepository:
    """The search performance of one project."""

    def __init__(self, session: Session, project: Project) -> None:
        self._session = session
        self._project = project

    async def page(self, wanted: PerformanceFilter, window: Window) -> Page[SearchPerformance]:
        """The newest dates first, then by query and page."""
        found = await self._rows(wanted, window)
        return Page([SearchPerformance(*row) for row in found.rows], found.total)

    async def _rows(self, wanted: PerformanceFilter, window: Window) -> Page[Row]:
        texts = {"query_fold": fold(wanted.query), "page_url_fold": fold(wanted.page_url)}
        texts = {column: needle for column, needle in texts.items() if needle}
        if any("\0" in needle for needle in texts.values()):
            return Page([], 0)
        session, within = self._session, self._dates(wanted)
        if wanted.entity_id is not None:
            return await self._of_entity(wanted.entity_id, self._containing(within, texts), window)
        if not texts:
            return await _LISTING.page(session, within, window, await self._count(within))
        if wanted == PerformanceFilter(query=wanted.query) or wanted == PerformanceFilter(page_url=wanted.page_url):
            ((column, needle),) = texts.items()
            if len(needle) <= LONGEST_TALLIED:
                short = ShortText(needle, (column,), TALLIED_AS[column])
                return await short.page(session, _LISTING, within, await self._count(within), window)
        return await self._of_texts(wanted, texts, window)

    async def _count(self, within: Conditions) -> int:
        return await within.total(self._session, "SELECT sum(total) FROM search_performance_tally")

    async def _of_entity(self, entity: str, conditions: Conditions, window: Window) -> Page[Row]:
        mine = "(SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"
        conditions = conditions.plus(f"entity_pk = {mine}", entity=entity)
        total = await conditions.total(self._session, "SELECT count(*) FROM search_performance")
        return await _LISTING.page(self._session, conditions, window, total)

    async def _of_texts(self, wanted: PerformanceFilter, texts: Mapping[str, str], window: Window) -> Page[Row]:
        """No tally knows how many there are: few are looked at, many counted by their sets."""
        session, project = self._session, Conditions.within(self._project)
        rarities = {
            column: await rarity(session, project, TALLIED_AS[column], needle)
            for column, needle in texts.items()
            if len(needle) >= SHORTEST_INDEXED
        }
        rarest = min(rarities, key=lambda column: rarities[column].rows, default=None)
        if rarest is not None and rarities[rarest].rows == 0:
            return Page([], 0)
        if rarest is None or not rarities[rarest].is_in_few:
            from carrel.content.row_set_asking import page_by_sets  # and numpy with it

            conditions = self._containing(self._dates(wanted), texts)
            terms = [
                containing(PERFORMANCE, (column,), needle, rarities[column].trigrams if column in rarities else ())
                for column, needle in texts.items()
            ]
            dates = Dates(wanted.date_start, wanted.date_end)
            page = await page_by_sets(session, PERFORMANCE, _LISTING, terms, conditions, window, dates)
            if page is not None:
                return page
        if rarest is not None:
            found, parameters = session.syntax.may_contain(
                _LISTING.table, (rarest,), texts[rarest], rarities[rarest].trigrams
            )
            conditions = self._containing(self._dates(wanted, by_index=False), texts)
            return await _LISTING.page_by_text(session, conditions.plus(found, **parameters), window)
        conditions = self._containing(self._dates(wanted), texts)
        total = await conditions.total(session, "SELECT count(*) FROM search_performance")
        return await _LISTING.page(session, conditions, window, total)

    def _dates(self, wanted: PerformanceFilter, *, by_index: bool = True) -> Conditions:
        """Conditions that can be put to the tally too; a + keeps the index out, which PostgreSQL 18 can skip in."""
        conditions, sign = Conditions.within(self._project), "" if by_index else "+"
        if wanted.date_start is not None:
            conditions = conditions.plus(f"{sign}date_start >= :date_start", date_start=wanted.date_start)
        if wanted.date_end is not None:
            conditions = conditions.plus(f"{sign}date_end <= :date_end", date_end=wanted.date_end)
            # A row does not start after it ends: the index, which begins with the start, need not be read beyond.
            conditions = conditions.plus(f"{sign}date_start <= :date_end")
        return conditions

    def _containing(self, conditions: Conditions, texts: Mapping[str, str]) -> Conditions:
        for column, needle in texts.items():
            conditions = conditions.containing(self._session, (column,), needle)
        return conditions
