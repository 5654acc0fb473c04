"""bridge.md and its rulings, over every engine, transport and protocol revision: what is published, envelopes, paging,
projects and entities. The graph, the other lists, the API and the way to it are in files of their own."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.content_seed import (
    ALPHA,
    BARE,
    BETA,
    BULK,
    COMPARED,
    EMPTY,
    FOREIGN,
    FULL,
    GAMMA,
    NEEDLES,
    NOWHERE,
    ROOT,
    alpha_entities,
    projects,
    uid,
)
from tests.content_servers import compact, error, ok, same_schema, text
from tests.typescript import fields_of_schema, fields_of_type
from tests.wire import Wire, call

pytest_plugins = ["tests.content_fixtures"]

TOOLS = [
    "list_projects",
    "search_entities",
    "get_entity",
    "get_entity_graph",
    "list_search_performance",
    "list_quotable_blocks",
]
LISTS = [tool for tool in TOOLS if not tool.startswith("get_")]
SCOPED = TOOLS[1:]
BY_ID = ["get_entity", "get_entity_graph"]
NO_PROJECT = {"code": "NOT_FOUND", "message": "Project not found"}
NO_ENTITY = {"code": "NOT_FOUND", "message": "Entity not found"}
NO_UUIDS: list[Any] = [
    "",
    "x",
    FULL[:-1],
    FULL + "0",
    FULL + "\n",
    f" {FULL}",
    f"{{{FULL}}}",
    FULL.replace("-", ""),
    "00000000-0000-7000-a000-000000000001",
    "00000000-0000-4000-c000-000000000001",
    "00000000-0000-0000-0000-000000000000",
    5,
]
ENUMS = {
    ("search_entities", "entityType"): ["guide", "concept", "project", "news"],
    ("search_entities", "status"): ["draft", "publish_requested", "published", "archived"],
    ("search_entities", "conceptKind"): ["standard", "model", "comparison"],
    ("list_quotable_blocks", "claimType"): ["statistic", "comparison", "definition", "howto_step"],
}


def good(tool: str, **changes: Any) -> dict[str, Any]:
    """Arguments with which the tool succeeds, and changes to them."""
    scope = {} if tool == "list_projects" else {"projectId": ALPHA}
    return {**scope, **({"entityId": FULL} if tool in BY_ID else {}), **changes}


def bad_request(wire: Wire, tool: str, **arguments: Any) -> str:
    """The message; it must name the first argument that is at fault, or what that is called in words."""
    found = error(wire, tool, **arguments)
    assert list(found) == ["code", "message"]
    assert found["code"] == "BAD_REQUEST", found
    return found["message"]


def found(wire: Wire, **filters: Any) -> list[str]:
    """The ids that search_entities lists, a hundred at most."""
    listed = ok(wire, "search_entities", **{"projectId": ALPHA, "limit": 100, **filters})
    return [each["id"] for each in listed["data"]]


# --- what is published


def contract() -> dict[str, dict[str, Any]]:
    """This file's own copy of the contract, with what a ruling adds to it."""
    copy = (Path(__file__).parent / "contracts" / "bridge.json").read_text(encoding="utf-8")
    tools = {tool["name"]: tool for tool in json.loads(copy)}
    tools["get_entity_graph"]["returns"]["properties"]["data"]["properties"]["truncated"] = {"type": "boolean"}
    return tools


@pytest.mark.rule("bridge.tools.inventory", "bridge.tools.schema", "common.schema.exact")
def test_the_six_tools_are_published_as_the_contract_has_them(bridge: Wire) -> None:
    tools = bridge.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    for tool in tools:
        assert tool["description"] == contract()[tool["name"]]["description"]
        same_schema(tool["inputSchema"], contract()[tool["name"]]["parameters"])


@pytest.mark.rule("bridge.tools.output", "common.result.output_schema")
def test_output_schemas_are_published_with_an_optional_truncated(bridge: Wire) -> None:
    for tool in bridge.request("tools/list")["result"]["tools"]:
        same_schema(tool["outputSchema"], contract()[tool["name"]]["returns"])


