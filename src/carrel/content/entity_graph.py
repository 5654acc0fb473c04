"""Graphs of entities: the neighborhood of one, breadth first, and a whole project.

A relation carries the title keys of its ends (folded title, U+0001, id), and the foreign key's `ON UPDATE CASCADE`
keeps them true. So a hub's neighbors come out of an index in the order in which a result lists them, and a walk reads
no more of them than fit.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from carrel.content.entities import Entity
from carrel.content.field_types import MAX_PARALLEL_RELATIONS
from carrel.content.projects import Project
from carrel.storage.database import Row, Session

MAX_NODES = 100
MAX_EDGES = 200


class Node(NamedTuple):
    pk: int
    id: str
    entity_type: str
    title: str
    slug: str
    summary: str | None
    status: str
    depth: int


class Edge(NamedTuple):
    from_id: str
    to_id: str
    relation_type: str
    notes: str | None


@dataclass(frozen=True, slots=True)
class Neighborhood:
    nodes: list[Node]
    edges: list[Edge]
    is_truncated: bool


class NeighborhoodRepository:
    """Breadth-first walks through one project, along relations whose both ends are entities."""

    def __init__(self, session: Session, project: Project, types: Sequence[str] = ()) -> None:
        self._session = session
        self._types = " AND " + session.syntax.among("relation_type", "types") if types else ""
        self._parameters: dict[str, object] = {"project": project.pk}
        if types:
            self._parameters["types"] = session.syntax.values(types)

    async def around(self, root: Entity, depth: int) -> Neighborhood:
        depths, frontier, is_truncated = {root.pk: 0}, [root.pk], False
        for distance in range(1, depth + 1):
            if not frontier:
                break
            capacity = MAX_NODES - len(depths)
            # One more than fits tells whether any is left out; those already seen may come up again.
            found = await self._neighbors(frontier, capacity + 1 + len(depths))
            new = [pk for pk in found if pk not in depths]
            is_truncated = is_truncated or len(new) > capacity
            frontier = new[:capacity]
            depths.update(dict.fromkeys(frontier, distance))
        nodes = await self._nodes(depths)
        edges = await self._edges({node.pk: node.id for node in nodes}, [p for p, d in depths.items() if d < depth])
        is_truncated = is_truncated or len(edges) > MAX_EDGES
        return Neighborhood(nodes, edges[:MAX_EDGES], is_truncated)

    async def _neighbors(self, frontier: Sequence[int], limit: int) -> list[int]:
        """Return the neighbors of the whole frontier, in the order of their titles."""
        columns = ("title_key", "pk")
        out = self._session.syntax.for_each(
            "frontier", "bigint", columns, self._one_way("relation_neighbours_out", "from_pk", "to")
        )
        back = self._session.syntax.for_each(
            "frontier", "bigint", columns, self._one_way("relation_neighbours_in", "to_pk", "from")
        )
        rows = await self._session.all(
            f"SELECT title_key, pk FROM ({out} UNION {back}) AS neighbor ORDER BY title_key LIMIT :most",
            {
                **self._parameters,
                "frontier": self._session.syntax.values(frontier),
                "most": limit,
                "most_relations": limit * MAX_PARALLEL_RELATIONS,
            },
        )
        return [pk for _, pk in rows]

    def _one_way(self, index: str, near: str, far: str) -> str:
        return f"""
            SELECT {far}_title_key AS title_key, {far}_pk AS pk
            FROM relation {self._session.syntax.using(index)}
            WHERE project_pk = :project AND {near} = frontier.value AND {far}_pk IS NOT NULL{self._types}
            ORDER BY {far}_title_key LIMIT :most_relations
        """

    async def _nodes(self, depths: Mapping[int, int]) -> list[Node]:
        """Return the nodes in order of depth, then title key."""
        rows = await self._session.all(
            f"""
            SELECT pk, id, entity_type, title, slug, summary, status, title_key
            FROM {self._session.syntax.table("pks", "bigint")} CROSS JOIN entity
            WHERE pk = pks.value AND project_pk = :project
            """,
            {"project": self._parameters["project"], "pks": self._session.syntax.values(list(depths))},
        )
        rows.sort(key=lambda row: (depths[row[0]], row[7]))
        return [Node(*row[:-1], depth=depths[row[0]]) for row in rows]

    async def _edges(self, ids: Mapping[int, str], inner: Sequence[int]) -> list[Edge]:
        """Return the relations between these nodes with an inner node at one end, in order of ends and type."""

        syntax = self._session.syntax
        columns = ("from_pk", "to_pk", "relation_type", "notes")

        def joined(starts: str, ends: str) -> str:
            # A limit that is never reached: without one PostgreSQL might join all relations of a hub instead.
            inner = f"""
                SELECT {", ".join(columns)} FROM relation {syntax.using("relation_pair")}
                WHERE project_pk = :project AND from_pk = {starts}.value AND {syntax.among("to_pk", ends)}{self._types}
                LIMIT {MAX_NODES * MAX_PARALLEL_RELATIONS}
            """
            return syntax.for_each(starts, "bigint", columns, inner)

        values = syntax.values
        rows = await self._session.all(
            f"{joined('inner_pks', 'pks')} UNION ALL {joined('outer_pks', 'inner_pks')}",
            {
                **self._parameters,
                "pks": values(list(ids)),
                "inner_pks": values(inner),
                "outer_pks": values([pk for pk in ids if pk not in set(inner)]),
            },
        )
        return sorted(Edge(ids[row[0]], ids[row[1]], row[2], row[3]) for row in rows)


MAX_RELATIONS = 100_000

_ENTITY_COUNT = "SELECT sum(total) FROM entity_tally WHERE project_pk = :project"
_NEWEST_RELATIONS = """
    SELECT from_pk, to_pk FROM relation {}
    WHERE project_pk = :project AND from_pk IS NOT NULL AND to_pk IS NOT NULL
    ORDER BY created_at DESC, id DESC LIMIT :most_relations
