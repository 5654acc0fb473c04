"""Graph algorithms: the nodes of highest degree, and the first of the shortest paths."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

CACHED_NODES = 256
MIN_CACHED_NODES = 50


class Rank(NamedTuple):
    """Sorts by degree, the highest first, then by id."""

    minus_degree: int
    id: str


class TopNodes:
    """The nodes of highest degree, maintained incrementally: every node down to a floor is known, none below it."""

    def __init__(self, count: Callable[[], Iterable[Rank]]) -> None:
        self._count = count
        self._ranks: list[Rank] = []
        self._rank_by_id: dict[str, Rank] = {}
        self._floor: Rank | None = None
        """None where all nodes are known that have a degree."""
        self._is_stale = True

    def invalidate(self) -> None:
        """Count again at the next query."""
        self._is_stale = True

    def changed(self, node_id: str, degree: int) -> None:
        """Record a node's new degree; 0 removes it."""
        if self._is_stale:
            return
        before = self._rank_by_id.pop(node_id, None)
        if before is not None:
            del self._ranks[bisect_left(self._ranks, before)]
        rank = Rank(-degree, node_id)
        if degree and (self._floor is None or rank <= self._floor):
            insort(self._ranks, rank)
            self._rank_by_id[node_id] = rank
        # Too many known nodes have fallen below the floor, and one of the unknown may outrank them.
        if self._floor is not None and len(self._ranks) < MIN_CACHED_NODES:
            self._is_stale = True
        elif len(self._ranks) > 2 * CACHED_NODES:
            for each in self._ranks[CACHED_NODES:]:
                del self._rank_by_id[each.id]
            del self._ranks[CACHED_NODES:]
            self._floor = self._ranks[-1]

    def top(self, limit: int) -> list[tuple[str, int]]:
        """Return at most `MIN_CACHED_NODES` IDs with their degrees."""
        if self._is_stale:
            self._ranks = heapq.nsmallest(CACHED_NODES, (rank for rank in self._count() if rank.minus_degree))
            self._rank_by_id = {rank.id: rank for rank in self._ranks}
            self._floor = self._ranks[-1] if len(self._ranks) == CACHED_NODES else None
            self._is_stale = False
        return [(rank.id, -rank.minus_degree) for rank in self._ranks[:limit]]


NeighborLists = Callable[[Iterable[int]], list[Sequence[int]]]
"""Returns the neighbors of each of several nodes."""


class _Frontier:
    """The nodes that were reached from one end, by distance."""

    def __init__(self, start: int, neighbors: NeighborLists) -> None:
        self.levels: list[set[int]] = [{start}]
        self._seen = {start}
        self._neighbors = neighbors
        self._next: list[Sequence[int]] | None = None

    @property
    def width(self) -> int:
        """The number of links that lead on from the last level."""
        return sum(map(len, self._next_links()))

    def _next_links(self) -> list[Sequence[int]]:
        """Return the links of the last level, lazily, since it has most of them."""
        if self._next is None:
            self._next = self._neighbors(self.levels[-1])
        return self._next

    def expand(self) -> None:
        """Advance by one link."""
        reached = set[int]().union(*self._next_links())
        reached -= self._seen
        self._seen |= reached
        self.levels.append(reached)
        self._next = None


def first_shortest_path(
    source: int, target: int, *, after: NeighborLists, before: NeighborLists, id_of: Callable[[int], str]
) -> list[int] | None:
    """Return the shortest path whose IDs come first, by bidirectional search that expands the narrower side."""
    ahead, back = _Frontier(source, after), _Frontier(target, before)
    while not (meeting := ahead.levels[-1] & back.levels[-1]):
        side = ahead if ahead.width <= back.width else back
        side.expand()
        if not side.levels[-1]:
            return None
    return _first(ahead.levels, back.levels, meeting, after, before, id_of)


def _first(
    from_source: list[set[int]],
    to_target: list[set[int]],
    meeting: set[int],
    after: NeighborLists,
    before: NeighborLists,
    id_of: Callable[[int], str],
) -> list[int]:
    """Walk from the source, always to the first node among those on a shortest path."""
    steps = [meeting]
    for level in reversed(from_source[:-1]):
        steps.append(_linking_to(level, steps[-1], after, before))
    steps.reverse()
    steps.extend(reversed(to_target[:-1]))
    path: list[int] = []
    reachable: Iterable[int] = steps[0]
    for step in steps:
        path.append(min(step.intersection(reachable), key=id_of))
        (reachable,) = after((path[-1],))
    return path


def _linking_to(level: set[int], step: set[int], after: NeighborLists, before: NeighborLists) -> set[int]:
    """Return the nodes of a level that link to the next level, from the side with fewer links: one node may have half
    the graph's."""
    links, backlinks = after(level), before(step)
    if sum(map(len, links)) < sum(map(len, backlinks)):
        return {number for number, others in zip(level, links, strict=True) if not step.isdisjoint(others)}
    return level.intersection(set[int]().union(*backlinks))