@pytest.mark.rule("bridge.tools.output")
@pytest.mark.parametrize("tool", TOOLS)
def test_results_are_valid_against_the_published_schema(bridge: Wire, tool: str) -> None:
    schema = jsonschema_rs.Draft202012Validator(contract()[tool]["returns"], validate_formats=True)
    schema.validate(ok(bridge, tool, **good(tool)))
    if tool != "list_projects":
        entity = {"entityId": ROOT} if tool in BY_ID else {}
        schema.validate(ok(bridge, tool, projectId=GAMMA, **entity))


@pytest.mark.rule("bridge.tools.read_only", "common.annotations.true")
def test_every_tool_only_reads(bridge: Wire) -> None:
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    assert [tool["annotations"] for tool in bridge.request("tools/list")["result"]["tools"]] == [hints] * 6


@pytest.mark.rule("bridge.tools.schema", "bridge.enum.relationship_types")
def test_the_contract_copy_says_what_the_contract_says() -> None:
    """Where the contracts lie beside the repository: field by field, in order, with type and comment."""
    kinds = contract()["get_entity_graph"]["parameters"]["properties"]["relationshipTypes"]
    comment, _, listed = kinds["description"].partition(": ")
    types = listed.split(", ")
    assert len(set(types)) == len(types) == 19
    source = Path(__file__).parents[2] / "shared" / "contracts" / "bridge.md"
    if not source.exists():
        return
    parts = re.split(r"\n### Tool \d: ", source.read_text(encoding="utf-8"))[1:]
    assert [part.splitlines()[0].strip("`") for part in parts] == TOOLS
    copy = json.loads((Path(__file__).parent / "contracts" / "bridge.json").read_text(encoding="utf-8"))
    for tool, part in zip(copy, parts, strict=True):
        assert f"**Purpose:** {tool['description']}.\n" in part
        if tool["name"] == "get_entity_graph":
            (valid,) = re.findall(r"Valid Relationship Types:\*\*\n```\n(.*?)```", part, re.DOTALL)
            assert re.findall(r"\w+", valid) == types
            tool["parameters"]["properties"]["relationshipTypes"]["description"] = comment
        for block, schema in zip(
            re.findall(r"```typescript\n(.*?)```", part, re.DOTALL), ("parameters", "returns"), strict=True
        ):
            assert list(fields_of_schema(tool[schema])) == list(fields_of_type(block))


# --- errors


@pytest.mark.rule("bridge.envelope.error", "common.error.shape", "bridge.error.not_found")
@pytest.mark.parametrize("tool", SCOPED)
def test_a_project_that_does_not_exist_is_not_found(bridge: Wire, tool: str) -> None:
    result = call(bridge, tool, good(tool, projectId=NOWHERE))
    assert result["content"] == [
        {"type": "text", "text": '{"error":{"code":"NOT_FOUND","message":"Project not found"}}'}
    ]
    assert result["isError"] is True
    assert "structuredContent" not in result


@pytest.mark.rule("bridge.error.not_found", "bridge.project.isolation")
@pytest.mark.parametrize("tool", BY_ID)
@pytest.mark.parametrize(("project", "entity"), [(ALPHA, FOREIGN), (BETA, FULL), (EMPTY, FULL), (ALPHA, ALPHA)])
def test_an_entity_of_another_project_is_answered_as_none(bridge: Wire, tool: str, project: str, entity: str) -> None:
    elsewhere = text(bridge, tool, projectId=project, entityId=entity)
    nowhere = text(bridge, tool, projectId=project, entityId=NOWHERE)
    assert elsewhere == nowhere == compact({"error": NO_ENTITY})


@pytest.mark.rule("bridge.error.project_first")
@pytest.mark.parametrize("tool", BY_ID)
def test_the_project_is_looked_for_before_the_entity(bridge: Wire, tool: str) -> None:
    assert error(bridge, tool, projectId=NOWHERE, entityId=NOWHERE) == NO_PROJECT


