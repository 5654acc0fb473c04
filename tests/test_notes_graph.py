"""The graph in memory against a slow model of the rulings, through sequences of changes."""

from collections import Counter
from random import Random

import pytest

from carrel.notes.graph import Graph, Metric, Node
from carrel.notes.note_names import key
from carrel.notes.parser import Facts
from tests.reference.notes import Model, Reference

FOLDERS = ["", "", "a/", "A/", "b/", "a/b/", "b/a/", "Ü/", "u\u0308/x/"]
NAMES = ["one", "One", "two", "caf\u00e9", "cafe\u0301", "CAFÉ", "straße", "STRASSE", "x.y", "index", "a"]
TITLES = ["One", "two", "Café", "A Title", "index", "b/one", "Überblick", "one"]
TAGS = ["t", "T", "nested/t", "Ü", "u\u0308", "other"]
LINKS = [
    *NAMES,
    *TITLES,
    "a/one",
    "A/ONE",
    "b/a/two",
    "a/b",
    "../one",
    "./two",
    "../../one",
    "../a/one.md",
    "/one",
    "/a/one",
    "one.md",
    "ONE.MD",
    "a/../b/one",
    "a//one",
    "x.y.md",
    "u\u0308/x/one",
    "nowhere",
    "",
    "..",
    ".",
    "Alias",
    "a/",
]


def some_note(random: Random, note_id: str) -> Reference:
    title = note_id[note_id.rfind("/") + 1 : -3] if random.random() < 0.6 else random.choice(TITLES)
    return Reference(
        title,
        tuple({key(tag): tag for tag in random.sample(TAGS, random.randrange(3))}.values()),
        tuple(random.sample(["Alias", "ALIAS", "two", "Other alias"], random.choice([0, 0, 1, 2]))),
        tuple(random.choice(LINKS) for _ in range(random.randrange(6))),
    )


def facts(reference: Reference) -> Facts:
    targets = tuple(dict.fromkeys(map(key, reference.links)))
    return Facts(reference.title, reference.tags, reference.aliases, targets, b"", ())


def some_id(random: Random) -> str:
    return f"{random.choice(FOLDERS)}{random.choice(NAMES)}{random.choice(['.md', '.md', '.md', '.MD'])}"


def ids(nodes: list[Node]) -> list[str]:
    return [node.id for node in nodes]


def check(graph: Graph, model: Model, random: Random) -> None:
    assert sorted(node.id for node in graph) == list(model.notes)
    for note_id in model.notes:
        node = graph.get(note_id)
        assert node is not None
        assert ids(graph.outgoing(node)) == model.out(note_id), (note_id, model.notes)
        assert ids(graph.incoming(node)) == model.into(note_id)
        assert node.unresolved == model.has_broken(note_id)
        for direction in ("in", "out", "both"):
            limit = random.choice([1, 2, 3, 50])
            found = [(each.id, way) for each, way in graph.neighbors(node, direction, limit)]
            assert found == model.neighbors(note_id, direction, limit)
    for metric in ("in_degree", "out_degree"):
        for limit in (1, 3, 50):
            assert [(node.id, score) for node, score in graph.hubs(metric, limit)] == model.hubs(metric, limit)
    for _ in range(4):
        tags = random.choices([*TAGS, "none"], k=random.randrange(1, 4))
        for all_of_them in (False, True):
            limit = random.choice([1, 3, 100])
            assert ids(graph.find_by_tags(tags, all_of_them=all_of_them, limit=limit)) == model.tagged(
                tags, all_of_them=all_of_them, limit=limit
            )
        asked = some_id(random)
        for each in (asked, asked.upper(), asked[:-3], asked[:-3].casefold()):
            node = graph.find(each)
            assert (node and node.id) == model.find(each)
    if model.notes:
        for _ in range(6):
            source, target = random.choice(list(model.notes)), random.choice(list(model.notes))
            start, end = graph.get(source), graph.get(target)
            assert start is not None
            assert end is not None
            path = graph.path(start, end)
            assert (None if path is None else ids(path)) == model.path(source, target)


