"""How a project's pages did in search."""

from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.conditions import Conditions
from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.content.text import fold
from carrel.storage.database import Session
from carrel.storage.syntax import SHORTEST_INDEXED

# A row is the only one of its dates, query and page, so nothing is left for a tie-break by id to decide.
_ORDER = "date_start DESC, date_end DESC, query, page_url"
_COLUMNS = """
    found.id, entity.id, found.page_url, found.query, found.impressions, found.clicks, found.ctr, found.avg_position,
    found.date_start, found.date_end, found.captured_at
"""


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
        needles = {"query_fold": fold(wanted.query), "page_url_fold": fold(wanted.page_url)}
        if any("\0" in needle for needle in needles.values()):
            return Page([], 0)
        conditions = self._dates(wanted)
        is_tallied, by_text = True, False
        if wanted.entity_id is not None:
            is_tallied = False
            conditions.add("entity_pk = (SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)")
            conditions.parameters["entity"] = wanted.entity_id
        for column, needle in needles.items():
            if needle:
                is_tallied = False
                by_text = self._add_text(conditions, column, needle) or by_text
        where = conditions.where_found_by_text if by_text and wanted.entity_id is None else conditions.where
        counted = "sum(total) FROM search_performance_tally" if is_tallied else "count(*) FROM search_performance"
        row = await self._session.first(f"SELECT {counted} {where}", conditions.parameters)
        return await self._read(conditions, where, window, int(row[0] or 0) if row else 0)

    def _dates(self, wanted: PerformanceFilter) -> Conditions:
        """Conditions that can be put to the tally too."""
        conditions = Conditions(self._session, self._project)
        if wanted.date_start is not None:
            conditions.add("date_start >= :date_start", date_start=wanted.date_start)
        if wanted.date_end is not None:
            conditions.add("date_end <= :date_end", date_end=wanted.date_end)
        return conditions

    def _add_text(self, conditions: Conditions, column: str, needle: str) -> bool:
        """Whether the text can be found by its index."""
        syntax = self._session.syntax
        if len(needle) < SHORTEST_INDEXED:
            conditions.add(f"{syntax.position(column, column)} > 0", **{column: needle})
            return False
        parameter = {column: syntax.needle((column,), needle)}
        conditions.add(syntax.containing("search_performance", (column,), column), **parameter)
        return True

    async def _read(self, conditions: Conditions, where: str, window: Window, total: int) -> Page[SearchPerformance]:
        """The keys are read first, from the index alone, so that rows that are skipped are never looked at."""
        if window.offset >= total:
            return Page([], total)
        sql = f"""
            SELECT {_COLUMNS} FROM (
                SELECT pk FROM search_performance {where} ORDER BY {_ORDER} LIMIT :limit OFFSET :offset
            ) AS page JOIN search_performance AS found ON found.pk = page.pk
            LEFT JOIN entity ON entity.pk = found.entity_pk
            ORDER BY {", ".join(f"found.{column}" for column in _ORDER.split(", "))}
        """
        parameters = {**conditions.parameters, "limit": window.limit, "offset": window.offset}
        return Page([SearchPerformance(*row) for row in await self._session.all(sql, parameters)], total)
