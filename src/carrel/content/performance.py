"""How a project's pages did in search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.grams import LONGEST_TALLIED, PAGE_URL, QUERY
from carrel.content.listing import Listing
from carrel.content.page import Page, Window
from carrel.content.projects import Project
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
        if not texts and wanted.entity_id is None:
            total = await within.total(session, "SELECT sum(total) FROM search_performance_tally")
            return await _LISTING.page(session, within, window, total)
        if wanted == PerformanceFilter(query=wanted.query) or wanted == PerformanceFilter(page_url=wanted.page_url):
            ((column, needle),) = texts.items()
            if len(needle) <= LONGEST_TALLIED:
                rows = await within.total(session, "SELECT sum(total) FROM search_performance_tally")
                return await ShortText(needle, (column,), TALLIED_AS[column]).page(
                    session, _LISTING, within, rows, window
                )
        found = await self._rows_by_sets(wanted, texts, window)
        return found if found is not None else await self._rows_by_all(wanted, texts, window)

    async def _rows_by_sets(
        self, wanted: PerformanceFilter, texts: Mapping[str, str], window: Window
    ) -> Page[Row] | None:
        """For short texts with others or within dates; None for what is not, and where there are no sets yet."""
        if wanted.entity_id is not None or any(len(needle) > LONGEST_TALLIED for needle in texts.values()):
            return None
        from carrel.content.row_sets import Dates, rows_with

        session, dates = self._session, Dates(wanted.date_start, wanted.date_end)
        found = await rows_with(session, self._project, texts, dates)
        if found is None:
            return None
        if window.offset >= found.total:
            return Page([], found.total)
        within = self._dates(wanted)
        rows = await within.total(session, "SELECT sum(total) FROM search_performance_tally")
        if found.total * found.total < (window.offset + window.limit) * rows:
            keys = session.syntax.values(found.keys())
            among = Conditions.within(self._project).plus(session.syntax.among("pk", "keys"), keys=keys)
            sql = f"SELECT pk FROM search_performance {among.where_by_text}"
            return Page(await _LISTING.rows(session, sql, among.parameters, window), found.total)
        conditions = within
        for column, needle in texts.items():
            conditions = conditions.plus(f"{session.syntax.position(column, column)} > 0", **{column: needle})
        return await _LISTING.page(session, conditions, window, found.total)

    async def _rows_by_all(self, wanted: PerformanceFilter, texts: Mapping[str, str], window: Window) -> Page[Row]:
        """For what no tally knows the number of."""
        by_text = wanted.entity_id is None and any(len(needle) >= SHORTEST_INDEXED for needle in texts.values())
        conditions = self._dates(wanted, by_index=not by_text)
        for column, needle in texts.items():
            conditions = self._containing(conditions, column, needle)
        if by_text:
            return await _LISTING.page_by_text(self._session, conditions, window)
        if wanted.entity_id is not None:
            mine = "(SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"
            conditions = conditions.plus(f"entity_pk = {mine}", entity=wanted.entity_id)
        total = await conditions.total(self._session, "SELECT count(*) FROM search_performance")
        return await _LISTING.page(self._session, conditions, window, total)

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

    def _containing(self, conditions: Conditions, column: str, needle: str) -> Conditions:
        syntax = self._session.syntax
        if len(needle) < SHORTEST_INDEXED:
            return conditions.plus(f"{syntax.position(column, column)} > 0", **{column: needle})
        contains, parameters = syntax.containing("search_performance", (column,), needle)
        return conditions.plus(contains, **parameters)
