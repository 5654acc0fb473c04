"""Problems and statistics of a vault: broken and ambiguous links, orphans, unreadable frontmatter, counts."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from carrel.notes.frontmatter import read
from carrel.notes.graph import Graph, Node
from carrel.notes.links import NameIndex
from carrel.notes.note_names import folder_of, key, name_of
from carrel.notes.parser import Note, decoded, parse, shown
from carrel.notes.vault import VaultError

Kind = Literal[
    "broken-link",
    "ambiguous-name",
    "orphan",
    "duplicate-title",
    "case-clash",
    "broken-yaml",
    "not-utf8",
    "unreadable",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_LISTED_NOTES = 10
"""Other notes that a finding names."""

_LINE = re.compile(r"line (\d+): ")


class Finding(NamedTuple):
    """A problem of a note."""

    id: str
    line: int | None
    """Counted from 1; None for what is wrong with the whole note."""
    kind: Kind
    message: str
    link: str | None = None
    """As it is written."""
    chosen: str | None = None
    """Where an ambiguous link leads."""
    others: Sequence[str] = ()
    """The first `MAX_LISTED_NOTES` of the other notes that it is about."""


class Checker:
    """Checks one note at a time; the graph must not change meanwhile."""

    def __init__(
        self,
        graph: Graph,
        content_of: Callable[[str], bytes | None],
        is_attachment: Callable[[str, str], bool],
        ignored: Collection[str] = (),
    ) -> None:
        """`is_attachment` tells of a link's key and its note's folder whether a file that is no note is meant."""
        self._graph = graph
        self._content_of = content_of
        self._is_attachment = is_attachment
        self._ignored = ignored
        self._matches = _Matches(graph)
        self._titles: dict[str, list[Node]] = {}
        for node in sorted(graph, key=lambda each: each.id):
            self._titles.setdefault(node.title, []).append(node)

    def findings(self, note_id: str) -> list[Finding]:
        """Return a note's problems by line, those of the whole note first."""
        found = [each for each in self._all_findings(note_id) if each.kind not in self._ignored]
        return sorted(found, key=lambda each: each.line or 0)

    def _all_findings(self, note_id: str) -> Iterator[Finding]:
        try:
            content = self._content_of(note_id)
        except VaultError as error:
            yield Finding(note_id, None, "unreadable", str(error).removeprefix(f"{note_id} "))
            return
        if content is not None:
            yield from _file_faults(note_id, content)
        node = self._graph.get(note_id)
        if node is not None:
            yield from self._orphan(node)
            yield from self._clashes(node)
            if content is not None:
                yield from self._link_faults(node, decoded(content))

    def _orphan(self, node: Node) -> Iterator[Finding]:
        if not node.out and not node.into:
            yield Finding(node.id, None, "orphan", "no note links to it, and it links to none")

    def _clashes(self, node: Node) -> Iterator[Finding]:
        same_path = [each.id for each in self._graph.at_path(node.path) if each is not node]
        if same_path:
            message = f"differs only in case, or in how letters are composed, from {_listed(same_path)}"
            yield Finding(node.id, None, "case-clash", message, others=same_path[:MAX_LISTED_NOTES])
        same_title = [each.id for each in self._titles[node.title] if each.path != node.path]
        if same_title:
            message = f'"{node.facts.title}" is also the title of {_listed(same_title)}'
            yield Finding(node.id, None, "duplicate-title", message, others=same_title[:MAX_LISTED_NOTES])

    def _link_faults(self, node: Node, text: str) -> Iterator[Finding]:
        matches_of = {target: self._matches.of(target, node.folder) for target in node.facts.targets}
        if all(len(matches) == 1 for matches in matches_of.values()):
            return
        line_of = _line_counter(text)
        for target, written, start in _located_links(parse(text, name_of(node.id)), text):
            matches = matches_of[target] if target in matches_of else self._matches.of(target, node.folder)
            if not matches:
                if not self._is_attachment(target, node.folder):
                    yield Finding(node.id, line_of(start), "broken-link", f"{written} leads to no note", written)
            elif len(matches) > 1:
                yield self._ambiguous(node, target, line_of(start), written, matches)

    def _ambiguous(self, node: Node, target: str, line: int, written: str, matches: Sequence[Node]) -> Finding:
        chosen = self._graph.resolve(target, node.folder)
        others = [each.id for each in matches if each is not chosen]
        led = chosen.id if chosen else ""
        message = f"{written} leads to {led}, but could also mean {_listed(others)}"
        return Finding(node.id, line, "ambiguous-name", message, written, led, others[:MAX_LISTED_NOTES])


class _Matches:
    """All notes that a link could mean; the graph knows only the one that it leads to."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = sorted(graph, key=lambda node: node.id)
        self._candidates = NameIndex(lambda number: self._nodes[number].id, lambda number: self._nodes[number].path)
        for number, node in enumerate(self._nodes):
            self._candidates.add(number, node.path, node.title, map(key, node.facts.aliases))

    def of(self, target: str, folder: str) -> list[Node]:
        """Return the notes that match a target, by ID."""
        return [self._nodes[number] for number in sorted(set(self._candidates.matches(target, folder)))]


def _file_faults(note_id: str, content: bytes) -> Iterator[Finding]:
    """Yield the problems of the file itself."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield Finding(note_id, line, "not-utf8", f"the byte {content[error.start]:#04x} is not UTF-8")
        text = decoded(content)
    if problem := read(text).problem:
        place = _LINE.match(problem)
        message = f"the frontmatter cannot be read: {shown(problem[place.end() :] if place else problem)}"
        yield Finding(note_id, int(place[1]) if place else 1, "broken-yaml", message)


def _located_links(note: Note, text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each link's target as a key, its text, and its position."""
    for link in note.links:
        yield key(shown(link.target)), shown(link.written(text)), link.whole.start


def _line_counter(text: str) -> Callable[[int], int]:
    ends = [match.start() for match in re.finditer("\n", text)]
    return lambda place: bisect_left(ends, place) + 1


def _listed(ids: Sequence[str]) -> str:
    more = len(ids) - MAX_LISTED_NOTES
    return ", ".join(ids[:MAX_LISTED_NOTES]) + (f" and {more} more" if more > 0 else "")


class VaultStatistics(NamedTuple):
    """Counts of a vault."""

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


def vault_statistics(graph: Graph, is_attachment: Callable[[str, str], bool]) -> VaultStatistics:
    """Count notes, links, orphans and tags. `is_attachment` takes a link's key and its note's folder."""
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
    return VaultStatistics(len(graph), len(folders - {""}), links, broken, orphans, by_use)
