"""The graph of a vault in memory: notes, the links between them, and their tags.

A node is a number; adjacency is an array of numbers for each node. Lists that are shown by ID (`into`, tags) are kept
sorted by ID, so that answers need no sorting. When a note comes, goes or changes its names, only the notes that mention
one of these names are linked anew (`_mentions`): a target can lead elsewhere only if it contains such a name. Only the
event loop changes a graph.
"""

import heapq
import random
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from carrel.notes.graph_algorithms import Rank, TopNodes, first_shortest_path
from carrel.notes.links import NameIndex, names_in_targets
from carrel.notes.note_names import SUFFIX, is_attachment, key, stem
from carrel.notes.parser import Facts

Direction = Literal["in", "out", "both"]
Metric = Literal["in_degree", "out_degree"]


class Node:
    """A note. `out` and `into` are numbers of other nodes: in the order of its links, and by id."""

    __slots__ = ("facts", "id", "into", "number", "out", "path", "unresolved")

    def __init__(self, number: int, note_id: str, facts: Facts, out: "array[int]", into: "array[int]") -> None:
        self.number = number
        self.id = note_id
        self.path = key(stem(note_id))
        """From the vault, without `.md`, as a key; so are `folder`, `name` and `title`."""
        self.facts = facts
        self.out = out
        self.into = into
        self.unresolved = False
        """Whether some link of it leads nowhere."""

    @property
    def folder(self) -> str:
        """The folder as a key, with a final slash."""
        return self.path[: self.path.rfind("/") + 1]

    @property
    def name(self) -> str:
        """The file name as a key."""
        return self.path[self.path.rfind("/") + 1 :]

    @property
    def title(self) -> str:
        """The title as a key."""
        return key(self.facts.title)


class PackedGraph(NamedTuple):
    """A graph as plain lists, in which a node's number is its position."""

    notes: list[tuple[str, Facts, bool]]
    """Its number is a note's place in this list. With each, whether some of its links lead nowhere."""
    out: "list[array[int]]"
    into: "list[array[int]]"
    tagged: "dict[str, array[int]]"
    mentions: "dict[str, array[int]]"


