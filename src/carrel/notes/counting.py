"""A vault in figures."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from carrel.notes.graph import Graph
from carrel.notes.names import folder_of, key


class Figures(NamedTuple):
    notes: int
    folders: int
    """That have notes in them, the vault itself aside."""
    links: int
    """Between notes: two links from one note to the same other are one."""
    broken_links: int
    orphans: int
    """Notes that no note links to, and that link to none."""
    tags: Sequence[tuple[str, int]]
    """Each in its first spelling, with how many notes have it; the most used first."""


def figures(graph: Graph, is_attachment: Callable[[str, str], bool]) -> Figures:
    """`is_attachment` tells of a link's key and its note's folder whether a file that is no note is meant."""
    spellings: dict[str, str] = {}
    tags: Counter[str] = Counter()
    links = broken = orphans = 0
    folders: set[str] = set()
    for node in sorted(graph, key=lambda each: each.id):
        links += len(node.out)
        orphans += not node.out and not node.into
        folders.add(folder_of(node.id))
        if node.unresolved:
            leading_nowhere = (each for each in node.facts.targets if graph.resolve(each, node.folder) is None)
            broken += sum(not is_attachment(each, node.folder) for each in leading_nowhere)
        for tag in node.facts.tags:
            tags[spellings.setdefault(key(tag), tag)] += 1
    by_use = sorted(tags.items(), key=lambda each: (-each[1], each[0]))
    return Figures(len(graph), len(folders - {""}), links, broken, orphans, by_use)
