"""catalog.md and its rulings, over every engine, transport and protocol revision; the graph is in a file of its own."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.content_seed import (
    ALPHA,
    APPLE,
    BARE,
    BETA,
    BULK,
    BY_NAME,
    COMPARED,
    EMPTY,
    FOREIGN,
    FULL,
    GAMMA,
    NEEDLES,
    NOWHERE,
    ROOT,
    TEXTS,
    UNICODE_NAMES,
    bulk_times,
    uid,
)
from tests.content_servers import compact, error, ok, same_schema, text
from tests.wire import Wire, call

pytest_plugins = ["tests.content_fixtures"]

TOOLS = ["list_projects", "search_entities", "get_entity", "get_entity_graph"]
SCOPED = TOOLS[1:]
BY_ID = ["get_entity", "get_entity_graph"]
NO_PROJECT = {"code": "PROJECT_NOT_FOUND", "message": "Project not found", "details": {}}
NO_ENTITY = {"code": "ENTITY_NOT_FOUND", "message": "Entity not found", "details": {}}
PROJECT_FIELDS = ["id", "name", "slug", "description", "createdAt", "updatedAt"]
FOUND_FIELDS = ["id", "entityType", "title", "slug", "summary", "status", "createdAt", "updatedAt"]


def good(tool: str, **changes: Any) -> dict[str, Any]:
    """Arguments with which the tool succeeds, and changes to them."""
    more = {"query": "needle"} if tool == "search_entities" else {"entityId": FULL}
    return {} if tool == "list_projects" else {"projectId": ALPHA, **more, **changes}


def search(wire: Wire, query: str, **more: Any) -> list[str]:
    """The ids found, in their order."""
    return [each["id"] for each in ok(wire, "search_entities", projectId=ALPHA, query=query, **more)["entities"]]


def invalid(wire: Wire, tool: str, field: str, **arguments: Any) -> str:
    """What the field must be, according to the error."""
    found = error(wire, tool, **arguments)
    assert list(found) == ["code", "message", "details"]
    assert found["code"] == "VALIDATION_ERROR"
    assert list(found["details"]) == ["field", "expected"]
    assert found["details"]["field"] == field
    assert found["message"].startswith(f"{field} ")
    assert found["details"]["expected"] in found["message"]
    return found["details"]["expected"]


# --- what is published


def contract() -> dict[str, dict[str, Any]]:
    """This file's own copy of the contract, with what a ruling adds to it."""
    copy = (Path(__file__).parent / "contracts" / "catalog.json").read_text(encoding="utf-8")
    tools = {tool["name"]: tool for tool in json.loads(copy)}
    tools["get_entity_graph"]["returns"]["properties"]["truncated"] = {"type": "boolean"}
    return tools


@pytest.mark.rule("catalog.tools.inventory", "catalog.tools.schema", "common.schema.exact")
def test_the_four_tools_are_published_as_the_contract_has_them(catalog: Wire) -> None:
    tools = catalog.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    for tool in tools:
        assert tool["description"] == contract()[tool["name"]]["description"]
        same_schema(tool["inputSchema"], contract()[tool["name"]]["parameters"])


@pytest.mark.rule("catalog.tools.output", "common.result.output_schema")
def test_output_schemas_are_published_with_an_optional_truncated(catalog: Wire) -> None:
    for tool in catalog.request("tools/list")["result"]["tools"]:
        same_schema(tool["outputSchema"], contract()[tool["name"]]["returns"])


@pytest.mark.rule("catalog.tools.output")
@pytest.mark.parametrize("tool", TOOLS)
def test_results_are_valid_against_the_published_schema(catalog: Wire, tool: str) -> None:
    schema = jsonschema_rs.Draft202012Validator(contract()[tool]["returns"], validate_formats=True)
    for project, entity in ((ALPHA, FULL), (ALPHA, BARE), (GAMMA, ROOT)):
        changes = {"projectId": project} | ({"query": "a"} if tool == "search_entities" else {"entityId": entity})
        schema.validate(ok(catalog, tool, **good(tool, **changes)))


