"""The nodes with the highest degree, kept up to date while degrees change."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import NamedTuple

KEPT = 256
ENOUGH = 50


class Rank(NamedTuple):
    """Sorts by degree, the highest first, then by id."""

    minus_degree: int
    id: str


class Leaders:
    """Knows every node down to some rank, its floor, and nothing of those below: few changes make it count again."""

    def __init__(self, count: Callable[[], Iterable[Rank]]) -> None:
        self._count = count
        self._ranks: list[Rank] = []
        self._of: dict[str, Rank] = {}
        self._floor: Rank | None = None
        """None where all nodes are known that have a degree."""
        self._is_stale = True

    def forget(self) -> None:
        """Everything has changed."""
        self._is_stale = True

    def changed(self, node_id: str, degree: int) -> None:
        if self._is_stale:
            return
        before = self._of.pop(node_id, None)
        if before is not None:
            del self._ranks[bisect_left(self._ranks, before)]
        rank = Rank(-degree, node_id)
        if degree and (self._floor is None or rank <= self._floor):
            insort(self._ranks, rank)
            self._of[node_id] = rank
        if self._floor is not None and len(self._ranks) < ENOUGH:
            self._is_stale = True
        elif len(self._ranks) > 2 * KEPT:
            for each in self._ranks[KEPT:]:
                del self._of[each.id]
            del self._ranks[KEPT:]
            self._floor = self._ranks[-1]

    def top(self, limit: int) -> list[tuple[str, int]]:
        """At most `ENOUGH` ids with their degrees."""
        if self._is_stale:
            self._ranks = heapq.nsmallest(KEPT, (rank for rank in self._count() if rank.minus_degree))
            self._of = {rank.id: rank for rank in self._ranks}
            self._floor = self._ranks[-1] if len(self._ranks) == KEPT else None
            self._is_stale = False
        return [(rank.id, -rank.minus_degree) for rank in self._ranks[:limit]]
