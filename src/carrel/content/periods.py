"""How a project's pages, or those of one entity, did in search from one period to the next."""

from typing import NamedTuple

from carrel.content.projects import Project
from carrel.storage.database import Session

MOST_PERIODS = 400
MOST_ROWS = 200_000
"""That are added up, unless a single period has more."""

_SIZES = """
    SELECT date_start, total FROM search_performance_tally
    WHERE project_pk = :project ORDER BY date_start DESC, date_end DESC LIMIT :most
"""
_MINE = "AND entity_pk = (SELECT pk FROM entity WHERE id = :entity AND project_pk = :project)"


class Period(NamedTuple):
    date_start: int
    date_end: int
    clicks: int
    impressions: int
    position: float
    """The mean of its rows, each as often as it was shown; 0 where nothing was."""

    @property
    def ctr(self) -> float:
        return self.clicks / self.impressions if self.impressions else 0.0


class Periods(NamedTuple):
    rows: list[Period]
    """The oldest first."""
    is_truncated: bool
    """Whether there are older ones."""


async def periods(session: Session, project: Project, entity_id: str | None = None) -> Periods:
    """The newest ones, each pair of dates as one."""
    parameters: dict[str, object] = {"project": project.pk, "most": MOST_PERIODS + 1}
    since = await _first_start(session, parameters) if entity_id is None else None
    parameters |= {"since": since} if entity_id is None else {"entity": entity_id}
    index = "search_performance_in_order" if entity_id is None else "search_performance_by_entity"
    rows = await session.all(
        f"""
        SELECT date_start, date_end, sum(clicks), sum(impressions), sum(avg_position * impressions)
        FROM search_performance {session.syntax.using(index)}
        WHERE project_pk = :project {"AND date_start >= :since" if entity_id is None else _MINE}
        GROUP BY date_start, date_end ORDER BY date_start DESC, date_end DESC LIMIT :most
        """,
        parameters,
    )
    newest = [_period(*row) for row in rows[:MOST_PERIODS]]
    is_truncated = len(rows) > MOST_PERIODS
    if entity_id is None and not is_truncated:
        older = "SELECT 1 FROM search_performance_tally WHERE project_pk = :project AND date_start < :since LIMIT 1"
        is_truncated = await session.first(older, {"project": project.pk, "since": since}) is not None
    return Periods(newest[::-1], is_truncated)


async def _first_start(session: Session, parameters: dict[str, object]) -> int:
    """The earliest start for which there are not too many rows to add up."""
    since = rows = 0
    for place, (start, total) in enumerate(await session.all(_SIZES, parameters)):
        rows += int(total)
        if place and rows > MOST_ROWS and start != since:
            break
        since = start
    return since


def _period(start: int, end: int, clicks: int, impressions: int, weighted: float) -> Period:
    shown = int(impressions)
    return Period(start, end, int(clicks), shown, float(weighted) / shown if shown else 0.0)