"""
_NODE_COLUMNS = "pk, id, title, entity_type"


class LinkedEntity(NamedTuple):
    id: str
    title: str
    entity_type: str
    is_linked: bool


class LinkedEntities(NamedTuple):
    nodes: list[LinkedEntity]
    links: list[int]
    """Indexes into `nodes`, two for each link: start, end, start, end. Each pair occurs once."""
    total: int
    is_truncated: bool


async def linked_entities(session: Session, project: Project, limit: int) -> LinkedEntities:
    """Return a project's entities and links: of more than `limit` entities, those with the most relations.

    Relations beyond the newest `MAX_RELATIONS` are left out.
    """
    parameters: dict[str, object] = {"project": project.pk, "most": limit, "most_relations": MAX_RELATIONS + 1}
    ((total,),) = await session.all(_ENTITY_COUNT, parameters)
    total = int(total or 0)
    relations = await session.all(_NEWEST_RELATIONS.format(session.syntax.using("relation_by_creation")), parameters)
    # Counting hundreds of thousands of numbers would block the event loop for other callers.
    pairs, degrees = await asyncio.to_thread(_pairs_and_degrees, relations[:MAX_RELATIONS])
    rows = await _entities(session, parameters, degrees, limit if total > limit else 0)
    nodes, links = await asyncio.to_thread(_nodes_and_links, rows, pairs, degrees)
    return LinkedEntities(nodes, links, total, len(relations) > MAX_RELATIONS or total > len(nodes))


def _pairs_and_degrees(relations: list[Row]) -> tuple[dict[Row, None], Counter[int]]:
    """Return the distinct pairs, and the number of pairs of each entity."""
    pairs = dict.fromkeys(relations)
    return pairs, Counter(chain.from_iterable(pairs))


def _nodes_and_links(
    rows: list[Row], pairs: dict[Row, None], degrees: Counter[int]
) -> tuple[list[LinkedEntity], list[int]]:
    places = {row[0]: place for place, row in enumerate(rows)}
    links = [places[pk] for pair in pairs if pair[0] in places and pair[1] in places for pk in pair]
    return [LinkedEntity(*row[1:], is_linked=row[0] in degrees) for row in rows], links


async def _entities(session: Session, parameters: dict[str, object], degrees: Counter[int], limit: int) -> list[Row]:
    """Return all entities, or with a limit the best-linked ones first."""
    if not limit:
        return await session.all(
            f"SELECT {_NODE_COLUMNS} FROM entity WHERE project_pk = :project ORDER BY pk", parameters
        )
    best = await asyncio.to_thread(lambda: sorted(degrees, key=lambda pk: (-degrees[pk], pk))[:limit])
    among = session.syntax.among("pk", "best")
    rows = await session.all(
        f"SELECT {_NODE_COLUMNS} FROM entity WHERE project_pk = :project AND {among}",
        {**parameters, "best": session.syntax.values(best)},
    )
    rank = {pk: place for place, pk in enumerate(best)}
    rows.sort(key=lambda row: rank[row[0]])
    if len(best) < limit:  # then `best` are all that have a relation
        others = (
            f"SELECT {_NODE_COLUMNS} FROM entity WHERE project_pk = :project AND NOT ({among}) ORDER BY pk LIMIT :rest"
        )
        rows += await session.all(
            others, {**parameters, "best": session.syntax.values(best), "rest": limit - len(best)}
        )
    return rows
