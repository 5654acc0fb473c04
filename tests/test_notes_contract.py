"""notes.md and its rulings, over both transports and both protocol revisions."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.content_servers import compact, error, ok, same_schema, text
from tests.note_fixtures import WAIT_TIMEOUT_SECONDS, desk, folder, ids, reading, wire, writing
from tests.note_servers import KINDS, MANY, NOTES, NoteServers, digest
from tests.vaults import contents, write
from tests.wire import MODERN, Wire, call, value

__all__ = ["desk", "folder", "reading", "wire", "writing"]

TOOLS = [
    "search",
    "get_node",
    "get_neighbors",
    "find_path",
    "get_hubs",
    "search_by_tags",
    "random_node",
    "create_node",
    "update_node",
    "delete_node",
]
ARRAYS = ["search", "get_neighbors", "get_hubs", "search_by_tags"]


# --- what is published


@pytest.mark.rule("notes.tools.inventory", "notes.tools.schema", "common.schema.exact")
def test_the_ten_tools_are_published_as_the_contract_has_them(wire: Wire) -> None:
    tools = wire.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    contract = json.loads((Path(__file__).parent / "contracts" / "notes.json").read_text(encoding="utf-8"))
    for tool, expected in zip(tools, contract, strict=True):
        assert (tool["name"], tool["description"]) == (expected["name"], expected["description"])
        same_schema(tool["inputSchema"], expected["inputSchema"])


@pytest.mark.rule("notes.search.hidden")
def test_without_an_embedding_provider_there_is_no_search(desk: Wire) -> None:
    assert [tool["name"] for tool in desk.request("tools/list")["result"]["tools"]] == TOOLS[1:]
    assert desk.request("tools/call", {"name": "search", "arguments": {"query": "x"}})["error"]["code"] == -32602


@pytest.mark.rule("notes.tools.output", "common.result.output_schema")
def test_output_schemas_are_published_where_the_root_is_never_null(wire: Wire) -> None:
    found = {
        tool["name"]: tool.get("outputSchema", {}).get("type") for tool in wire.request("tools/list")["result"]["tools"]
    }
    arrays = "array" if wire.era == MODERN else None
    nullable = dict.fromkeys(["get_node", "find_path", "random_node"])
    objects = dict.fromkeys(["create_node", "update_node", "delete_node"], "object")
    assert found == {**dict.fromkeys(ARRAYS, arrays), **nullable, **objects}


@pytest.mark.rule("common.annotations.true")
def test_the_hints_say_what_each_tool_does(wire: Wire) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in wire.request("tools/list")["result"]["tools"]}
    names = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    reads = {name: (True, False, name != "random_node", False) for name in TOOLS[:7]}
    assert {name: tuple(each[key] for key in names) for name, each in hints.items()} == {
        **reads,
        "create_node": (False, False, False, False),
        "update_node": (False, True, True, False),
        "delete_node": (False, True, True, False),
    }


# --- get_node


ALPHA = {
    "id": "alpha.md",
    "title": "alpha",
    "content": "Alpha leads to [[beta]]. #Tutorial #ml",
    "tags": ["Tutorial", "ml"],
    "links": [{"id": "beta.md", "title": "Beta Title"}],
}


@pytest.mark.rule("notes.node.shape", "common.result.text", "common.result.structured")
def test_a_node_is_its_id_title_content_tags_and_links(wire: Wire) -> None:
    assert text(wire, "get_node", id="alpha.md") == compact(ALPHA)
    assert call(wire, "get_node", {"id": "alpha.md"})["structuredContent"] == ALPHA
    assert text(wire, "get_node", id="alpha.md", depth=0) == text(wire, "get_node", id="ALPHA", depth=0.0)
    assert ok(wire, "get_node", id="index.md")["links"] == [
        {"id": "alpha.md", "title": "alpha"},
        {"id": "beta.md", "title": "Beta Title"},
        {"id": "sub/gamma.md", "title": "gamma"},
        {"id": "sub/delta.md", "title": "delta"},
    ]
    assert ok(wire, "get_node", id="code.md")["links"] == [
        {"id": "alpha.md", "title": "alpha"},
        {"id": "sub/delta.md", "title": "delta"},
        {"id": "sub/gamma.md", "title": "gamma"},
    ]


@pytest.mark.rule("notes.node.title", "notes.node.content", "notes.node.tags", "notes.node.broken_yaml")
def test_title_content_and_tags_are_read_from_head_and_text(wire: Wire) -> None:
    found = ok(wire, "get_node", id="beta.md")
    assert (found["title"], found["tags"]) == ("Beta Title", ["ml", "extra"])
    assert found["content"] == "[[index]] and [[sub/delta]] and ![[beta]]"
    assert ok(wire, "get_node", id="date.md")["title"] == "2024-01-15"
    assert ok(wire, "get_node", id="zeros.md")["title"] == "007"
    broken = ok(wire, "get_node", id="broken.md")
    assert (broken["title"], broken["content"], broken["tags"]) == ("broken", NOTES["broken.md"], ["t"])
    assert any("cannot be read" in warning for warning in broken["_warnings"])


@pytest.mark.rule("notes.missing.reads", "notes.node.missing")
@pytest.mark.parametrize("missing", ["nope.md", "", "Beta Title", "Bee", "../x", "/etc/passwd", "sub", "x\0y"])
def test_reads_of_what_is_not_there_are_no_errors(wire: Wire, missing: str) -> None:
    result = call(wire, "get_node", {"id": missing})
    assert (result["content"][0]["text"], "isError" in result and result["isError"]) == ("null", False)
    if wire.era != MODERN:
        assert "structuredContent" not in result
    assert ok(wire, "get_neighbors", id=missing) == []
    assert ok(wire, "find_path", source=missing, target="alpha.md") is None
    assert ok(wire, "find_path", source="alpha.md", target=missing) is None
    assert ok(wire, "delete_node", id=missing) == {"deleted": False}


@pytest.mark.rule("notes.node.depth", "notes.node.counts")
def test_depth_1_has_the_neighbors_with_their_direction_and_counts_of_all(wire: Wire) -> None:
    found = ok(wire, "get_node", id="beta.md", depth=1)
    assert list(found) == ["id", "title", "content", "tags", "links", "neighbors", "incomingCount", "outgoingCount"]
    ways = [(each["id"], each["direction"]) for each in found["neighbors"]]
    assert ways == [("index.md", "both"), ("sub/delta.md", "out"), ("beta.md", "both"), ("alpha.md", "in")]
    assert (found["incomingCount"], found["outgoingCount"]) == (3, 3)
    assert list(found["neighbors"][0]) == ["id", "title", "content", "tags", "links", "direction"]
    assert found["neighbors"][3] == ALPHA | {"direction": "in"}
    hub = ok(wire, "get_node", id="many/hub.md", depth=1)
    assert (hub["incomingCount"], hub["outgoingCount"], len(hub["neighbors"])) == (26, 3, 20)
    names = [f"many/n{number:02}.md" for number in range(25) if number not in (1, 3)]
    assert ids(hub["neighbors"]) == ["many/n03.md", "many/n01.md", "many/hub.md", *names[:17]]
    assert [each["direction"] for each in hub["neighbors"]] == ["both"] * 3 + ["in"] * 17


@pytest.mark.rule("notes.truncation.lengths")
def test_long_content_is_cut_in_code_points_with_its_mark_within_the_limit(wire: Wire) -> None:
    mark = "... [truncated]"
    assert ok(wire, "get_node", id="long.md")["content"] == "é" * (10_000 - len(mark)) + mark
    assert ok(wire, "get_node", id="exact.md")["content"] == "x" * 10_000
    (listed,) = ok(wire, "get_neighbors", id="many/n01.md", direction="out")
    assert len(listed["content"]) == 500
    assert listed["content"].endswith("h" + mark)
    (neighbor,) = ok(wire, "get_node", id="many/n02.md", depth=1)["neighbors"]
    assert len(neighbor["content"]) == 200
    assert neighbor["content"].endswith("h" + mark)


# --- the graph


@pytest.mark.rule("notes.neighbors.order", "notes.neighbors.direction", "notes.neighbors.limit")
def test_neighbors_are_outgoing_in_link_order_then_incoming_by_id(wire: Wire) -> None:
    found = ok(wire, "get_neighbors", id="beta.md")
    assert ids(found) == ["index.md", "sub/delta.md", "beta.md", "alpha.md"]
    assert found[3] == ALPHA
    assert ids(ok(wire, "get_neighbors", id="BETA", direction="out")) == ["index.md", "sub/delta.md", "beta.md"]
    assert ids(ok(wire, "get_neighbors", id="beta.md", direction="in")) == ["alpha.md", "beta.md", "index.md"]
    assert ids(ok(wire, "get_neighbors", id="beta.md", direction="both", limit=2)) == ["index.md", "sub/delta.md"]
    assert ids(ok(wire, "get_neighbors", id="beta.md", direction="in", limit=1)) == ["alpha.md"]
    assert len(ok(wire, "get_neighbors", id="many/hub.md")) == 20
    assert ids(ok(wire, "get_neighbors", id="many/hub.md", direction="in", limit=50)) == ["many/hub.md", *sorted(MANY)]
    assert ok(wire, "get_neighbors", id="sub/delta.md", direction="out") == []


@pytest.mark.rule("notes.path.direction", "notes.path.first", "notes.path.self", "notes.path.none")
def test_a_path_follows_links_in_their_direction(wire: Wire) -> None:
    assert text(wire, "find_path", source="alpha.md", target="sub/delta.md") == compact(
        {"path": ["alpha.md", "beta.md", "sub/delta.md"], "length": 2}
    )
    assert ok(wire, "find_path", source="code", target="INDEX.md") == {
        "path": ["code.md", "alpha.md", "beta.md", "index.md"],
        "length": 3,
    }
    assert ok(wire, "find_path", source="sub/delta.md", target="sub/delta.md") == {
        "path": ["sub/delta.md"],
        "length": 0,
    }
    assert ok(wire, "find_path", source="sub/delta.md", target="alpha.md") is None


@pytest.mark.rule("notes.hubs.order", "notes.hubs.zero")
def test_hubs_are_by_score_then_id_and_none_has_score_0(wire: Wire) -> None:
    assert text(wire, "get_hubs", limit=3) == compact(
        [
            {"id": "many/hub.md", "title": "hub", "score": 26},
            {"id": "sub/delta.md", "title": "delta", "score": 4},
            {"id": "alpha.md", "title": "alpha", "score": 3},
        ]
    )
    out = ok(wire, "get_hubs", metric="out_degree", limit=4)
    assert [(each["id"], each["score"]) for each in out] == [
        ("index.md", 4),
        ("beta.md", 3),
        ("code.md", 3),
        ("many/hub.md", 3),
    ]
    assert len(ok(wire, "get_hubs")) == 8
    assert "garden.md" not in ids(ok(wire, "get_hubs", metric="out_degree", limit=50))


@pytest.mark.rule("notes.tags.order", "notes.tags.mode")
def test_tags_match_casefolded_any_or_all_by_id(wire: Wire) -> None:
    assert ids(ok(wire, "search_by_tags", tags=["TUTORIAL", "ml"])) == ["alpha.md", "beta.md", "sub/gamma.md"]
    assert ok(wire, "search_by_tags", tags=["tutorial", "ML"], mode="all") == [ALPHA]
    assert ids(ok(wire, "search_by_tags", tags=["#ml"], limit=1)) == ["alpha.md"]
    assert ok(wire, "search_by_tags", tags=["none"]) == []
    assert ok(wire, "search_by_tags", tags=["ml", "none"], mode="all") == []


@pytest.mark.rule("notes.random.node")
def test_a_random_node_has_one_of_the_tags_asked_for(wire: Wire) -> None:
    for _ in range(5):
        assert ok(wire, "random_node", tags=["map", "x"])["id"] in ("index.md", "sub/gamma.md")
    assert ok(wire, "random_node", tags=["none"]) is None
    assert len({ok(wire, "random_node")["id"] for _ in range(12)}) > 1
    assert ok(wire, "random_node", tags=[])["id"] in NOTES


@pytest.mark.rule("notes.warnings.own", "notes.warnings.objects")
def test_warnings_of_a_node_ride_on_it_and_never_on_lists(wire: Wire) -> None:
    found = ok(wire, "get_node", id="sub/warned.md")
    assert found["_warnings"][:3] == [
        "Broken link: [[missing-note]]",
        "Broken link: [m](gone.md)",
        "Duplicate tag ignored: One",
    ]
    assert list(found)[-1] == "_warnings"
    assert (found["tags"], ids(found["links"])) == (["one", "two"], ["alpha.md"])
    (listed,) = ok(wire, "search_by_tags", tags=["one"])
    assert "_warnings" not in listed
    assert "_warnings" not in ok(wire, "get_node", id="alpha.md")


@pytest.mark.rule("notes.warnings.limit", "notes.warnings.collected")
def test_there_are_20_warnings_at_most_and_those_of_the_watcher_only_once(desk: Wire, folder: Path) -> None:
    name = folder.name
    write(folder, {"many.md": " ".join(f"[[{name}-{number}]]" for number in range(25)), "ok.md": f"#{name}"})
    found = ok(desk, "get_node", id=f"{name}/many.md")
    assert found["_warnings"] == [f"Broken link: [[{name}-{number}]]" for number in range(20)]
    write(folder, {f"bad-{number}.md": f"---\nbroken: [\n---\n#{name}" for number in range(25)})
    end = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while len(ok(desk, "search_by_tags", tags=[name], limit=100)) < 26:
        assert time.monotonic() < end
    warnings = ok(desk, "find_path", source=f"{name}/ok.md", target=f"{name}/ok.md").get("_warnings", [])
    assert len(warnings) == 20
    assert all(f"{name}/bad-" in warning for warning in warnings)
    assert "_warnings" not in ok(desk, "find_path", source=f"{name}/ok.md", target=f"{name}/ok.md")


# --- what is refused


@pytest.mark.rule("notes.errors.invalid", "common.values.never_coerced", "common.error.shape")
@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("get_node", {}, "id must be a string"),
        ("get_node", {"id": 5}, "id must be a string"),
        ("get_node", {"id": None}, "id must be a string"),
        ("get_node", {"id": "a", "depth": 2}, "depth must be an integer from 0 to 1"),
        ("get_node", {"id": "a", "depth": "1"}, "depth must be an integer from 0 to 1"),
        ("get_node", {"id": "a", "depth": True}, "depth must be an integer from 0 to 1"),
        ("get_neighbors", {"id": "a", "direction": "up"}, "direction must be one of in, out, both"),
        ("get_neighbors", {"id": "a", "limit": 0}, "limit must be an integer from 1 to 50"),
        ("get_neighbors", {"id": "a", "limit": 51}, "limit must be an integer from 1 to 50"),
        ("find_path", {"source": "a"}, "target must be a string"),
        ("get_hubs", {"metric": "pagerank"}, "metric must be one of in_degree, out_degree"),
        ("get_hubs", {"limit": 2.5}, "limit must be an integer from 1 to 50"),
        ("search_by_tags", {}, "tags must be"),
        ("search_by_tags", {"tags": []}, "tags must be"),
        ("search_by_tags", {"tags": ["a", 1]}, "tags must be"),
        ("search_by_tags", {"tags": "a"}, "tags must be"),
        ("search_by_tags", {"tags": ["a"], "mode": "none"}, "mode must be one of any, all"),
        ("search_by_tags", {"tags": ["a"], "limit": 101}, "limit must be an integer from 1 to 100"),
        ("random_node", {"tags": "a"}, "tags must be"),
        ("create_node", {"title": "a"}, "content must be a string"),
        ("create_node", {"content": "a"}, "title must be a string"),
        ("create_node", {"title": "a", "content": "a", "tags": "x"}, "tags must be"),
        ("create_node", {"title": "...", "content": "a"}, "title must"),
        ("create_node", {"title": "a", "content": "a", "directory": "../x"}, "directory must"),
        ("create_node", {"title": "a", "content": "a", "directory": "/x"}, "directory must"),
        ("create_node", {"title": "a", "content": "a", "directory": ".git"}, "directory must"),
        ("update_node", {"title": "a"}, "id must be a string"),
        ("update_node", {"id": "a"}, "At least one of title, content and tags must be given"),
        ("update_node", {"id": "a", "tags": [1]}, "tags must be"),
        ("delete_node", {}, "id must be a string"),
    ],
)
def test_what_the_schema_does_not_allow_is_invalid_params(
    desk: Wire, tool: str, arguments: dict[str, Any], words: str
) -> None:
    found = error(desk, tool, **arguments)
    assert list(found) == ["code", "message"]
    assert found["code"] == "INVALID_PARAMS"
    assert words in found["message"]


@pytest.mark.rule("common.schema.extra")
def test_an_argument_that_the_contract_does_not_have_is_ignored(wire: Wire) -> None:
    assert ok(wire, "get_node", id="alpha.md", unknown=1) == ALPHA
    assert ok(wire, "search_by_tags", tags=["tutorial", "ml"], mode="all", depth="x") == [ALPHA]


# --- search


@pytest.fixture
def embedded(wire: Wire) -> Wire:
    """When everything can be found by its meaning."""
    end = time.monotonic() + 60
    while "garden.md" not in ids(ok(wire, "search", query="growing vegetables", limit=3)):
        assert time.monotonic() < end
    return wire


@pytest.mark.rule("notes.search.meaning", "notes.search.shape", "notes.search.score", "notes.warnings.objects")
def test_search_finds_by_meaning_and_by_words(embedded: Wire) -> None:
    assert ids(ok(embedded, "search", query="growing vegetables"))[0] == "garden.md"
    assert ids(ok(embedded, "search", query="planting a vegetable bed"))[0] == "garden.md"
    found = ok(embedded, "search", query="pistons")
    assert found[0]["id"] == "engines.md"
    for each in found:
        assert list(each) == ["id", "title", "content", "tags", "links", "score"]
        assert 0 <= each["score"] <= 1
    assert [each["score"] for each in found] == sorted((each["score"] for each in found), reverse=True)


@pytest.mark.rule("notes.search.title", "notes.search.floor", "notes.search.limit")
def test_a_note_whose_title_is_the_query_comes_first_and_nothing_is_made_up(embedded: Wire) -> None:
    assert ids(ok(embedded, "search", query="locomotive HISTORY"))[0] == "Locomotive history.md"
    assert ids(ok(embedded, "search", query="Beta title"))[0] == "beta.md"
    assert ok(embedded, "search", query="qwxz jjkvv zzyqx") == []
    assert len(ok(embedded, "search", query="number", limit=5)) == 5
    for query in ("", "   ", "???", "x" * 5000):
        assert isinstance(ok(embedded, "search", query=query), list)


@pytest.mark.rule("notes.search.limit", "notes.errors.invalid")
@pytest.mark.parametrize("arguments", [{}, {"query": 1}, {"query": "x", "limit": 0}, {"query": "x", "limit": 51}])
def test_search_checks_its_arguments(wire: Wire, arguments: dict[str, Any]) -> None:
    assert error(wire, "search", **arguments)["code"] == "INVALID_PARAMS"


@pytest.mark.rule("notes.files.untouched")
def test_reading_and_indexing_change_no_file(reading: NoteServers) -> None:
    before = digest(reading.vault)
    for kind in KINDS:
        wire = reading.wire(*kind)
        for name in NOTES:
            call(wire, "get_node", {"id": name, "depth": 1})
        for tool, arguments in [
            ("search", {"query": "alpha"}),
            ("get_neighbors", {"id": "beta.md"}),
            ("find_path", {"source": "code.md", "target": "index.md"}),
            ("get_hubs", {}),
            ("search_by_tags", {"tags": ["ml"]}),
            ("random_node", {}),
        ]:
            assert not call(wire, tool, arguments).get("isError")
    assert digest(reading.vault) == before
    assert contents(reading.vault) == {
        name: content.encode() if isinstance(content, str) else content for name, content in NOTES.items()
    }


@pytest.mark.rule("notes.search.follows")
def test_search_follows_an_edit(tmp_path: Path) -> None:
    servers = NoteServers(tmp_path, {"a.md": "Bees make honey.", "b.md": "Rain falls."})
    try:
        wire = servers.wire("stdio", MODERN)

        def found(query: str, note_id: str, *, is_there: bool = True) -> None:
            end = time.monotonic() + WAIT_TIMEOUT_SECONDS
            while (note_id in ids(ok(wire, "search", query=query))) is not is_there:
                assert time.monotonic() < end, query

        found("honey", "a.md")
        write(servers.vault, {"b.md": "A violin has four strings."})
        found("violin", "b.md")
        found("playing a musical instrument", "b.md")
        ok(wire, "update_node", id="a.md", content="Volcanoes erupt with lava.")
        assert ids(ok(wire, "search", query="lava"))[0] == "a.md", "our own change is there at once"
        found("honey", "a.md", is_there=False)
        made = ok(wire, "create_node", title="Sea", content="Whales sing under water.")
        assert ids(ok(wire, "search", query="whales"))[0] == made["id"]
        ok(wire, "delete_node", id=made["id"])
        assert made["id"] not in ids(ok(wire, "search", query="whales"))
        (servers.vault / "b.md").unlink()
        found("violin", "b.md", is_there=False)
    finally:
        servers.close()


@pytest.mark.rule("common.result.structured")
def test_results_are_what_the_text_says(wire: Wire) -> None:
    for tool, arguments in [
        ("get_hubs", {}),
        ("get_node", {"id": "nope"}),
        ("find_path", {"source": "alpha", "target": "beta"}),
    ]:
        result = call(wire, tool, arguments)
        if wire.era == MODERN or isinstance(value(result), dict):
            assert result.get("structuredContent") == value(result)
        else:
            assert "structuredContent" not in result
