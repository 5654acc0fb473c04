"""The bridge's get_entity_graph, over every engine, transport and protocol revision."""

import json
from pathlib import Path
from typing import Any

import pytest

from carrel.content.entities import EntityRepository
from carrel.content.projects import ProjectRepository
from carrel.content.relationships import RelationshipRepository
from carrel.storage.database import Session, locate
from carrel.storage.schema_version import open_database
from tests.content_seed import (
    ALPHA,
    APPLE,
    APPLE_2,
    BESIDE,
    BEYOND,
    BUSY,
    CHERRY,
    EVENT,
    EXPLAINS,
    FAR,
    FULL,
    FULL_HOUSE,
    GAMMA,
    HUB,
    NEWS,
    OWNER,
    RELATES,
    ROOT,
    SHARER,
    SMALL_GRAPH,
    SOURCE,
    STRANGER,
    USES,
    VIDEO,
    VIDEOS,
    WIDE,
    at,
    relation_id,
    uid,
    video_relation,
)
from tests.content_servers import ENGINES, ContentServers, compact, error, ok, text
from tests.wire import Wire

pytest_plugins = ["tests.content_fixtures"]

COPY = json.loads((Path(__file__).parent / "contracts" / "bridge.json").read_text(encoding="utf-8"))
_TYPES = COPY[3]["parameters"]["properties"]["relationshipTypes"]["description"]
RELATION_TYPES = _TYPES.partition(": ")[2].split(", ")
Listed = list[tuple[int, str | None]]


def graph(wire: Wire, entity: str, **more: Any) -> Listed:
    """The relations as (number in the seed, id of the related entity), in their order; nothing was left out."""
    data = ok(wire, "get_entity_graph", projectId=GAMMA, entityId=entity, **more)["data"]
    assert list(data) == ["rootEntity", "relationships", "depth"]
    assert data["rootEntity"]["id"] == entity
    assert data["depth"] == more.get("depth", 1)
    listed: Listed = []
    for each in data["relationships"]:
        number = int(each["id"][-12:], 16)
        start, kind, end, created = SMALL_GRAPH[number]
        written = (each["fromEntityId"], each["relationType"], each["toEntityId"], each["createdAt"])
        assert written == (start, kind, end, created)
        listed.append((number, each["relatedEntity"] and each["relatedEntity"]["id"]))
    return listed


DIRECT: Listed = [(3, OWNER), (13, None), (2, APPLE), (1, APPLE), (4, APPLE_2), (15, None), (14, None)]
BOTH_HOPS: Listed = [
    (3, OWNER),  # the 9th
    (5, CHERRY),  # the 8th
    (10, SHARER),  # the 7th
    (16, None),  # the 6th
    (13, None),
    (9, NEWS),  # the 5th
    (6, APPLE),
    (2, APPLE),
    (1, APPLE),
    (4, APPLE_2),  # the 4th
    (7, APPLE_2),  # the 3rd
    (8, FAR),  # the 2nd
    (15, None),  # the 1st
    (14, None),
]


@pytest.mark.rule("bridge.graph.fields")
def test_the_graph_as_it_is_written(bridge: Wire) -> None:
    times = {"createdAt": at(1), "updatedAt": at(1)}
    owner = {"id": OWNER, "entityType": "project", "title": "banana", "slug": "owner", "status": "published"}
    apple = {"id": APPLE, "entityType": "concept", "title": "apple", "slug": "apple", "status": "draft"}
    apple_2 = {"id": APPLE_2, "entityType": "concept", "title": "Apple", "slug": "apple-2", "status": "published"}
    related = {3: owner, 2: apple, 1: apple, 4: apple_2}
    expected = {
        "data": {
            "rootEntity": {
                "id": ROOT,
                "projectId": GAMMA,
                "entityType": "guide",
                "title": "Root",
                "slug": "root",
                "summary": "Where it starts",
                "difficulty": "beginner",
                "conceptKind": None,
                "repoUrl": None,
                "status": "published",
                "canonicalUrl": None,
                "lastVerifiedAt": None,
                **times,
            },
            "relationships": [
                {
                    "id": relation_id(number),
                    "relationType": SMALL_GRAPH[number][1],
                    "fromEntityId": SMALL_GRAPH[number][0],
                    "toEntityId": SMALL_GRAPH[number][2],
                    "notes": "“seen” first" if number == 1 else None,
                    "createdAt": SMALL_GRAPH[number][3],
                    "relatedEntity": related.get(number),
                }
                for number, _ in DIRECT
            ],
            "depth": 1,
        }
    }
    assert text(bridge, "get_entity_graph", projectId=GAMMA, entityId=ROOT) == compact(expected)


