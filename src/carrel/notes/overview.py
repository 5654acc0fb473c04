"""All notes and the links between them, as one graph."""

from array import array
from operator import attrgetter
from typing import NamedTuple

from carrel.notes.graph import Graph

BROKEN = 1
"""Of a note, some link of which leads nowhere."""
ORPHAN = 2
"""Of a note that no link leads from or to."""


class OverviewNote(NamedTuple):
    id: str
    title: str
    flags: int


class Overview(NamedTuple):
    notes: list[OverviewNote]
    links: list[int]
    """Places in `notes`: where one begins, where it ends, where the next begins and so on."""
    total: int
    """Notes that there are."""


class Taken(NamedTuple):
    """A note as it was at one moment."""

    id: str
    title: str
    is_broken: bool
    number: int
    out: "array[int]"
    degree: int


def take(graph: Graph) -> list[Taken]:
    """All notes of a graph, to be looked at while it changes; no more is done at once than must be."""
    return [
        Taken(
            node.id,
            node.facts.title,
            node.unresolved,
            node.number,
            node.out[:],
            len(node.out) + len(node.into),
        )
        for node in graph
    ]


def overview_of(taken: list[Taken], most: int) -> Overview:
    """Where there are more notes than `most`, those with most links."""
    total = len(taken)
    if total > most:
        taken = sorted(taken, key=attrgetter("id"))
        taken.sort(key=attrgetter("degree"), reverse=True)
        del taken[most:]
    places = {note.number: place for place, note in enumerate(taken)}
    links: list[int] = []
    for place, note in enumerate(taken):
        for number in note.out:
            if number in places:
                links += (place, places[number])
    notes = [
        OverviewNote(note.id, note.title, flags(is_broken=note.is_broken, is_linked=note.degree > 0)) for note in taken
    ]
    return Overview(notes, links, total)


def flags(*, is_broken: bool, is_linked: bool) -> int:
    return (BROKEN if is_broken else 0) | (0 if is_linked else ORPHAN)