class Graph:
    """Notes as nodes, with their links resolved."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        """By their numbers; one that was removed stays until its number is given out again."""
        self._out: list[array[int]] = []
        self._into: list[array[int]] = []
        """The same arrays that the nodes have, for whoever goes through many of them."""
        self._free: list[int] = []
        self._by_id: dict[str, Node] = {}
        self._names = NameIndex(self._id, lambda number: self._nodes[number].path)
        self._mentions: dict[str, array[int]] = {}
        """By what a link says, the numbers of the nodes that say it, in order."""
        self._tagged: dict[str, array[int]] = {}
        """By tag, the nodes that have it, in order of their ids."""
        self._tag_members: dict[str, set[int]] = {}
        self._top_nodes: Mapping[Metric, TopNodes] = {
            "in_degree": TopNodes(lambda: (Rank(-len(node.into), node.id) for node in self)),
            "out_degree": TopNodes(lambda: (Rank(-len(node.out), node.id) for node in self)),
        }

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_id.values())

    def __contains__(self, note_id: str) -> bool:
        return note_id in self._by_id

    # --- looking

    def get(self, note_id: str) -> Node | None:
        """Return the node of exactly this ID."""
        return self._by_id.get(note_id)

    def find(self, note_id: str) -> Node | None:
        """Return the node of this ID, else the only one whose ID differs in case or in `.md` alone."""
        if (node := self._by_id.get(note_id)) is not None:
            return node
        wanted = key(note_id)
        for path in (wanted.removesuffix(SUFFIX), wanted) if wanted.endswith(SUFFIX) else (wanted,):
            if found := self._names.by_stem.get(path):
                return self._nodes[found[0]] if len(found) == 1 else None
        return None

    def at_path(self, path: str) -> list[Node]:
        """Return the nodes at a path, which is a key without `.md`."""
        return [self._nodes[number] for number in self._names.by_stem.get(path)]

    def outgoing(self, node: Node) -> list[Node]:
        """Return the nodes that a node links to, in order of its links."""
        return [self._nodes[number] for number in node.out]

    def incoming(self, node: Node) -> list[Node]:
        """Return the nodes that link to a node, by ID."""
        return [self._nodes[number] for number in node.into]

    def neighbors(self, node: Node, direction: Direction, limit: int) -> list[tuple[Node, Direction]]:
        """Return the neighbors: outgoing ones in order of the links, then incoming ones by ID, each once."""
        found: dict[int, Direction] = {}
        if direction != "in":
            into = node.into
            for number in node.out[:limit]:
                found[number] = "both" if self._is_in(into, self._nodes[number]) else "out"
        if direction != "out":
            out = set(node.out) if direction == "both" else frozenset[int]()
            for number in node.into:
                if len(found) == limit:
                    break
                if number not in out:
                    found[number] = "both" if direction == "in" and number in node.out else "in"
        return [(self._nodes[number], way) for number, way in found.items()]

    def path(self, source: Node, target: Node) -> list[Node] | None:
        """Return the shortest path along links; of several, the one whose IDs come first."""
        found = first_shortest_path(
            source.number,
            target.number,
            after=lambda numbers: list(map(self._out.__getitem__, numbers)),
            before=lambda numbers: list(map(self._into.__getitem__, numbers)),
            id_of=self._id,
        )
        return None if found is None else [self._nodes[number] for number in found]

    def hubs(self, metric: Metric, limit: int) -> list[tuple[Node, int]]:
        """Return the nodes of highest degree, with their degrees."""
        return [(self._by_id[node_id], score) for node_id, score in self._top_nodes[metric].top(limit)]

    def find_by_tags(self, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[Node]:
        """Return the nodes that have one of the tags, or all of them, by ID."""
        keys = list(dict.fromkeys(map(key, tags)))
        if not all_of_them:
            lists = [self._tagged.get(tag, array("I")) for tag in keys]
            merged = heapq.merge(*lists, key=self._id)
            return [self._nodes[number] for number in _first_distinct(merged, limit)]
        # Walk the rarest tag's nodes and look them up in the others' sets.
        least, *others = sorted(keys, key=lambda tag: len(self._tagged.get(tag, ())))
        members = [self._members(tag) for tag in others]
        both = (number for number in self._tagged.get(least, ()) if all(number in each for each in members))
        return [self._nodes[number] for number in islice(both, limit)]

    def _members(self, tag: str) -> set[int]:
        """Return the nodes with a tag as a set, cached until the tag's nodes change."""
        members = self._tag_members.get(tag)
        if members is None:
            members = self._tag_members[tag] = set(self._tagged.get(tag, ()))
        return members

    def random(self, tags: Sequence[str] | None, choose: random.Random) -> Node | None:
        """Return a node with one of the tags, each with the same probability."""
        if not tags:
            if not self._by_id:
                return None
            # Numbers of removed nodes are reused, so few positions are stale.
            while (node := choose.choice(self._nodes)) is not self._by_id.get(node.id):
                pass
            return node
        lists = [found for tag in dict.fromkeys(map(key, tags)) if (found := self._tagged.get(tag))]
        total = sum(map(len, lists))
        while total:
            place = choose.randrange(total)
            for each in lists:
                if place < len(each):
                    node = self._nodes[each[place]]
                    break
                place -= len(each)
            else:
                raise AssertionError("a place is in one of the lists")
            # Rejection sampling: a node in n of the lists is drawn n times as often, so accept it with probability 1/n.
            if choose.randrange(sum(self._is_in(each, node) for each in lists)) == 0:
                return node
        return None

    def resolve(self, target: str, folder: str) -> Node | None:
        """Return the node that a target, as a key, leads to from a folder, as a key with a final slash."""
        number = self._names.resolve(target, folder)
        return None if number is None else self._nodes[number]

    def resolve_renamed(self, node: Node, new_id: str, facts: Facts) -> Callable[[str, str], bool]:
        """Return a function that says whether a target would lead to a node after its rename. It reads an overlay: the
        graph itself does not change, so a rename can be planned on another thread."""
        path = key(stem(new_id))
        names = self._names.overlay(node.number, new_id, path)
        names.remove(node.number, node.path, node.title, map(key, node.facts.aliases))
        names.add(node.number, path, key(facts.title), map(key, facts.aliases))
        return lambda target, folder: names.resolve(target, folder) == node.number

    def detached(self, note_id: str, facts: Facts) -> Node:
        """Return a node that is not part of the graph, with its links resolved."""
        node = Node(-1, note_id, facts, array("I"), array("I"))
        node.out = self._resolved(node)
        return node

    # --- changing

    def load(self, notes: Iterable[tuple[str, Facts]]) -> None:
        """Fill an empty graph."""
        for note_id, facts in sorted(notes):
            node = Node(len(self._nodes), note_id, facts, array("I"), array("I"))
            self._append_node(node)
            self._by_id[note_id] = node
            self._names.add(node.number, node.path, node.title, map(key, facts.aliases))
            for tag in facts.tags:
                _append(self._tagged, key(tag), node.number)
            for name in names_in_targets(facts.targets):
                _append(self._mentions, name, node.number)
        for node in self:
            node.out.extend(self._resolved(node))
            for number in node.out:
                self._into[number].append(node.number)

    def to_pack(self) -> "PackedGraph":
        """Return the graph as plain lists, its nodes renumbered without gaps."""
        nodes = list(self)
        numbers = {node.number: place for place, node in enumerate(nodes)}

        def renumbered(lists: "Iterable[array[int]]") -> "list[array[int]]":
            return [array("I", map(numbers.__getitem__, each)) for each in lists]

        return PackedGraph(
            [(node.id, node.facts, node.unresolved) for node in nodes],
            renumbered(node.out for node in nodes),
            renumbered(node.into for node in nodes),
            dict(zip(self._tagged, renumbered(self._tagged.values()), strict=True)),
            dict(zip(self._mentions, map(_sorted, renumbered(self._mentions.values())), strict=True)),
        )

    @classmethod
    def from_pack(cls, packed: "PackedGraph") -> "Graph":
        """Restore a graph, far faster than by resolving all links again."""
        graph = cls()
        rows = zip(packed.notes, packed.out, packed.into, strict=True)
        for number, ((note_id, facts, unresolved), out, into) in enumerate(rows):
            node = Node(number, note_id, facts, out, into)
            node.unresolved = unresolved
            graph._append_node(node)
            graph._by_id[note_id] = node
            graph._names.add(number, node.path, node.title, map(key, facts.aliases))
        graph._tagged, graph._mentions = packed.tagged, packed.mentions
        return graph

    def put(self, note_id: str, facts: Facts) -> Node:
        """Add a note or update it."""
        node = self._by_id.get(note_id)
        if node is None:
            return self._add(note_id, facts)
        before, node.facts = node.facts, facts
        affected: set[int] = set()
        if (before.title, before.aliases) != (facts.title, facts.aliases):
            affected = self._rename(node, before, facts)
        if before.tags != facts.tags:
            self._untag(node, before)
            self._tag(node)
        if before.targets != facts.targets:
            self._unmention(node, before)
            self._mention(node)
            affected.add(node.number)
        for number in affected:
            self._relink(self._nodes[number])
        return node

    def remove(self, note_id: str) -> bool:
        """Remove a note; return whether there was one."""
        node = self._by_id.pop(note_id, None)
        if node is None:
            return False
        aliases = list(map(key, node.facts.aliases))
        self._names.remove(node.number, node.path, node.title, aliases)
        self._untag(node, node.facts)
        self._unmention(node, node.facts)
        self._set_out(node, array("I"))
        for number in self._mentioning({node.name, node.title, *aliases}):
            self._relink(self._nodes[number])
        self._top_nodes["in_degree"].changed(note_id, 0)
        self._top_nodes["out_degree"].changed(note_id, 0)
        self._free.append(node.number)
        return True

    def _add(self, note_id: str, facts: Facts) -> Node:
        number = self._free.pop() if self._free else len(self._nodes)
        node = Node(number, note_id, facts, array("I"), array("I"))
        if number == len(self._nodes):
            self._append_node(node)
        else:
            self._nodes[number], self._out[number], self._into[number] = node, node.out, node.into
        self._by_id[note_id] = node
        aliases = list(map(key, facts.aliases))
        self._names.add(number, node.path, node.title, aliases)
        self._tag(node)
        self._mention(node)
        for each in {number, *self._mentioning({node.name, node.title, *aliases})}:
            self._relink(self._nodes[each])
        return node

    def _rename(self, node: Node, before: Facts, facts: Facts) -> set[int]:
        """Take over a new title and new aliases; return the nodes whose links may lead elsewhere now."""
        old, new = list(map(key, before.aliases)), list(map(key, facts.aliases))
        title = key(before.title)
        self._names.remove_titles(node.number, node.name, title, old)
        self._names.add_titles(node.number, node.name, node.title, new)
        # Apart, since a title goes before an alias: a word that was the one and is the other now leads elsewhere, too.
        return self._mentioning(({title} ^ {node.title}) | (set(old) ^ set(new)))

    def _relink(self, node: Node) -> None:
        out = self._resolved(node)
        if out != node.out:
            self._set_out(node, out)

    def _resolved(self, node: Node) -> "array[int]":
        resolve, folder = self._names.resolve, node.folder
        targets = node.facts.targets
        found = [resolve(target, folder) for target in targets]
        node.unresolved = None in found and not all(
            number is not None or is_attachment(target) for number, target in zip(found, targets, strict=True)
        )
        return array("I", dict.fromkeys(number for number in found if number is not None))

    def _set_out(self, node: Node, out: "array[int]") -> None:
        before, after = set(node.out), set(out)
        node.out[:] = out
        top_nodes = self._top_nodes["in_degree"]
        for number in before - after:
            other = self._nodes[number]
            del other.into[self._position(other.into, node)]
            top_nodes.changed(other.id, len(other.into))
        for number in after - before:
            other = self._nodes[number]
            other.into.insert(self._position(other.into, node), node.number)
            top_nodes.changed(other.id, len(other.into))
        self._top_nodes["out_degree"].changed(node.id, len(out))

    def _tag(self, node: Node) -> None:
        for tag in map(key, node.facts.tags):
            tagged = self._tagged.setdefault(tag, array("I"))
            tagged.insert(self._position(tagged, node), node.number)
            self._tag_members.pop(tag, None)

    def _untag(self, node: Node, facts: Facts) -> None:
        for tag in map(key, facts.tags):
            tagged = self._tagged[tag]
            del tagged[self._position(tagged, node)]
            self._tag_members.pop(tag, None)
            if not tagged:
                del self._tagged[tag]

    def _mention(self, node: Node) -> None:
        for name in names_in_targets(node.facts.targets):
            mentioning = self._mentions.setdefault(name, array("I"))
            mentioning.insert(bisect_left(mentioning, node.number), node.number)

    def _unmention(self, node: Node, facts: Facts) -> None:
        for name in names_in_targets(facts.targets):
            mentioning = self._mentions[name]
            del mentioning[bisect_left(mentioning, node.number)]
            if not mentioning:
                del self._mentions[name]

    def _mentioning(self, names: set[str]) -> set[int]:
        return {number for name in names for number in self._mentions.get(name, ())}

    # --- numbers

    def _append_node(self, node: Node) -> None:
        self._nodes.append(node)
        self._out.append(node.out)
        self._into.append(node.into)

    def _id(self, number: int) -> str:
        return self._nodes[number].id

    def _position(self, numbers: "array[int]", node: Node) -> int:
        """Return the position of a node, or where to insert it, in a list sorted by ID."""
        return bisect_left(numbers, node.id, key=self._id)

    def _is_in(self, numbers: "array[int]", node: Node) -> bool:
        place = self._position(numbers, node)
        return place < len(numbers) and numbers[place] == node.number


def _append(lists: "dict[str, array[int]]", name: str, number: int) -> None:
    there = lists.get(name)
    if there is None:
        lists[name] = array("I", (number,))
    else:
        there.append(number)


def _sorted(numbers: "array[int]") -> "array[int]":
    return array("I", sorted(numbers))


def _first_distinct(numbers: Iterable[int], limit: int) -> Iterator[int]:
    last = -1
    for number in numbers:
        if number != last:
            if limit == 0:
                return
            limit -= 1
            last = number
            yield number