@pytest.mark.rule("bridge.error.bad_request")
@pytest.mark.parametrize(("tool", "field"), [(tool, field) for tool in SCOPED for field in good(tool)])
def test_a_missing_argument_is_a_bad_request_that_names_it(bridge: Wire, tool: str, field: str) -> None:
    arguments = good(tool)
    del arguments[field]
    assert field in bad_request(bridge, tool, **arguments)
    assert field in bad_request(bridge, tool, **arguments, **{field: None})


@pytest.mark.rule("bridge.error.bad_request")
@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_argument_is_a_bad_request_that_names_it(bridge: Wire, tool: str) -> None:
    assert "orderBy" in bad_request(bridge, tool, **good(tool), orderBy="id")


@pytest.mark.rule("bridge.error.bad_request", "common.values.never_coerced")
@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ("search_entities", "search"),
        ("get_entity_graph", "relationshipTypes"),
        ("list_search_performance", "query"),
        ("list_search_performance", "pageUrl"),
        ("list_search_performance", "dateEnd"),
        ("list_quotable_blocks", "topicTag"),
        ("list_quotable_blocks", "verifiedUntilAfter"),
    ],
)
def test_what_is_no_string_is_a_bad_request(bridge: Wire, tool: str, field: str) -> None:
    for bad in (5, True, None, ["x"]):
        assert field in bad_request(bridge, tool, **good(tool), **{field: bad})


@pytest.mark.rule("bridge.id.malformed")
@pytest.mark.parametrize(
    ("tool", "field"),
    [
        *((tool, field) for tool in SCOPED for field in good(tool)),
        ("list_search_performance", "entityId"),
        ("list_quotable_blocks", "entityId"),
    ],
)
def test_an_id_that_is_no_uuid_of_section_7_is_a_bad_request(bridge: Wire, tool: str, field: str) -> None:
    for bad in NO_UUIDS:
        assert field in bad_request(bridge, tool, **good(tool, **{field: bad}))


@pytest.mark.rule("bridge.id.upper")
@pytest.mark.parametrize("tool", SCOPED)
def test_upper_case_ids_are_lowered(bridge: Wire, tool: str) -> None:
    arguments = good(tool, **({} if tool == "search_entities" else {"entityId": FULL}))
    upper = {key: argument.upper() for key, argument in arguments.items()}
    assert text(bridge, tool, **upper) == text(bridge, tool, **arguments) == compact(ok(bridge, tool, **arguments))


@pytest.mark.rule("bridge.enum.values")
@pytest.mark.parametrize(("tool", "field"), ENUMS)
def test_a_value_outside_an_enum_is_answered_with_the_valid_ones(bridge: Wire, tool: str, field: str) -> None:
    for bad in ("video", "GUIDE", "", " guide", 5, None):
        message = bad_request(bridge, tool, **good(tool), **{field: bad})
        assert field in message
        assert ", ".join(ENUMS[tool, field]) in message


# --- pages


@pytest.mark.rule("bridge.envelope.list", "bridge.page.default", "bridge.page.has_more")
@pytest.mark.parametrize(
    ("tool", "total"),
    [
        ("list_projects", len(projects())),
        ("search_entities", len(alpha_entities())),
        ("list_search_performance", 32),
        ("list_quotable_blocks", 24),
    ],
)
def test_without_page_and_limit_the_first_20_are_listed(bridge: Wire, tool: str, total: int) -> None:
    listed = ok(bridge, tool, **good(tool))
    assert list(listed) == ["data", "pagination"]
    assert len(listed["data"]) == 20
    assert compact(listed["pagination"]) == f'{{"page":1,"limit":20,"total":{total},"hasMore":true}}'
    assert ok(bridge, tool, **good(tool, page=1, limit=20)) == listed
    assert ok(bridge, tool, **good(tool, page=1.0, limit=20.0)) == listed


