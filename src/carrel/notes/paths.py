"""The shortest way between two nodes of a graph."""

from collections.abc import Callable, Iterable, Sequence

Neighbours = Callable[[int], Sequence[int]]


def first_shortest_path(
    source: int, target: int, *, after: Neighbours, before: Neighbours, id_of: Callable[[int], str]
) -> list[int] | None:
    """Of several shortest ones, that whose ids come first. Searched from both ends, the narrower one first."""
    if source == target:
        return [source]
    from_source: list[set[int]] = [{source}]
    """The nodes at each distance from the source."""
    to_target: list[set[int]] = [{target}]
    seen_from, seen_to = {source}, {target}
    meeting: set[int] = set()
    while not meeting:
        if _width(from_source[-1], after) <= _width(to_target[-1], before):
            meeting = _widen(from_source, seen_from, after) & to_target[-1]
            if not from_source[-1]:
                return None
        else:
            meeting = _widen(to_target, seen_to, before) & from_source[-1]
            if not to_target[-1]:
                return None
    return _first(from_source, to_target, meeting, after, before, id_of)


def _width(level: set[int], neighbours: Neighbours) -> int:
    return sum(len(neighbours(number)) for number in level)


def _widen(levels: list[set[int]], seen: set[int], neighbours: Neighbours) -> set[int]:
    """One step further; the nodes that are new."""
    reached: set[int] = set()
    for number in levels[-1]:
        reached.update(neighbours(number))
    reached -= seen
    seen |= reached
    levels.append(reached)
    return reached


def _first(
    from_source: list[set[int]],
    to_target: list[set[int]],
    meeting: set[int],
    after: Neighbours,
    before: Neighbours,
    id_of: Callable[[int], str],
) -> list[int]:
    """Walk from the source, always to the first of the nodes from which the target is as near as can be."""
    steps = [meeting]
    for level in reversed(from_source[:-1]):
        steps.append({number for later in steps[-1] for number in before(later)} & level)
    steps.reverse()
    steps.extend(reversed(to_target[:-1]))
    path: list[int] = []
    reachable: Iterable[int] = steps[0]
    for step in steps:
        path.append(min(step.intersection(reachable), key=id_of))
        reachable = after(path[-1])
    return path