@pytest.mark.rule("catalog.tools.read_only", "common.annotations.true")
def test_every_tool_only_reads(catalog: Wire) -> None:
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    assert [tool["annotations"] for tool in catalog.request("tools/list")["result"]["tools"]] == [hints] * 4


def test_the_contract_copy_is_the_contract() -> None:
    """Where the contracts lie beside the repository, the copy that the tests use must still be theirs."""
    source = Path(__file__).parents[2] / "shared" / "contracts" / "catalog.md"
    if not source.exists():
        return
    parts = re.split(r"\n### \d\. ", source.read_text(encoding="utf-8"))[1:]
    found = [
        [
            part.splitlines()[0],
            re.findall(r"\*\*Purpose\*\*: (.*)\.\n", part),
            [json.loads(block) for block in re.findall(r"```json\n(.*?)```", part, re.DOTALL)],
        ]
        for part in parts
    ]
    copy = json.loads((Path(__file__).parent / "contracts" / "catalog.json").read_text(encoding="utf-8"))
    assert json.dumps(found) == json.dumps(
        [[tool["name"], [tool["description"]], [tool["parameters"], tool["returns"]]] for tool in copy]
    )


# --- errors


@pytest.mark.rule("catalog.error.envelope", "common.error.shape")
def test_an_error_is_code_message_and_details(catalog: Wire) -> None:
    result = call(catalog, "get_entity", {"projectId": NOWHERE, "entityId": FULL})
    expected = '{"error":{"code":"PROJECT_NOT_FOUND","message":"Project not found","details":{}}}'
    assert result["content"] == [{"type": "text", "text": expected}]
    assert result["isError"] is True
    assert "structuredContent" not in result


@pytest.mark.rule("catalog.error.project")
@pytest.mark.parametrize("tool", SCOPED)
def test_a_project_that_does_not_exist_is_not_found(catalog: Wire, tool: str) -> None:
    assert error(catalog, tool, **good(tool, projectId=NOWHERE)) == NO_PROJECT


@pytest.mark.rule("catalog.error.entity")
@pytest.mark.parametrize("tool", BY_ID)
def test_an_entity_that_does_not_exist_is_not_found(catalog: Wire, tool: str) -> None:
    assert error(catalog, tool, **good(tool, entityId=NOWHERE)) == NO_ENTITY


@pytest.mark.rule("catalog.entity.isolation", "catalog.graph.isolation")
@pytest.mark.parametrize("tool", BY_ID)
@pytest.mark.parametrize(("project", "entity"), [(ALPHA, FOREIGN), (BETA, FULL), (EMPTY, FULL), (ALPHA, ALPHA)])
def test_an_entity_of_another_project_is_answered_as_none(catalog: Wire, tool: str, project: str, entity: str) -> None:
    elsewhere = text(catalog, tool, projectId=project, entityId=entity)
    nowhere = text(catalog, tool, projectId=project, entityId=NOWHERE)
    assert elsewhere == nowhere == compact({"error": NO_ENTITY})


@pytest.mark.rule("catalog.error.first")
@pytest.mark.parametrize("tool", BY_ID)
def test_arguments_come_before_the_project_and_the_project_before_the_entity(catalog: Wire, tool: str) -> None:
    assert error(catalog, tool, projectId=NOWHERE, entityId=NOWHERE) == NO_PROJECT
    invalid(catalog, tool, "entityId", projectId=NOWHERE, entityId="x")
    invalid(catalog, "search_entities", "query", projectId=NOWHERE, query="")


@pytest.mark.rule("catalog.error.validation", "catalog.error.missing")
@pytest.mark.parametrize(
    ("tool", "field"), [(tool, field) for tool in SCOPED for field in good(tool)], ids=lambda word: word
)
def test_a_required_argument_that_is_missing_is_named(catalog: Wire, tool: str, field: str) -> None:
    arguments = good(tool)
    del arguments[field]
    assert invalid(catalog, tool, field, **arguments)
    assert invalid(catalog, tool, field, **arguments, **{field: None})