@pytest.mark.rule("bridge.graph.depth_one", "bridge.graph.order", "bridge.graph.related", "bridge.graph.no_entity")
def test_depth_1_has_the_relations_of_the_root_alone(bridge: Wire) -> None:
    assert graph(bridge, ROOT) == graph(bridge, ROOT, depth=1) == graph(bridge, ROOT, depth=1.0) == DIRECT
    ends = {13: (ROOT, SOURCE), 14: (VIDEO, ROOT), 15: (EVENT, ROOT)}
    assert {number: (SMALL_GRAPH[number][0], SMALL_GRAPH[number][2]) for number in ends} == ends


@pytest.mark.rule("bridge.graph.depth_two", "bridge.graph.order", "bridge.graph.once", "bridge.graph.related")
@pytest.mark.rule("bridge.graph.self", "bridge.graph.no_entity", "bridge.graph.related_first")
def test_depth_2_adds_the_relations_of_the_neighbours(bridge: Wire) -> None:
    """Not beyond: 11 and 12 are CHERRY's; 17 is STRANGER's, who shares a source with ROOT and APPLE."""
    assert graph(bridge, ROOT, depth=2) == BOTH_HOPS


@pytest.mark.rule("bridge.graph.self")
@pytest.mark.parametrize("depth", [1, 2])
def test_a_self_relation_is_listed_once_with_the_entity_itself(bridge: Wire, depth: int) -> None:
    listed = graph(bridge, APPLE, depth=depth)
    assert [each for each in listed if each[0] == 6] == [(6, APPLE)]


@pytest.mark.rule("bridge.graph.related", "bridge.graph.depth_one")
def test_from_the_other_side_the_related_entity_is_the_other_one(bridge: Wire) -> None:
    expected: Listed = [
        (5, CHERRY),
        (10, SHARER),
        (16, None),
        (9, NEWS),
        (6, APPLE),
        (2, ROOT),
        (1, ROOT),
        (7, APPLE_2),
    ]
    assert graph(bridge, APPLE) == expected
    assert graph(bridge, OWNER) == [(3, ROOT)]
    assert graph(bridge, BEYOND) == [(12, CHERRY)]


@pytest.mark.rule("bridge.graph.no_entity")
def test_nothing_is_reached_through_what_is_no_entity(bridge: Wire) -> None:
    assert graph(bridge, STRANGER, depth=2) == [(17, None)]


@pytest.mark.rule("bridge.graph.depth_two")
def test_an_entity_without_relations(bridge: Wire) -> None:
    for depth in (1, 2):
        data = ok(bridge, "get_entity_graph", projectId=ALPHA, entityId=FULL, depth=depth)["data"]
        assert (data["relationships"], data["depth"]) == ([], depth)


@pytest.mark.rule("bridge.graph.types")
def test_types_hold_on_every_hop(bridge: Wire) -> None:
    assert graph(bridge, ROOT, depth=2, relationshipTypes=USES) == [(10, SHARER), (1, APPLE), (4, APPLE_2)]
    assert graph(bridge, ROOT, depth=2, relationshipTypes=RELATES) == []
    assert graph(bridge, ROOT, depth=2, relationshipTypes=f"{RELATES},{EXPLAINS}") == [
        (5, CHERRY),
        (6, APPLE),
        (2, APPLE),
        (7, APPLE_2),
    ]
    assert graph(bridge, ROOT, depth=2, relationshipTypes="") == BOTH_HOPS


@pytest.mark.rule("bridge.graph.types_format")
def test_blanks_around_commas_are_allowed_and_empty_items_are_not(bridge: Wire) -> None:
    expected = graph(bridge, ROOT, relationshipTypes=f"{USES},{EXPLAINS}")
    assert expected == [(2, APPLE), (1, APPLE), (4, APPLE_2)]
    for spelled in (
        f"{EXPLAINS},{USES}",
        f"{USES} , {EXPLAINS}",
        f" {USES},  {EXPLAINS} ",
        f"{USES},{USES},{EXPLAINS}",
    ):
        assert graph(bridge, ROOT, relationshipTypes=spelled) == expected
    for bad in (",", f"{USES},", f",{USES}", f"{USES},,{EXPLAINS}", f"{USES}, ,{EXPLAINS}"):
        found = error(bridge, "get_entity_graph", projectId=GAMMA, entityId=ROOT, relationshipTypes=bad)
        assert found["code"] == "BAD_REQUEST"
        assert "relationshipTypes" in found["message"]


