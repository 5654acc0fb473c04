"""Search performance of a project's pages: lists of rows, and sums by period."""

from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.field_types import fold
from carrel.content.page import Page, Window
from carrel.content.pagination import Conditions, Listing, columns
from carrel.content.projects import Project
from carrel.storage.database import Row, Session


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


# A row is the only one of its dates, query and page, so nothing is left for a tie-break by id to decide.
_LISTING = Listing(
    "search_performance",
    key="pk",
    order="date_start DESC, date_end DESC, query, page_url",
    columns=columns(SearchPerformance),
    joins="LEFT JOIN entity ON entity.pk = kept.entity_pk",
    filtered="query_fold, page_url_fold",
    order_index="search_performance_in_order",
    scan_index="search_performance_scan",
)


@dataclass(frozen=True, slots=True)
class PerformanceFilter:
    """A filter on search performance; an empty field does not restrict the list."""

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
        """Return a page of the matching rows: newest dates first, then by query and page."""
        found = await self._rows(wanted, window)
        return Page([SearchPerformance(*row) for row in found.rows], found.total)

    async def _rows(self, wanted: PerformanceFilter, window: Window) -> Page[Row]:
        needles = {"query_fold": fold(wanted.query), "page_url_fold": fold(wanted.page_url)}
        texts = [((column,), needle) for column, needle in needles.items() if needle]
        if any("\0" in needle for _, needle in texts):
            return Page([], 0)
        session, within = self._session, self._dates(wanted)
        if wanted.entity_id is not None:
            return await self._of_entity(wanted.entity_id, within.containing(session, texts), window)
        if texts:
            return await _LISTING.page_containing(session, within, texts, window)
        return await _LISTING.page(session, within, window, await self._count(within))

    async def _count(self, within: Conditions) -> int:
        return await within.total(self._session, "SELECT sum(total) FROM search_performance_tally")

    async def _of_entity(self, entity: str, conditions: Conditions, window: Window) -> Page[Row]:
        mine = "(SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"
        conditions = conditions.plus(f"entity_pk = {mine}", entity=entity)
        total = await conditions.total(self._session, "SELECT count(*) FROM search_performance")
        return await _LISTING.page(self._session, conditions, window, total)

    def _dates(self, wanted: PerformanceFilter) -> Conditions:
        """Build the conditions on dates, which hold for `search_performance_tally` too: totals are read from there."""
        conditions = Conditions.within(self._project)
        if wanted.date_start is not None:
            conditions = conditions.plus("date_start >= :date_start", date_start=wanted.date_start)
        if wanted.date_end is not None:
            conditions = conditions.plus("date_end <= :date_end", date_end=wanted.date_end)
            # A row does not start after it ends: the index, which begins with the start, need not be read beyond.
            conditions = conditions.plus("date_start <= :date_end")
        return conditions


# --- from one period to the next

MAX_PERIODS = 400
MAX_SUMMED_ROWS = 200_000
"""Rows summed for a chart, unless a single period has more."""

_ROWS_BY_PERIOD = """
    SELECT date_start, total FROM search_performance_tally
    WHERE project_pk = :project ORDER BY date_start DESC, date_end DESC LIMIT :most
"""
_OF_ENTITY = "AND entity_pk = (SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"


class Period(NamedTuple):
    date_start: int
    date_end: int
    clicks: int
    impressions: int
    position: float
    """Mean position weighted by impressions; 0 without impressions."""

    @property
    def ctr(self) -> float:
        return self.clicks / self.impressions if self.impressions else 0.0


class Periods(NamedTuple):
    rows: list[Period]
    """Oldest first."""
    is_truncated: bool
    """Whether older periods exist."""


async def periods(session: Session, project: Project, entity_id: str | None = None) -> Periods:
    """Sum the newest periods, of a project or of one entity; rows with the same two dates are one period."""
    parameters: dict[str, object] = {"project": project.pk, "most": MAX_PERIODS + 1}
    since = await _first_start(session, parameters) if entity_id is None else None
    parameters |= {"since": since} if entity_id is None else {"entity": entity_id}
    index = "search_performance_in_order" if entity_id is None else "search_performance_by_entity"
    rows = await session.all(
        f"""
        SELECT date_start, date_end, sum(clicks), sum(impressions), sum(avg_position * impressions)
        FROM search_performance {session.syntax.using(index)}
        WHERE project_pk = :project {"AND date_start >= :since" if entity_id is None else _OF_ENTITY}
        GROUP BY date_start, date_end ORDER BY date_start DESC, date_end DESC LIMIT :most
        """,
        parameters,
    )
    newest = [_period(*row) for row in rows[:MAX_PERIODS]]
    is_truncated = len(rows) > MAX_PERIODS
    if entity_id is None and not is_truncated:
        older = "SELECT 1 FROM search_performance_tally WHERE project_pk = :project AND date_start < :since LIMIT 1"
        is_truncated = await session.first(older, {"project": project.pk, "since": since}) is not None
    return Periods(newest[::-1], is_truncated)


async def _first_start(session: Session, parameters: dict[str, object]) -> int:
    """Return the earliest start date that keeps the number of summed rows within `MAX_SUMMED_ROWS`."""
    since = rows = 0
    for place, (start, total) in enumerate(await session.all(_ROWS_BY_PERIOD, parameters)):
        rows += int(total)
        if place and rows > MAX_SUMMED_ROWS and start != since:
            break
        since = start
    return since


def _period(start: int, end: int, clicks: int, impressions: int, weighted: float) -> Period:
    shown = int(impressions)
    return Period(start, end, int(clicks), shown, float(weighted) / shown if shown else 0.0)
