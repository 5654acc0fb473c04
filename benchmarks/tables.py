"""Markdown tables, and figures held against goals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The first column is to the left, as names are; the others hold figures."""
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        assert len(row) == len(head), row
        yield f"| {' | '.join(map(str, row))} |"


@dataclass(frozen=True, slots=True)
class Goal:
    """`value` is a ratio of medians, or a figure in `unit`; `low` and `high` are those of the best and worst round."""

    text: str
    limit: float
    value: float
    low: float
    high: float
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.limit


def ratio(text: str, limit: float, ours: list[float], theirs: list[float]) -> Goal:
    """Of medians; both lists have a figure for each round."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return Goal(text, limit, statistics.median(ours) / statistics.median(theirs), min(ratios), max(ratios))


def goal_table(goals: Iterable[Goal]) -> Iterator[str]:
    rows = (
        (
            goal.text,
            f"≤ {goal.limit:g}{goal.unit}",
            f"{goal.value:.3g}{goal.unit}",
            f"{goal.low:.3g}-{goal.high:.3g}" if goal.low < goal.high else "",
            "met" if goal.met else "**missed**",
        )
        for goal in goals
    )
    yield from table(("", "goal", "measured", "rounds", ""), rows)
