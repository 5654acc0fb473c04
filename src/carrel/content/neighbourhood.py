"""The entities around one, breadth first, as far as they can be shown.

Relations carry the title keys of their ends in an index, so neighbours come in the order in which they are shown, and
at a hub no more of them are read than fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from carrel.content.entities import Entity
from carrel.content.projects import Project
from carrel.content.vocabulary import MOST_PARALLEL
from carrel.storage.database import Session

MOST_NODES = 100
MOST_EDGES = 200


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
class Neighbourhood:
    nodes: list[Node]
    edges: list[Edge]
    is_truncated: bool


class NeighbourhoodRepository:
    """The walks through one project; relations with an end that is no entity are not seen here at all."""

    def __init__(self, session: Session, project: Project, types: Sequence[str] = ()) -> None:
        self._session = session
        self._types = " AND " + session.syntax.among("relation_type", "types") if types else ""
        self._parameters: dict[str, object] = {"project": project.pk}
        if types:
            self._parameters["types"] = session.syntax.values(types)

    async def around(self, root: Entity, depth: int) -> Neighbourhood:
        depths, frontier, is_truncated = {root.pk: 0}, [root.pk], False
        for distance in range(1, depth + 1):
            if not frontier:
                break
            room = MOST_NODES - len(depths)
            # One more than fits tells whether any is left out; those already seen may come up again.
            found = await self._neighbours(frontier, room + 1 + len(depths))
            new = [pk for pk in found if pk not in depths]
            is_truncated = is_truncated or len(new) > room
            frontier = new[:room]
            depths.update(dict.fromkeys(frontier, distance))
        nodes = await self._nodes(depths)
        edges = await self._edges({node.pk: node.id for node in nodes}, [p for p, d in depths.items() if d < depth])
        is_truncated = is_truncated or len(edges) > MOST_EDGES
        return Neighbourhood(nodes, edges[:MOST_EDGES], is_truncated)

    async def _neighbours(self, frontier: Sequence[int], most: int) -> list[int]:
        """The neighbours of all in the frontier, in the order of their titles."""
        columns = ("title_key", "pk")
        out = self._session.syntax.for_each(
            "frontier", "bigint", columns, self._one_way("relation_neighbours_out", "from_pk", "to")
        )
        back = self._session.syntax.for_each(
            "frontier", "bigint", columns, self._one_way("relation_neighbours_in", "to_pk", "from")
        )
        rows = await self._session.all(
            f"SELECT title_key, pk FROM ({out} UNION {back}) AS neighbour ORDER BY title_key LIMIT :most",
            {
                **self._parameters,
                "frontier": self._session.syntax.values(frontier),
                "most": most,
                "most_relations": most * MOST_PARALLEL,
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
        """In order of depth, then of the title key."""
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
        """The relations between these nodes with an end among the inner ones; by their ends and type."""

        syntax = self._session.syntax
        columns = ("from_pk", "to_pk", "relation_type", "notes")

        def joined(starts: str, ends: str) -> str:
            # A limit that is never reached: without one PostgreSQL might join all relations of a hub instead.
            inner = f"""
                SELECT {", ".join(columns)} FROM relation {syntax.using("relation_pair")}
                WHERE project_pk = :project AND from_pk = {starts}.value AND {syntax.among("to_pk", ends)}{self._types}
                LIMIT {MOST_NODES * MOST_PARALLEL}
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