@pytest.mark.rule("catalog.error.unknown_argument", "catalog.projects.arguments")
@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_argument_is_named(catalog: Wire, tool: str) -> None:
    assert invalid(catalog, tool, "page", **good(tool), page=1)


@pytest.mark.rule("catalog.id.malformed")
@pytest.mark.parametrize(
    ("tool", "field"), [(tool, field) for tool in SCOPED for field in good(tool) if field != "query"]
)
def test_an_id_that_is_no_uuid_is_invalid(catalog: Wire, tool: str, field: str) -> None:
    for bad in ("", "x", FULL[:-1], FULL + "0", FULL + "\n", f"{{{FULL}}}", f" {FULL}", FULL.replace("-", ""), 5):
        assert "UUID" in invalid(catalog, tool, field, **good(tool, **{field: bad}))


@pytest.mark.rule("catalog.id.upper")
@pytest.mark.parametrize("tool", SCOPED)
def test_upper_case_ids_are_lowered(catalog: Wire, tool: str) -> None:
    arguments = good(tool)
    upper = {key: argument.upper() if key.endswith("Id") else argument for key, argument in arguments.items()}
    assert text(catalog, tool, **upper) == text(catalog, tool, **arguments) == compact(ok(catalog, tool, **arguments))


# --- list_projects


@pytest.mark.rule("catalog.projects.order", "catalog.projects.limit")
def test_projects_are_in_order_of_casefolded_name_and_id_and_a_hundred_at_most(catalog: Wire) -> None:
    found = ok(catalog, "list_projects")["projects"]
    assert [each["name"] for each in found] == [*BY_NAME, *(f"zz {n:03}" for n in range(1, 90))]
    assert len(found) == 100
    assert [each["id"] for each in found if each["name"].casefold() == "strasse"] == list(UNICODE_NAMES)


@pytest.mark.rule("catalog.projects.fields", "catalog.time.format")
def test_a_project_has_its_fields_in_their_order(catalog: Wire) -> None:
    found = ok(catalog, "list_projects")["projects"]
    assert {tuple(each) for each in found} == {tuple(PROJECT_FIELDS)}
    alpha, beta = found[1:3]
    assert alpha == {
        "id": ALPHA,
        "name": "alpha",
        "slug": "alpha",
        "description": "Söme “description”",
        "createdAt": "2025-01-01T00:00:00.123Z",
        "updatedAt": "2025-01-02T00:00:00.000Z",
    }
    assert beta["description"] is None


# --- search_entities


@pytest.mark.rule("catalog.search.fields", "common.result.text", "common.result.structured")
def test_a_found_entity_has_its_fields_in_their_order(catalog: Wire) -> None:
    result = call(catalog, "search_entities", {"projectId": ALPHA, "query": "needle", "limit": 2})
    times = {"createdAt": "2025-01-01T00:00:00.000Z", "updatedAt": "2025-01-07T00:00:00.000Z"}
    third = {"title": "Three", "slug": "three", "summary": "Hay, Needle, hay", "status": "published", **times}
    times = {"createdAt": "2025-01-06T00:00:00.000Z", "updatedAt": "2025-01-06T00:00:00.000Z"}
    first = {"title": "A NEEDLE in the title", "slug": "one", "summary": None, "status": "published", **times}
    expected = {
        "entities": [
            {"id": NEEDLES[2], "entityType": "news", **third},
            {"id": NEEDLES[0], "entityType": "guide", **first},
        ],
        "totalCount": 3,
    }
    assert result["content"] == [{"type": "text", "text": compact(expected)}]
    assert result["structuredContent"] == expected
    assert list(expected["entities"][0]) == FOUND_FIELDS


