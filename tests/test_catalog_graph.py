"""The catalog's get_entity_graph, over every engine, transport and protocol revision."""

from typing import Any

import pytest

from tests.content_seed import (
    ALPHA,
    APPLE,
    APPLE_2,
    BEYOND,
    CHERRY,
    CLIQUE,
    DEEP,
    DENSE,
    EXACT,
    EXPLAINS,
    FAR,
    FITTING,
    FULL,
    GAMMA,
    GUIDE_SOURCE,
    HAS_GUIDE,
    HUB,
    NEWS,
    NEWS_ON,
    OWNER,
    RELATES,
    ROOT,
    SHARER,
    STRANGER,
    USES,
    WIDE,
    hub_pairs,
    uid,
    wide,
)
from tests.content_servers import compact, error, ok, text
from tests.wire import Wire

pytest_plugins = ["tests.content_fixtures"]

Edge = tuple[str, str, str]


def graph(wire: Wire, entity: str, *, project: str = GAMMA, **more: Any) -> tuple[list[tuple[str, int]], list[Edge]]:
    """Nodes as (id, depth), edges as (from, type, to), in their order; nothing was left out."""
    found = ok(wire, "get_entity_graph", projectId=project, entityId=entity, **more)
    assert list(found) == ["nodes", "edges"]
    return nodes_of(found), edges_of(found)


def truncated(wire: Wire, entity: str, **more: Any) -> tuple[list[tuple[str, int]], list[Edge]]:
    found = ok(wire, "get_entity_graph", projectId=HUB, entityId=entity, **more)
    assert list(found) == ["nodes", "edges", "truncated"]
    assert found["truncated"] is True
    return nodes_of(found), edges_of(found)


def nodes_of(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(node["id"], node["depth"]) for node in found["nodes"]]


def edges_of(found: dict[str, Any]) -> list[Edge]:
    return [(edge["fromEntityId"], edge["relationType"], edge["toEntityId"]) for edge in found["edges"]]


DIRECT: list[Edge] = [
    (ROOT, EXPLAINS, APPLE),
    (ROOT, USES, APPLE),
    (ROOT, USES, APPLE_2),
    (OWNER, HAS_GUIDE, ROOT),
]
"""The root's edges: ids are given in this order in the seed."""


@pytest.mark.rule("catalog.graph.fields", "catalog.graph.depth_default", "catalog.graph.parallel")
def test_the_graph_at_depth_1_as_it_is_written(catalog: Wire) -> None:
    root = {"title": "Root", "slug": "root", "summary": "Where it starts", "status": "published", "depth": 0}
    apple = {"title": "apple", "slug": "apple", "summary": None, "status": "draft", "depth": 1}
    apple_2 = {"title": "Apple", "slug": "apple-2", "summary": None, "status": "published", "depth": 1}
    owner = {"title": "banana", "slug": "owner", "summary": None, "status": "published", "depth": 1}
    expected = {
        "nodes": [
            {"id": ROOT, "entityType": "guide", **root},
            {"id": APPLE, "entityType": "concept", **apple},
            {"id": APPLE_2, "entityType": "concept", **apple_2},
            {"id": OWNER, "entityType": "project", **owner},
        ],
        "edges": [
            {
                "fromEntityId": start,
                "toEntityId": end,
                "relationType": kind,
                "notes": "“seen” first" if (start, kind, end) == (ROOT, USES, APPLE) else None,
            }
            for start, kind, end in DIRECT
        ],
    }
    assert text(catalog, "get_entity_graph", projectId=GAMMA, entityId=ROOT) == compact(expected)
    assert text(catalog, "get_entity_graph", projectId=GAMMA, entityId=ROOT, depth=1) == compact(expected)
    assert text(catalog, "get_entity_graph", projectId=GAMMA, entityId=ROOT, depth=1.0) == compact(expected)


