"""What notes do, wherever they are kept: one suite for the vault and for the graph database."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Caller
from carrel.notes.neo4j.vault_import import notes_of, push
from carrel.notes.note_store import NoteStore
from carrel.notes.vault import Vault
from carrel.toolsets.notes import notes_toolset
from carrel.toolsets.notes.handlers import note_handlers
from tests.bolt import ENGINES, bolt_url, empty
from tests.vaults import opened, write

pytestmark = pytest.mark.anyio
__all__ = ["bolt_url"]

STORES = ("files", *ENGINES)
Files = Mapping[str, str | bytes]


class Notes:
    """A store of notes with the tools over it."""

    def __init__(self, store: NoteStore) -> None:
        self._pipeline = Pipeline([notes_toolset(note_handlers(store))], timeout=60)

    async def answer(self, tool: str, **arguments: Any) -> tuple[Any, bool]:
        """The answer, and whether it is an error."""
        answer = await self._pipeline.call(tool, arguments, Caller("test"))
        return json.loads(answer.text), answer.is_error

    async def ok(self, tool: str, **arguments: Any) -> Any:
        value, is_error = await self.answer(tool, **arguments)
        assert not is_error, value
        return value

    async def error(self, tool: str, **arguments: Any) -> str:
        value, is_error = await self.answer(tool, **arguments)
        assert is_error, value
        return value["error"]["code"]

    async def links(self, note_id: str) -> list[str]:
        return [link["id"] for link in (await self.ok("get_node", id=note_id))["links"]]


Load = Callable[[Files], Awaitable[Notes]]


@pytest.fixture(params=STORES)
async def load(request: pytest.FixtureRequest, tmp_path: Path, worker_id: str) -> AsyncIterator[Load]:
    """Makes notes of files, in each store."""
    async with AsyncExitStack() as stack:
        yield lambda files: _loaded(request.param, files, request, tmp_path, worker_id, stack)


async def _loaded(
    kind: str, files: Files, request: pytest.FixtureRequest, folder: Path, worker_id: str, stack: AsyncExitStack
) -> Notes:
    vault = write(folder / "notes", files)
    if kind == "files":
        return Notes(await stack.enter_async_context(opened(folder)))
    store = empty(kind, request, worker_id).store()
    stack.push_async_callback(store.close)
    await push(store, notes_of(Vault(vault)))
    return Notes(store)


GARDEN: Files = {
    "index.md": "---\ntags: [Home, start]\n---\n"
    "[[garden]] then [[Compost|rot]], ![[ideas/worms]], [[garden]] again, [[gone]]",
    "ideas/garden.md": "---\ntitle: The garden\naliases: [patch]\ntags: [idea, idea]\n---\n"
    "[[compost]] #Green [i](../index.md)",
    "ideas/compost.md": "[[patch]] [[compost]] and `[[index]]` #green #123",
    "ideas/worms.md": "\ufeff---\r\ntag: idea\r\nother: kept # so\r\n---\r\n"
    "Nothing [[nowhere]], [[ideas/Garden#Beds]].\r\n",
    "alone.md": "Nobody. #Straße",
}


@pytest.mark.rule("neo4j.same.reads")
async def test_a_note_has_its_title_tags_links_in_order_and_warnings(load: Load) -> None:
    notes = await load(GARDEN)
    assert await notes.ok("get_node", id="index.md") == {
        "id": "index.md",
        "title": "index",
        "content": "[[garden]] then [[Compost|rot]], ![[ideas/worms]], [[garden]] again, [[gone]]",
        "tags": ["Home", "start"],
        "links": [
            {"id": "ideas/garden.md", "title": "The garden"},
            {"id": "ideas/compost.md", "title": "compost"},
            {"id": "ideas/worms.md", "title": "worms"},
        ],
        "_warnings": ["Broken link: [[gone]]"],
    }
    garden = await notes.ok("get_node", id="ideas/garden.md")
    assert garden["tags"] == ["idea", "Green"]
    assert garden["_warnings"] == ["Duplicate tag ignored: idea"]


@pytest.mark.rule("neo4j.same.lookup")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("ideas/garden.md", "ideas/garden.md"),
        ("IDEAS/Garden", "ideas/garden.md"),
        ("ideas/garden.MD", "ideas/garden.md"),
        ("The garden", None),
        ("garden", None),
        ("caf\u00e9", "Cafe\u0301.md"),
        ("two", None),
        ("Two.md", "Two.md"),
    ],
)
async def test_an_id_is_taken_exactly_else_without_regard_to_case_and_suffix(
    load: Load, given: str, found: str | None
) -> None:
    notes = await load({"ideas/garden.md": "x", "Cafe\u0301.md": "x", "Two.md": "x", "tWo.md": "x"})
    note = await notes.ok("get_node", id=given)
    assert (note and note["id"]) == found


@pytest.mark.rule("neo4j.same.neighbors")
async def test_neighbours_are_the_linked_ones_in_order_then_the_linking_ones_by_id(load: Load) -> None:
    notes = await load(
        {
            "hub.md": "[[z]] [[b]] [[hub]]",
            "z.md": "[[hub]]",
            "b.md": "",
            "\U0001f600.md": "[[hub]]",
            "\uff21.md": "[[hub]] [[hub]]",
            "a.md": "[[HUB]]",
        }
    )
    around = await notes.ok("get_node", id="hub", depth=1)
    assert [(each["id"], each["direction"]) for each in around["neighbors"]] == [
        ("z.md", "both"),
        ("b.md", "out"),
        ("hub.md", "both"),
        ("a.md", "in"),
        ("\uff21.md", "in"),
        ("\U0001f600.md", "in"),
    ]
    assert (around["incomingCount"], around["outgoingCount"]) == (5, 3)

    async def ids(**arguments: Any) -> list[str]:
        return [each["id"] for each in await notes.ok("get_neighbors", id="hub.md", **arguments)]

    assert await ids(direction="out") == ["z.md", "b.md", "hub.md"]
    assert await ids(direction="in") == ["a.md", "hub.md", "z.md", "\uff21.md", "\U0001f600.md"]
    assert await ids(direction="in", limit=2) == ["a.md", "hub.md"]
    assert await ids(limit=4) == ["z.md", "b.md", "hub.md", "a.md"]
    assert await notes.ok("get_neighbors", id="nobody") == []


@pytest.mark.rule("neo4j.same.path")
async def test_a_path_follows_links_and_the_first_by_code_point_is_taken(load: Load) -> None:
    notes = await load(
        {
            "a.md": "[[\U0001f600]] [[\uff21]] [[b]]",
            "b.md": "[[dead]]",
            "\U0001f600.md": "[[end]]",
            "\uff21.md": "[[end]]",
            "dead.md": "",
            "end.md": "[[last]]",
            "last.md": "",
        }
    )
    assert await notes.ok("find_path", source="A", target="last") == {
        "path": ["a.md", "\uff21.md", "end.md", "last.md"],
        "length": 3,
    }
    assert await notes.ok("find_path", source="a.md", target="a.md") == {"path": ["a.md"], "length": 0}
    assert await notes.ok("find_path", source="last.md", target="a.md") is None
    assert await notes.ok("find_path", source="a.md", target="nobody.md") is None


@pytest.mark.rule("neo4j.same.hubs")
async def test_hubs_come_by_score_then_id_and_those_of_none_not_at_all(load: Load) -> None:
    notes = await load(GARDEN)
    assert await notes.ok("get_hubs") == [
        {"id": "ideas/compost.md", "title": "compost", "score": 3},
        {"id": "ideas/garden.md", "title": "The garden", "score": 3},
        {"id": "ideas/worms.md", "title": "worms", "score": 1},
        {"id": "index.md", "title": "index", "score": 1},
    ]
    assert [each["id"] for each in await notes.ok("get_hubs", metric="out_degree", limit=2)] == [
        "index.md",
        "ideas/compost.md",
    ]


@pytest.mark.rule("neo4j.same.tags")
async def test_tags_are_found_without_regard_to_case_any_or_all_of_them_by_id(load: Load) -> None:
    notes = await load(GARDEN)

    async def ids(*tags: str, **more: Any) -> list[str]:
        return [each["id"] for each in await notes.ok("search_by_tags", tags=list(tags), **more)]

    assert await ids("GREEN", "#home") == ["ideas/compost.md", "ideas/garden.md", "index.md"]
    assert await ids("green", "Idea", mode="all") == ["ideas/garden.md"]
    assert await ids("green", "home", limit=1) == ["ideas/compost.md"]
    assert await ids("STRASSE") == ["alone.md"]
    assert await ids("nothing") == []
    assert (await notes.ok("random_node", tags=["strasse"]))["id"] == "alone.md"
    assert await notes.ok("random_node", tags=["nothing"]) is None


@pytest.mark.rule("neo4j.same.random")
async def test_every_note_is_drawn_at_times(load: Load) -> None:
    notes = await load({"a.md": "", "b.md": "", "c.md": "#t"})
    assert {(await notes.ok("random_node"))["id"] for _ in range(60)} == {"a.md", "b.md", "c.md"}


@pytest.mark.rule("neo4j.same.truncation")
async def test_contents_are_cut_by_characters(load: Load) -> None:
    notes = await load(
        {"a.md": "\U0001f600" * 10_001, "b.md": "[[a]]", "c.md": "\U0001f600" * 500 + "[[a]]", "d.md": "[[c]]"}
    )
    assert len((await notes.ok("get_node", id="a"))["content"]) == 10_000
    (neighbor,) = await notes.ok("get_neighbors", id="b")
    assert neighbor["content"] == "\U0001f600" * 485 + "... [truncated]"
    whole = (await notes.ok("get_node", id="d", depth=1))["neighbors"][0]["content"]
    assert whole == "\U0001f600" * 185 + "... [truncated]"


@pytest.mark.rule("neo4j.same.create")
async def test_a_note_that_is_created_is_there_and_heals_links_to_it(load: Load) -> None:
    notes = await load({"a.md": "[[New Idea]] [[sub/new-idea]]", "sub/b.md": "x"})
    made = await notes.ok(
        "create_node", title="New Idea", content="See [[A]], [[no]]. #Inline", tags=["t", "#T", "u"], directory="sub"
    )
    assert made == {
        "id": "sub/new-idea.md",
        "title": "New Idea",
        "content": "See [[A]], [[no]]. #Inline",
        "tags": ["t", "u", "Inline"],
        "links": [{"id": "a.md", "title": "a"}],
        "_warnings": ["Broken link: [[no]]"],
    }
    assert await notes.ok("get_node", id="sub/new-idea.md") == made
    assert await notes.links("a.md") == ["sub/new-idea.md"]


@pytest.mark.rule("neo4j.same.create")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"title": "A", "content": ""}, "NODE_EXISTS"),
        ({"title": "B", "content": "", "directory": "SUB"}, "NODE_EXISTS"),
        ({"title": "??", "content": ""}, "INVALID_PARAMS"),
        ({"title": "ok", "content": "", "directory": "../out"}, "INVALID_PARAMS"),
        ({"title": "ok", "content": "---\n[\n---\n", "tags": ["t"]}, "INVALID_PARAMS"),
    ],
)
async def test_what_cannot_be_created_is_refused(load: Load, arguments: Any, code: str) -> None:
    notes = await load({"a.md": "mine", "sub/b.md": "x"})
    assert await notes.error("create_node", **arguments) == code
    assert (await notes.ok("get_node", id="a"))["content"] == "mine"


@pytest.mark.rule("neo4j.same.update")
async def test_an_update_changes_what_it_was_given_and_nothing_else(load: Load) -> None:
    notes = await load(GARDEN)
    changed = await notes.ok("update_node", id="IDEAS/garden", content="[[index]] [[worms]] #new")
    assert (changed["title"], changed["tags"]) == ("The garden", ["idea", "new"])
    assert [link["id"] for link in changed["links"]] == ["index.md", "ideas/worms.md"]
    changed = await notes.ok("update_node", id="ideas/garden.md", tags=["x", "NEW", "x"])
    assert changed["tags"] == ["x", "NEW"]
    assert [each["id"] for each in await notes.ok("search_by_tags", tags=["idea"])] == ["ideas/worms.md"]
    assert await notes.links("ideas/compost.md") == ["ideas/garden.md", "ideas/compost.md"]
    assert await notes.error("update_node", id="ideas/garden.md") == "INVALID_PARAMS"
    assert await notes.error("update_node", id="nobody", content="x") == "NODE_NOT_FOUND"


@pytest.mark.rule("neo4j.same.rename")
async def test_another_title_gives_another_id_and_rewrites_the_links(load: Load) -> None:
    notes = await load(
        {
            "sub/old.md": "---\ntitle: Old Title\naliases: [o]\n---\nme: [[old]]",
            "a.md": "[[old|text]] [[Old Title#part]] ![[sub/old#^b]] [x](sub/old.md) [[o]] `[[old]]`",
            "sub/b.md": "[x](./old.md#h) [[other]]",
            "c.md": "[[new-title]]",
            "sub/taken.md": "",
        }
    )
    renamed = await notes.ok("update_node", id="sub/old.md", title="New Title", tags=["t"])
    assert (renamed["id"], renamed["title"], renamed["tags"]) == ("sub/new-title.md", "New Title", ["t"])
    assert renamed["content"] == "me: [[new-title]]"
    assert await notes.ok("get_node", id="sub/old.md") is None
    for note_id in ("a.md", "sub/b.md", "c.md", "sub/new-title.md"):
        assert await notes.links(note_id) == ["sub/new-title.md"]
    assert (await notes.ok("get_node", id="a.md"))["content"] == (
        "[[new-title|text]] [[New Title#part]] ![[sub/new-title#^b]] [x](sub/new-title.md) [[o]] `[[old]]`"
    )
    assert await notes.error("update_node", id="sub/new-title.md", title="Taken") == "NODE_EXISTS"
    assert await notes.links("a.md") == ["sub/new-title.md"]


@pytest.mark.rule("neo4j.same.rename")
async def test_a_link_says_more_where_the_new_name_alone_would_lead_elsewhere(load: Load) -> None:
    notes = await load({"x/old.md": "", "x/a.md": "[[old]]", "y/name.md": "", "y/b.md": "[[old]]"})
    await notes.ok("update_node", id="x/old.md", title="Name")
    assert (await notes.ok("get_node", id="x/a.md"))["content"] == "[[name]]"
    assert (await notes.ok("get_node", id="y/b.md"))["content"] == "[[x/name]]"
    assert [await notes.links(note_id) for note_id in ("x/a.md", "y/b.md")] == [["x/name.md"]] * 2


@pytest.mark.rule("neo4j.same.delete")
async def test_links_to_a_deleted_note_are_broken_until_it_returns(load: Load) -> None:
    notes = await load({"a.md": "[[b]] [[c]]", "b.md": "", "c.md": "[[b]]"})
    assert await notes.ok("delete_node", id="B") == {"deleted": True}
    assert await notes.ok("delete_node", id="b.md") == {"deleted": False}
    a = await notes.ok("get_node", id="a.md")
    assert ([link["id"] for link in a["links"]], a["_warnings"]) == (["c.md"], ["Broken link: [[b]]"])
    await notes.ok("create_node", title="b", content="again")
    assert await notes.links("a.md") == ["b.md", "c.md"]
    assert "_warnings" not in await notes.ok("get_node", id="a.md")


# --- the same random things done to both

AWKWARD: dict[str, str | bytes] = {
    "one.md": "[[two]] [[sub/One]] [[Title]] [[café]] [[x.y]] [[a/../b]] [[../up]] [[/one]]",
    "sub/One.md": "---\ntitle: Title\ntags: a, B\n---\n[[one]] [[./two]] [[../one]] [two](<../two.md> 'x')",
    "two.md": "---\n[broken\n---\n[[one]] #T",
    "sub/two.md": "---\naliases: [café, One]\ntitle: 7\n---\n[[Title]] [[two]] [[title.md]] [[sub/two]]",
    "deep/er/two.md": "[[er/two]] [[deep/two]] [[7]] #a/b #T #t",
    "Cafe\u0301.md": "[[one]] [[caf\u00e9]] [[two]]",
    "x.y.md": "---\ntitle: x.y.md\n---\n",
    "b.md": "---\ntags: [x, X, '#y']\n---\n[[b]] [[B]] [[one|1]] [[one]]",
    "\U0001f600/\uff21.md": "[[one]] [[two]]",
}
TITLES = ("One", "two", "Title", "café", "New thing", "x.y", "A/B", "Ünïcode", "7")
CONTENTS = (
    "",
    "[[one]] [[new-thing]]",
    "[[Title]] #t [[café]]",
    "---\naliases: [one]\n---\n[[two]]",
    "[[a-b]] [x](x.y.md)",
    "[[AB]] [[7]]",
)
TAG_LISTS = ((), ("a",), ("T", "x y", "ü"), ("b", "B"))
FOLDERS = ("", "sub", "deep/er", "Sub")
CHANGES = 20


async def everything(notes: Notes) -> dict[str, Any]:
    """All answers that there are, random ones aside."""
    tagged = await notes.ok("search_by_tags", tags=["a", "b", "t", "x", "y", "ü", "a/b"], limit=100)
    hubs = {metric: await notes.ok("get_hubs", metric=metric, limit=50) for metric in ("in_degree", "out_degree")}
    ids = sorted({each["id"] for way in hubs.values() for each in way} | {each["id"] for each in tagged})
    found: dict[str, Any] = {"tagged": tagged, **hubs}
    for note_id in ids:
        found[note_id] = await notes.ok("get_node", id=note_id, depth=1)
    return found


async def both(
    files: Files, request: pytest.FixtureRequest, folder: Path, worker_id: str, stack: AsyncExitStack
) -> list[Notes]:
    return [await _loaded(kind, files, request, folder, worker_id, stack) for kind in STORES]


@pytest.mark.rule("neo4j.same.reads", "neo4j.same.path", "neo4j.push.vault")
async def test_every_answer_over_an_awkward_vault_is_the_same(
    request: pytest.FixtureRequest, tmp_path: Path, worker_id: str
) -> None:
    async with AsyncExitStack() as stack:
        vault = AWKWARD | {"latin.md": b"\xe9 #t [[one]] [[caf\xe9]] [[two]]"}
        files, *graphs = await both(vault, request, tmp_path, worker_id, stack)
        expected = await everything(files)
        ids = [note_id for note_id in expected if note_id.endswith(".md")]
        assert len(ids) == len(vault)
        for graph in graphs:
            assert await everything(graph) == expected
            for source, target in product(ids, ids):
                asked = {"source": source, "target": target}
                assert await graph.ok("find_path", **asked) == await files.ok("find_path", **asked)
            for note_id, direction in product(ids, ("in", "out", "both")):
                asked = {"id": note_id, "direction": direction, "limit": 3}
                assert await graph.ok("get_neighbors", **asked) == await files.ok("get_neighbors", **asked)
            for tags in (["t", "a/b"], ["X", "y"], ["a", "b"]):
                asked = {"tags": tags, "mode": "all"}
                assert await graph.ok("search_by_tags", **asked) == await files.ok("search_by_tags", **asked)


@pytest.mark.rule("neo4j.same.writes")
@pytest.mark.parametrize("seed", range(3))
async def test_the_same_changes_have_the_same_outcome(
    request: pytest.FixtureRequest, tmp_path: Path, worker_id: str, seed: int
) -> None:
    random = Random(seed)
    async with AsyncExitStack() as stack:
        stores = await both(AWKWARD, request, tmp_path, worker_id, stack)
        there = await everything(stores[0])
        for _ in range(CHANGES):
            tool, arguments = some_change(random, there)
            outcomes = [await each.answer(tool, **arguments) for each in stores]
            assert outcomes == [outcomes[0]] * len(stores), (tool, arguments)
            states = [await everything(each) for each in stores]
            assert states == [states[0]] * len(stores), (tool, arguments)
            there = states[0]


def some_change(random: Random, there: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    note_id = random.choice(["nobody.md", *(each for each in there if each.endswith(".md"))])
    tool = random.choice(["create_node", "create_node", "update_node", "update_node", "update_node", "delete_node"])
    some: dict[str, Any] = {"title": random.choice(TITLES), "content": random.choice(CONTENTS)}
    if tool == "create_node":
        return tool, some | {"tags": list(random.choice(TAG_LISTS)), "directory": random.choice(FOLDERS)}
    if tool == "delete_node":
        return tool, {"id": note_id}
    some["tags"] = list(random.choice(TAG_LISTS))
    chosen = random.sample(sorted(some), random.choice([1, 1, 1, 2, 3]))
    return tool, {"id": note_id, **{name: some[name] for name in chosen}}