@pytest.mark.rule("catalog.search.where", "catalog.search.isolation")
def test_title_slug_and_summary_are_searched_in_this_project_alone(catalog: Wire) -> None:
    assert search(catalog, "needle") == [NEEDLES[2], NEEDLES[0], NEEDLES[1]]
    other = ok(catalog, "search_entities", projectId=BETA, query="needle")
    assert ([each["id"] for each in other["entities"]], other["totalCount"]) == ([FOREIGN], 1)
    assert ok(catalog, "search_entities", projectId=EMPTY, query="needle") == {"entities": [], "totalCount": 0}


@pytest.mark.rule("catalog.search.where")
@pytest.mark.parametrize("between", ["\x01", " ", "\n", "", "\t", "\x1f"])
def test_no_query_spans_two_fields(catalog: Wire, between: str) -> None:
    assert search(catalog, f"title{between}one") == []
    assert search(catalog, f"three{between}hay") == []


@pytest.mark.rule("catalog.search.fold")
@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("straße", [1, 2]),
        ("STRASSE", [1, 2]),
        ("İSTANBUL", [3]),
        ("i\u0307stanbul", [3]),
        ("istanbul", []),
        ("CAF\u00c9", [4, 5]),
        ("cafe\u0301", [4, 5]),
        ("cafe", []),
        ("σίσυφος", [12]),
        ("ΣΙΣΥΦΟΣ", []),
    ],
)
def test_text_is_compared_casefolded(catalog: Wire, query: str, places: list[int]) -> None:
    assert search(catalog, query) == [uid(0xE3, place) for place in places]


@pytest.mark.rule("catalog.search.literal")
@pytest.mark.parametrize(
    ("query", "places"), [("100%", [6]), ("snake_", [8]), ("back\\s", [10]), ("%", [6]), ("_", [8]), ("\\", [10])]
)
def test_wildcards_are_ordinary_characters(catalog: Wire, query: str, places: list[int]) -> None:
    assert search(catalog, query) == [uid(0xE3, place) for place in places]
    assert search(catalog, query + query) == []


@pytest.mark.rule("catalog.search.short")
def test_short_queries_find_as_longer_ones_do(catalog: Wire) -> None:
    assert search(catalog, "ß") == [number for number, title in TEXTS.items() if "ss" in title.casefold()]
    assert search(catalog, "Σ") == [uid(0xE3, 12)]
    assert search(catalog, "\u00c9") == [uid(0xE3, 4), uid(0xE3, 5)]
    assert search(catalog, '"') == search(catalog, "'") == search(catalog, "*") == []


@pytest.mark.rule("catalog.search.length", "common.values.code_points")
def test_a_query_has_1_to_256_code_points(catalog: Wire) -> None:
    assert search(catalog, "\U0001f600" * 256) == []
    for bad in ("", "\U0001f600" * 257, 5, ["needle"], True):
        assert invalid(catalog, "search_entities", "query", projectId=ALPHA, query=bad)


@pytest.mark.rule("catalog.search.types")
def test_types_filter(catalog: Wire) -> None:
    assert search(catalog, "needle", entityTypes=["news", "concept"]) == [NEEDLES[2], NEEDLES[1]]
    assert search(catalog, "needle", entityTypes=["project"]) == []
    everything = ["guide", "concept", "project", "news"]
    assert search(catalog, "needle", entityTypes=[]) == search(catalog, "needle", entityTypes=everything)
    assert len(search(catalog, "needle", entityTypes=[])) == 3


@pytest.mark.rule("catalog.search.types_invalid")
@pytest.mark.parametrize("bad", [["guide", "guide"], ["Guide"], ["video"], "guide", [None], None, {}])
def test_unknown_and_repeated_types_are_invalid(catalog: Wire, bad: Any) -> None:
    invalid(catalog, "search_entities", "entityTypes", **good("search_entities"), entityTypes=bad)