@pytest.mark.rule(
    "catalog.graph.breadth",
    "catalog.graph.walked",
    "catalog.graph.node_order",
    "catalog.graph.edge_order",
    "catalog.graph.self",
    "catalog.graph.entities_only",
)
def test_the_graph_at_depth_2(catalog: Wire) -> None:
    """Left out: BEYOND, three hops away; CHERRY to FAR, both of the last depth; STRANGER, beyond a source."""
    nodes, edges = graph(catalog, ROOT, depth=2)
    near = [(ROOT, 0), (APPLE, 1), (APPLE_2, 1), (OWNER, 1)]
    assert nodes == [*near, (CHERRY, 2), (SHARER, 2), (FAR, 2), (NEWS, 2)]
    assert edges == [
        *DIRECT,
        (APPLE, RELATES, APPLE),
        (APPLE, RELATES, CHERRY),
        (APPLE_2, RELATES, APPLE),
        (APPLE_2, RELATES, FAR),
        (NEWS, NEWS_ON, APPLE),
        (SHARER, USES, APPLE),
    ]


@pytest.mark.rule("catalog.graph.walked")
def test_at_depth_1_relations_among_the_neighbours_are_not_walked(catalog: Wire) -> None:
    assert graph(catalog, ROOT)[1] == DIRECT


@pytest.mark.rule("catalog.graph.self")
def test_a_self_relation_of_the_root_is_one_edge(catalog: Wire) -> None:
    nodes, edges = graph(catalog, APPLE)
    assert [number for number, _ in nodes] == [APPLE, APPLE_2, CHERRY, SHARER, ROOT, NEWS]
    assert [depth for _, depth in nodes] == [0, 1, 1, 1, 1, 1]
    assert edges.count((APPLE, RELATES, APPLE)) == 1
    assert len(edges) == 7


@pytest.mark.rule("catalog.graph.entities_only")
@pytest.mark.parametrize("depth", [1, 2])
def test_an_entity_with_a_source_only_is_alone(catalog: Wire, depth: int) -> None:
    assert graph(catalog, STRANGER, depth=depth) == ([(STRANGER, 0)], [])
    types = [GUIDE_SOURCE, "VIDEO_EXPLAINS_GUIDE", "DISTRIBUTION_PROMOTES_GUIDE"]
    assert graph(catalog, ROOT, depth=depth, relationshipTypes=types) == ([(ROOT, 0)], [])


@pytest.mark.rule("catalog.graph.alone")
@pytest.mark.parametrize("depth", [1, 2])
def test_an_entity_without_relations(catalog: Wire, depth: int) -> None:
    assert graph(catalog, FULL, project=ALPHA, depth=depth) == ([(FULL, 0)], [])


@pytest.mark.rule("catalog.graph.types")
def test_types_hold_on_every_hop(catalog: Wire) -> None:
    nodes, edges = graph(catalog, ROOT, depth=2, relationshipTypes=[USES])
    assert nodes == [(ROOT, 0), (APPLE, 1), (APPLE_2, 1), (SHARER, 2)]
    assert edges == [(ROOT, USES, APPLE), (ROOT, USES, APPLE_2), (SHARER, USES, APPLE)]
    nodes, edges = graph(catalog, ROOT, depth=2, relationshipTypes=[RELATES])
    assert (nodes, edges) == ([(ROOT, 0)], [])
    nodes, edges = graph(catalog, ROOT, depth=2, relationshipTypes=[RELATES, EXPLAINS])
    assert nodes == [(ROOT, 0), (APPLE, 1), (APPLE_2, 2), (CHERRY, 2)]
    assert edges == [
        (ROOT, EXPLAINS, APPLE),
        (APPLE, RELATES, APPLE),
        (APPLE, RELATES, CHERRY),
        (APPLE_2, RELATES, APPLE),
    ]
    assert graph(catalog, ROOT, depth=2, relationshipTypes=[]) == graph(catalog, ROOT, depth=2)


@pytest.mark.rule("catalog.graph.types_invalid")
@pytest.mark.parametrize("bad", [[USES, USES], ["guide_uses_concept"], ["RELATES"], USES, [5], None])
def test_unknown_and_repeated_types_are_invalid(catalog: Wire, bad: Any) -> None:
    found = error(catalog, "get_entity_graph", projectId=GAMMA, entityId=ROOT, relationshipTypes=bad)
    assert (found["code"], found["details"]["field"]) == ("VALIDATION_ERROR", "relationshipTypes")