@pytest.mark.rule(
    "notes.links.steps", "notes.links.preference", "notes.hubs.order", "notes.tags.order", "notes.path.first"
)
@pytest.mark.parametrize("seed", range(25))
def test_the_graph_agrees_with_the_model_through_any_changes(seed: int) -> None:
    random = Random(seed)
    named = sorted({some_id(random) for _ in range(random.choice([0, 5, 20]))})
    notes = {each: some_note(random, each) for each in named}
    graph = Graph()
    graph.load((note_id, facts(each)) for note_id, each in notes.items())
    check(graph, Model(notes), random)
    for step in range(60):
        match random.randrange(6):
            case 0 | 1 | 2:
                note_id = some_id(random)
                notes[note_id] = some_note(random, note_id)
                graph.put(note_id, facts(notes[note_id]))
            case 3 if notes:
                note_id = random.choice(sorted(notes))
                changed = some_note(random, note_id)
                kept = random.choice(["title", "links", "tags", "aliases"])
                notes[note_id] = changed._replace(**{kept: getattr(notes[note_id], kept)})
                graph.put(note_id, facts(notes[note_id]))
            case 4 if notes:
                old, new = random.choice(sorted(notes)), some_id(random)
                moved = notes.pop(old)
                assert graph.remove(old)
                notes[new] = moved
                graph.put(new, facts(moved))
            case _:
                note_id = random.choice([*sorted(notes), "gone.md"])
                assert graph.remove(note_id) == (notes.pop(note_id, None) is not None)
        if step % 4 == 0 or step > 56:
            check(graph, Model(notes), random)


@pytest.mark.rule("notes.links.steps")
def test_a_title_that_becomes_an_alias_no_longer_goes_before_the_aliases_of_others() -> None:
    graph = Graph()
    graph.load(
        [
            ("b.md", facts(Reference("b", aliases=("Two",)))),
            ("c.md", facts(Reference("c", links=("two",)))),
            ("z.md", facts(Reference("Two"))),
        ]
    )
    source = graph.get("c.md")
    assert source is not None
    assert ids(graph.outgoing(source)) == ["z.md"]
    graph.put("z.md", facts(Reference("z", aliases=("Two",))))
    assert ids(graph.outgoing(source)) == ["b.md"]
    graph.put("z.md", facts(Reference("Two")))
    assert ids(graph.outgoing(source)) == ["z.md"]


@pytest.mark.rule("notes.hubs.order")
def test_hubs_stay_right_while_degrees_go_up_and_down() -> None:
    random = Random(7)
    graph = Graph()
    names = [f"n{number:03}" for number in range(700)]
    links = {name: tuple(random.choices(names[:650], k=random.randrange(4))) for name in names}
    for name in names:
        graph.put(f"{name}.md", facts(Reference(name, links=links[name])))
    for step in range(400):
        name = random.choice(names)
        links[name] = tuple(random.choices(names[:650], k=random.randrange(4)))
        graph.put(f"{name}.md", facts(Reference(name, links=links[name])))
        if step % 20 == 0:
            into = Counter(f"{each}.md" for several in links.values() for each in set(several))
            out = Counter({f"{name}.md": len(set(several)) for name, several in links.items() if several})
            both: dict[Metric, Counter[str]] = {"in_degree": into, "out_degree": out}
            for metric, scores in both.items():
                expected = sorted(scores.items(), key=lambda hub: (-hub[1], hub[0]))[:50]
                assert [(node.id, score) for node, score in graph.hubs(metric, 50)] == expected


@pytest.mark.rule("notes.path.first")
@pytest.mark.parametrize("seed", range(10))
def test_of_several_shortest_paths_the_first_is_found_in_larger_graphs(seed: int) -> None:
    random = Random(seed)
    names = [f"{number:03}" for number in range(150)]
    notes = {f"{name}.md": Reference(name, links=tuple(random.choices(names, k=2))) for name in names}
    graph, model = Graph(), Model(notes)
    graph.load((note_id, facts(each)) for note_id, each in notes.items())
    out = {note_id: [f"{link}.md" for link in dict.fromkeys(note.links)] for note_id, note in notes.items()}
    model.out = out.__getitem__  # type: ignore[method-assign] # the same, without looking up names 100,000 times
    for _ in range(40):
        source, target = (graph.get(random.choice(list(notes))) for _ in "ab")
        assert source is not None
        assert target is not None
        path = graph.path(source, target)
        assert (None if path is None else ids(path)) == model.path(source.id, target.id)


@pytest.mark.rule("notes.random.uniform")
def test_a_random_node_is_any_of_those_that_match_and_each_as_often() -> None:
    graph = Graph()
    for number in range(12):
        tags = ("x", "y") if number < 3 else ("x",) if number < 6 else ("z",)
        graph.put(f"{number}.md", Facts(str(number), tags, (), (), b"", ()))
    for number in (1, 7):
        graph.remove(f"{number}.md")
    random = Random(1)
    for tags, expected in ((None, 10), ([], 10), (["X", "y"], 5), (["z", "Z"], 5)):
        seen = Counter(node.id for _ in range(5000) if (node := graph.random(tags, random)))
        assert len(seen) == expected
        assert all(0.8 < count / (5000 / expected) < 1.2 for count in seen.values()), seen
    assert graph.random(["none"], random) is None
    assert Graph().random(None, random) is None