@pytest.mark.rule(
    "catalog.search.order", "catalog.search.limit", "catalog.search.total", "catalog.search.limit_default"
)
def test_found_entities_are_newest_first_then_by_id(catalog: Wire) -> None:
    times = {number: bulk_times(n)[1] for n, number in enumerate(BULK)}
    expected = sorted(sorted(BULK), key=lambda number: times[number], reverse=True)
    assert search(catalog, "bulk") == expected[:20]
    assert search(catalog, "bulk", limit=50) == expected[:50]
    assert search(catalog, "bulk", limit=1) == expected[:1]
    assert search(catalog, "bulk", limit=3.0) == expected[:3]
    for limit in (1, 50):
        assert ok(catalog, "search_entities", projectId=ALPHA, query="bulk", limit=limit)["totalCount"] == len(BULK)
    guides = [number for number in expected if BULK.index(number) % 2 == 0]
    assert search(catalog, "bulk", entityTypes=["guide"], limit=50) == guides[:50]


@pytest.mark.rule("catalog.search.limit", "common.values.never_coerced")
@pytest.mark.parametrize("bad", [0, 51, -1, "5", 5.5, True, None, 10**30])
def test_other_limits_are_invalid(catalog: Wire, bad: Any) -> None:
    invalid(catalog, "search_entities", "limit", **good("search_entities"), limit=bad)


@pytest.mark.rule("catalog.search.nothing")
def test_a_search_without_matches(catalog: Wire) -> None:
    assert text(catalog, "search_entities", projectId=ALPHA, query="haystack") == '{"entities":[],"totalCount":0}'


# --- get_entity


@pytest.mark.rule("catalog.entity.fields", "catalog.time.format")
def test_an_entity_with_everything(catalog: Wire) -> None:
    expected = {
        "id": FULL,
        "entityType": "project",
        "title": "Full",
        "slug": "full",
        "summary": "All there is",
        "difficulty": "advanced",
        "conceptKind": None,
        "comparisonTargets": [],
        "repoUrl": "https://example.org/full.git",
        "repoDefaultBranch": "main",
        "license": "MIT",
        "status": "archived",
        "canonicalUrl": "https://example.org/full",
        "contentRef": "content/full.md",
        "publishedAt": "2025-02-01T08:00:00.000Z",
        "archivedAt": "2025-02-02T09:10:11.500Z",
        "createdAt": "2025-01-31T23:59:59.999Z",
        "updatedAt": "2025-02-04T00:00:00.000Z",
        "relationshipCounts": {"outgoing": 0, "incoming": 0},
    }
    assert text(catalog, "get_entity", projectId=ALPHA, entityId=FULL) == compact({"entity": expected})


@pytest.mark.rule("catalog.entity.fields")
def test_what_an_entity_does_not_have_is_null(catalog: Wire) -> None:
    bare = ok(catalog, "get_entity", projectId=ALPHA, entityId=BARE)["entity"]
    empty = {"summary", "difficulty", "conceptKind", "repoUrl", "repoDefaultBranch", "license"}
    empty |= {"canonicalUrl", "contentRef", "publishedAt", "archivedAt"}
    assert {field for field, found in bare.items() if found is None} == empty
    assert bare["comparisonTargets"] == []
    compared = ok(catalog, "get_entity", projectId=ALPHA, entityId=COMPARED)["entity"]
    assert (compared["conceptKind"], compared["comparisonTargets"]) == ("comparison", [BARE, FULL])


@pytest.mark.rule("catalog.entity.counts", "catalog.entity.counts_self", "catalog.entity.counts_graph")
@pytest.mark.parametrize(("entity", "outgoing", "incoming"), [(ROOT, 3, 1), (APPLE, 2, 6)])
def test_relations_between_entities_are_counted(catalog: Wire, entity: str, outgoing: int, incoming: int) -> None:
    found = ok(catalog, "get_entity", projectId=GAMMA, entityId=entity)["entity"]
    assert found["relationshipCounts"] == {"outgoing": outgoing, "incoming": incoming}
    edges = ok(catalog, "get_entity_graph", projectId=GAMMA, entityId=entity)["edges"]
    assert [each["fromEntityId"] for each in edges].count(entity) == outgoing
    assert [each["toEntityId"] for each in edges].count(entity) == incoming