@pytest.mark.rule("catalog.graph.depth", "common.values.never_coerced")
@pytest.mark.parametrize("bad", [0, 3, -1, "1", 1.5, True, None])
def test_other_depths_are_invalid(catalog: Wire, bad: Any) -> None:
    found = error(catalog, "get_entity_graph", projectId=GAMMA, entityId=ROOT, depth=bad)
    assert (found["code"], found["details"]["field"]) == ("VALIDATION_ERROR", "depth")


@pytest.mark.rule("catalog.graph.breadth", "catalog.graph.isolation")
def test_every_entity_of_the_small_graph_sees_that_graph_alone(catalog: Wire) -> None:
    for entity in (ROOT, OWNER, APPLE, APPLE_2, CHERRY, FAR, BEYOND, NEWS, SHARER):
        nodes, edges = graph(catalog, entity, depth=2)
        assert nodes[0] == (entity, 0)
        assert [depth for _, depth in nodes[1:]].count(0) == 0
        ids = [number for number, _ in nodes]
        assert len(set(ids)) == len(ids)
        assert {end for start, _, last in edges for end in (start, last)} == set(ids)


# --- limits


def ordered(pairs: list[tuple[str, str]]) -> list[Edge]:
    return [(start, RELATES, end) for start, end in sorted(pairs)]


@pytest.mark.rule("catalog.graph.node_limit", "catalog.graph.truncated", "catalog.graph.node_limit_edges")
def test_of_150_neighbours_the_first_99_by_title_are_kept(catalog: Wire) -> None:
    kept = [wide(place) for place in range(1, 100)]
    nodes, edges = truncated(catalog, WIDE)
    assert nodes == [(WIDE, 0), *((number, 1) for number in kept)]
    assert edges == ordered([(WIDE, number) for number in kept])
    nodes, edges = truncated(catalog, WIDE, depth=2)
    assert nodes == [(WIDE, 0), *((number, 1) for number in kept)]
    assert edges == ordered([*((WIDE, number) for number in kept), (wide(1), wide(2))])


@pytest.mark.rule("catalog.graph.node_limit", "catalog.graph.truncated", "catalog.graph.node_limit_edges")
def test_nodes_further_away_are_dropped_first(catalog: Wire) -> None:
    near = [uid(0xD3, n) for n in range(1, 61)]
    far = [uid(0xD3, 100 + n) for n in range(1, 40)]
    nodes, edges = truncated(catalog, DEEP, depth=2)
    assert nodes == [(DEEP, 0), *((number, 1) for number in near), *((number, 2) for number in far)]
    assert edges == ordered([*((DEEP, number) for number in near), *zip(near, far, strict=False)])


@pytest.mark.rule("catalog.graph.node_limit", "catalog.graph.truncated")
def test_a_far_node_seen_as_the_root_is_never_dropped(catalog: Wire) -> None:
    """Its title comes last of all that is at its own distance, and far behind everything around the hub."""
    last = wide(150)
    nodes, edges = truncated(catalog, last, depth=2)
    assert nodes[:2] == [(last, 0), (WIDE, 1)]
    assert [number for number, _ in nodes[2:]] == [wide(place) for place in range(1, 99)]
    assert edges == ordered([(WIDE, number) for number, _ in nodes if number != WIDE])


@pytest.mark.rule("catalog.graph.truncated")
def test_exactly_100_nodes_are_not_truncated(catalog: Wire) -> None:
    nodes, edges = graph(catalog, EXACT, project=HUB)
    assert (len(nodes), len(edges)) == (100, 99)
    assert graph(catalog, EXACT, project=HUB, depth=2) == (nodes, edges)


@pytest.mark.rule("catalog.graph.edge_limit", "catalog.graph.truncated")
def test_200_edges_fit_and_of_more_the_first_200_are_kept(catalog: Wire) -> None:
    nodes, edges = graph(catalog, FITTING, project=HUB, depth=2)
    assert edges == ordered([pair for pair in hub_pairs() if pair[0][:8] == FITTING[:8]])
    assert (len(nodes), len(edges)) == (CLIQUE + 1, 200)
    nodes, edges = truncated(catalog, DENSE, depth=2)
    assert edges == ordered([pair for pair in hub_pairs() if pair[0][:8] == DENSE[:8]])[:200]
    assert len(nodes) == CLIQUE + 1