@pytest.mark.rule("bridge.graph.types_invalid", "bridge.enum.relationship_types", "bridge.enum.values")
@pytest.mark.parametrize("bad", ["RELATES", USES.lower(), f"{USES};{EXPLAINS}", f"{USES} {EXPLAINS}", f"{USES},NO"])
def test_an_unknown_type_is_answered_with_the_valid_ones(bridge: Wire, bad: str) -> None:
    found = error(bridge, "get_entity_graph", projectId=GAMMA, entityId=ROOT, relationshipTypes=bad)
    assert found["code"] == "BAD_REQUEST"
    assert ", ".join(RELATION_TYPES) in found["message"]
    assert len(RELATION_TYPES) == 19


@pytest.mark.rule("bridge.graph.depth_invalid", "common.values.never_coerced")
@pytest.mark.parametrize("bad", [0, 3, -1, "1", 1.5, True, None])
def test_other_depths_are_bad_requests(bridge: Wire, bad: Any) -> None:
    found = error(bridge, "get_entity_graph", projectId=GAMMA, entityId=ROOT, depth=bad)
    assert found["code"] == "BAD_REQUEST"
    assert "depth" in found["message"]


@pytest.mark.rule("bridge.graph.isolation", "bridge.graph.once")
def test_every_entity_of_the_small_graph_sees_that_graph_alone(bridge: Wire) -> None:
    for entity in (ROOT, OWNER, APPLE, APPLE_2, CHERRY, FAR, BEYOND, NEWS, SHARER, STRANGER):
        listed = graph(bridge, entity, depth=2)
        numbers = [number for number, _ in listed]
        assert len(set(numbers)) == len(numbers) > 0
        order = [(SMALL_GRAPH[number][3], relation_id(number)) for number in numbers]
        assert order == sorted(order, reverse=True)


# --- the limit


def ids(wire: Wire, entity: str, *, cut: bool, **more: Any) -> list[str]:
    data = ok(wire, "get_entity_graph", projectId=HUB, entityId=entity, **more)["data"]
    assert list(data) == ["rootEntity", "relationships", "depth", *(["truncated"] if cut else [])]
    assert data.get("truncated", True) is True
    return [each["id"] for each in data["relationships"]]


@pytest.mark.rule("bridge.graph.limit", "bridge.graph.order")
def test_of_1003_relations_the_first_1000_are_listed(bridge: Wire) -> None:
    newest = sorted((video_relation(n) for n in range(VIDEOS)), key=lambda each: (each[1], each[0]), reverse=True)
    expected = [number for number, _ in newest][:1000]
    assert ids(bridge, BUSY, cut=True) == expected
    assert ids(bridge, BESIDE, cut=False) == [uid(0xDB, 1)]
    assert ids(bridge, BESIDE, cut=True, depth=2) == expected, "the whole list is sorted before it is cut"
    assert ids(bridge, BUSY, cut=False, relationshipTypes=USES) == [uid(0xDB, 1)]


@pytest.mark.rule("bridge.graph.limit")
def test_exactly_1000_relations_are_not_truncated(bridge: Wire) -> None:
    assert ids(bridge, FULL_HOUSE, cut=False, depth=2) == [uid(0xD9, n) for n in reversed(range(1000))]


@pytest.mark.rule("bridge.graph.depth_two", "bridge.graph.limit")
@pytest.mark.anyio
@pytest.mark.parametrize("engine", ENGINES)
async def test_the_way_taken_around_a_hub_leads_to_the_same(
    content: ContentServers, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many neighbours the relations are found in another way than with few: each way is taken for all roots."""
    database = await open_database(locate(content.urls[engine], content.folder), pool_size=2)
    inner = [(GAMMA, entity) for entity in (ROOT, OWNER, APPLE, APPLE_2, CHERRY, FAR, BEYOND, NEWS, SHARER, STRANGER)]
    roots = [*inner, (HUB, BESIDE), (HUB, WIDE), (ALPHA, FULL)]
    filters: list[list[str]] = [[], [USES], [RELATES, EXPLAINS]]

    async def walk(session: Session) -> list[Any]:
        found: list[Any] = []
        for project_id, entity_id in roots:
            project = await ProjectRepository(session).with_id(project_id)
            assert project is not None
            root = await EntityRepository(session, project).get(entity_id)
            assert root is not None
            found += [await RelationshipRepository(session, project, types).around(root, 2) for types in filters]
        return found

    found: list[list[Any]] = []
    for cost in (0, 10**9):
        monkeypatch.setattr("carrel.content.relationships.NEIGHBOR_COST_ROWS", cost)
        found.append(await database.read(walk))
    assert found[0] == found[1]
    assert max(len(each.rows) for each in found[0]) == 1000
    await database.close()