@pytest.mark.rule("bridge.page.stable", "bridge.page.has_more", "bridge.page.limit")
@pytest.mark.parametrize("tool", LISTS)
@pytest.mark.parametrize("limit", [1, 7, 8, 16, 100])
def test_the_pages_together_are_the_list(bridge: Wire, tool: str, limit: int) -> None:
    first = ok(bridge, tool, **good(tool, limit=100))
    total, whole = first["pagination"]["total"], first["data"]
    pages = [
        ok(bridge, tool, **good(tool, page=page, limit=limit)) for page in range(1, min(9, -(-total // limit)) + 1)
    ]
    for number, page in enumerate(pages, 1):
        more = number * limit < total
        assert page["pagination"] == {"page": number, "limit": limit, "total": total, "hasMore": more}
    joined = [each for page in pages for each in page["data"]]
    assert joined[:100] == whole[: len(joined)]
    assert len({each["id"] for each in joined}) == len(joined) == min(total, limit * len(pages))


@pytest.mark.rule("bridge.page.past_the_end")
@pytest.mark.parametrize("tool", LISTS)
@pytest.mark.parametrize("page", [2, 3, 10**6, 2**53])
def test_a_page_past_the_end_is_empty_with_the_true_total(bridge: Wire, tool: str, page: int) -> None:
    total = ok(bridge, tool, **good(tool))["pagination"]["total"]
    if page == 2:
        page = -(-total // 100) + 1
    assert ok(bridge, tool, **good(tool, page=page, limit=100)) == {
        "data": [],
        "pagination": {"page": page, "limit": 100, "total": total, "hasMore": False},
    }


@pytest.mark.rule("bridge.page.invalid", "common.values.never_coerced")
@pytest.mark.parametrize("tool", LISTS)
def test_other_pages_and_limits_are_bad_requests(bridge: Wire, tool: str) -> None:
    for bad in (0, -1, "1", 1.5, True, None, [1]):
        assert "page" in bad_request(bridge, tool, **good(tool, page=bad))
    for bad in (0, 101, -1, "20", 0.5, False, None, 10**30):
        assert "limit" in bad_request(bridge, tool, **good(tool, limit=bad))


# --- list_projects


@pytest.mark.rule("bridge.projects.order", "bridge.projects.fields", "bridge.date.format")
def test_projects_are_in_order_of_slug(bridge: Wire) -> None:
    pages = [ok(bridge, "list_projects", page=page, limit=100)["data"] for page in (1, 2)]
    listed = [*pages[0], *pages[1]]
    assert [each["slug"] for each in listed] == sorted(each["slug"] for each in projects())
    assert [each["slug"] for each in listed][:4] == ["a-c", "ab", "alpha", "beta"]
    assert compact(listed[2]) == compact(
        {
            "id": ALPHA,
            "slug": "alpha",
            "name": "alpha",
            "description": "Söme “description”",
            "createdAt": "2025-01-01T00:00:00.123Z",
            "updatedAt": "2025-01-02T00:00:00.000Z",
        }
    )
    assert listed[3]["description"] is None


# --- search_entities, get_entity

FULL_ENTITY = {
    "id": FULL,
    "projectId": ALPHA,
    "entityType": "project",
    "title": "Full",
    "slug": "full",
    "summary": "All there is",
    "difficulty": "advanced",
    "conceptKind": None,
    "repoUrl": "https://example.org/full.git",
    "status": "archived",
    "canonicalUrl": "https://example.org/full",
    "lastVerifiedAt": "2025-02-03T00:00:00.001Z",
    "createdAt": "2025-01-31T23:59:59.999Z",
    "updatedAt": "2025-02-04T00:00:00.000Z",
}


@pytest.mark.rule("bridge.entities.fields", "bridge.entity.fields", "bridge.envelope.single", "bridge.date.format")
@pytest.mark.rule("common.result.text", "common.result.structured")
def test_an_entity_has_its_fields_in_their_order(bridge: Wire) -> None:
    result = call(bridge, "get_entity", {"projectId": ALPHA, "entityId": FULL})
    assert result["content"] == [{"type": "text", "text": compact({"data": FULL_ENTITY})}]
    assert result["structuredContent"] == {"data": FULL_ENTITY}
    (listed,) = ok(bridge, "search_entities", projectId=ALPHA, entityType="project")["data"]
    assert compact(listed) == compact(FULL_ENTITY)


@pytest.mark.rule("bridge.entities.fields", "bridge.entity.fields")
def test_what_an_entity_does_not_have_is_null(bridge: Wire) -> None:
    bare = ok(bridge, "get_entity", projectId=ALPHA, entityId=BARE)["data"]
    assert list(bare) == list(FULL_ENTITY)
    empty = {"summary", "difficulty", "conceptKind", "repoUrl", "canonicalUrl", "lastVerifiedAt"}
    assert {field for field, value in bare.items() if value is None} == empty


def in_order(*kept: str) -> list[str]:
    """These entities of Alpha as a list has them: newest first, then the highest id."""
    times = {row["id"]: row["createdAt"] for row in alpha_entities()}
    return sorted(kept, key=lambda number: (times[number], number), reverse=True)


@pytest.mark.rule("bridge.entities.order", "bridge.entities.type", "bridge.entities.isolation")
def test_entities_are_newest_first_whatever_the_filters(bridge: Wire) -> None:
    rows = alpha_entities()
    assert found(bridge) == in_order(*(row["id"] for row in rows))[:100]
    for kind in ("guide", "concept", "project", "news"):
        assert found(bridge, entityType=kind) == in_order(*(row["id"] for row in rows if row["entityType"] == kind))
    for status in ("draft", "publish_requested", "published", "archived"):
        assert found(bridge, status=status) == in_order(*(row["id"] for row in rows if row["status"] == status))
    drafts = [row["id"] for row in rows if (row["entityType"], row["status"]) == ("guide", "draft")]
    assert found(bridge, entityType="guide", status="draft", search="BULK") == in_order(*drafts)
    assert found(bridge, projectId=BETA) == [FOREIGN]
    assert found(bridge, projectId=EMPTY) == []


@pytest.mark.rule("bridge.entities.type", "bridge.entities.kind_elsewhere")
def test_a_concept_kind_is_one_more_filter(bridge: Wire) -> None:
    assert found(bridge, conceptKind="comparison") == [COMPARED]
    assert found(bridge, conceptKind="model", entityType="concept") == [uid(0xE1, 6)]
    assert found(bridge, conceptKind="model", status="published") == [uid(0xE1, 6)]
    assert found(bridge, conceptKind="model", status="draft") == []
    assert found(bridge, conceptKind="standard") == []
    listed = ok(bridge, "search_entities", projectId=ALPHA, conceptKind="comparison", entityType="guide")
    assert listed == {"data": [], "pagination": {"page": 1, "limit": 20, "total": 0, "hasMore": False}}


@pytest.mark.rule("bridge.entities.search", "bridge.entities.search_empty", "bridge.entities.isolation")
def test_search_looks_into_title_and_slug(bridge: Wire) -> None:
    assert found(bridge, search="nEEdle") == [NEEDLES[1], NEEDLES[0]]
    assert found(bridge, search="hay") == []
    assert found(bridge, search="title\x01one") == found(bridge, search="titleone") == found(bridge, search="e o") == []
    assert text(bridge, "search_entities", projectId=ALPHA, search="") == text(
        bridge, "search_entities", projectId=ALPHA
    )
    listed = ok(bridge, "search_entities", projectId=ALPHA, search="bulk", limit=3)
    assert [each["id"] for each in listed["data"]] == in_order(*BULK)[:3]
    assert listed["pagination"] == {"page": 1, "limit": 3, "total": 105, "hasMore": True}


@pytest.mark.rule("bridge.entities.search", "bridge.entities.search_literal")
@pytest.mark.parametrize(
    ("search", "places"),
    [
        ("straße", [2, 1]),
        ("SS", [2, 1]),
        ("i\u0307STANBUL", [3]),
        ("Cafe\u0301", [5, 4]),
        ("\u00e9", [5, 4]),
        ("σίσυφος", [12]),
        ("100%", [6]),
        ("snake_", [8]),
        ("back\\s", [10]),
        ("%", [6]),
        ("_", [8]),
        ("\\", [10]),
        ("&", []),
        ("a+b", []),
        ("=#?;", []),
        ("x" * 5000, []),
    ],
)
def test_search_compares_casefolded_text_and_takes_every_character_for_itself(
    bridge: Wire, search: str, places: list[int]
) -> None:
    assert found(bridge, search=search) == [uid(0xE3, place) for place in places]
