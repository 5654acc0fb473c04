"""The relations within two steps of an entity, newest first.

They are found in one of two ways. Where the entity has few neighbors, each is asked for its newest relations. Where it
has many (a hub), the newest relations of the project are scanned instead: a good part of them touch its neighbors, so
the scan ends early. `NEIGHBOR_COST_ROWS` is the measured break-even point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

from carrel.content.entities import Entity
from carrel.content.field_types import MAX_PARALLEL_RELATIONS
from carrel.content.projects import Project
from carrel.storage.database import Row, Session

MAX_RELATIONSHIPS = 1000
NEIGHBOR_COST_ROWS = 50
"""The cost of asking one neighbor for its newest relations, in rows of a scan of the project's newest relations."""

_NEWEST_FIRST = "ORDER BY created_at DESC, id DESC"
_BETWEEN_ENTITIES = "project_pk = :project AND from_pk IS NOT NULL AND to_pk IS NOT NULL"
_COUNT_ENTITIES = "SELECT sum(total) FROM entity_tally WHERE project_pk = :project"
_KEY = ("pk", "created_at", "id")
_ENDS = """
    SELECT relation.id, relation.relation_type, relation.notes, relation.created_at,
           start.pk, start.id, start.entity_type, start.title, start.slug, start.status, from_item.id,
           finish.pk, finish.id, finish.entity_type, finish.title, finish.slug, finish.status, to_item.id
    FROM {keys} CROSS JOIN relation
    LEFT JOIN entity AS start ON start.pk = relation.from_pk
    LEFT JOIN entity AS finish ON finish.pk = relation.to_pk
    LEFT JOIN item AS from_item ON from_item.pk = relation.from_item
    LEFT JOIN item AS to_item ON to_item.pk = relation.to_item
"""


class RelatedEntity(NamedTuple):
    id: str
    entity_type: str
    title: str
    slug: str
    status: str


class Relationship(NamedTuple):
    id: str
    relation_type: str
    from_id: str
    to_id: str
    notes: str | None
    created_at: int
    related: RelatedEntity | None
    """The end that the walk arrived at; None if that end is not an entity."""


@dataclass(frozen=True, slots=True)
class Relationships:
    rows: list[Relationship]
    is_truncated: bool


class RelationshipRepository:
    """The relations of one project."""

    def __init__(self, session: Session, project: Project, types: Sequence[str] = ()) -> None:
        self._session = session
        self._types = " AND " + session.syntax.among("relation_type", "types") if types else ""
        self._parameters: dict[str, object] = {"project": project.pk, "most": MAX_RELATIONSHIPS + 1}
        if types:
            self._parameters["types"] = session.syntax.values(types)

    async def around(self, root: Entity, depth: int) -> Relationships:
        if depth == 1:
            keys, near = await self._newest_touching([root.pk]), set[int]()
        else:
            keys, near = await self._within_two_steps(root)
        rows = await self._ends(keys[:MAX_RELATIONSHIPS])
        return Relationships([_relationship(row, root, near) for row in rows], len(keys) > MAX_RELATIONSHIPS)

    async def _within_two_steps(self, root: Entity) -> tuple[list[int], set[int]]:
        """Return the newest relations, and the root's neighbors that are an end of one of them."""
        entities = await self._session.first(_COUNT_ENTITIES, self._parameters)
        threshold = isqrt(NEIGHBOR_COST_ROWS * int(entities[0] or 0)) if entities else 0
        neighbors = await self._neighbors(root, threshold + 1)
        if len(neighbors) > threshold:
            return await self._newest_near_hub(root)
        return await self._newest_touching([root.pk, *neighbors]), set(neighbors)

    async def _neighbors(self, root: Entity, limit: int) -> list[int]:
        def one_way(index: str, near: str, far: str) -> str:
            return f"""
                SELECT {far} AS pk FROM relation {self._session.syntax.using(index)}
                WHERE project_pk = :project AND {near} = :root AND {far} IS NOT NULL{self._types} LIMIT :most_relations
            """

        out = one_way("relation_neighbours_out", "from_pk", "to_pk")
        back = one_way("relation_neighbours_in", "to_pk", "from_pk")
        rows = await self._session.all(
            f"SELECT pk FROM ({out}) AS outgoing UNION SELECT pk FROM ({back}) AS incoming LIMIT :most",
            {**self._parameters, "root": root.pk, "most": limit, "most_relations": limit * MAX_PARALLEL_RELATIONS},
        )
        return [pk for (pk,) in rows]

    async def _newest_touching(self, pks: Sequence[int]) -> list[int]:
        """Return the newest relations of these entities, at most one result page of each."""

        def one_way(index: str, end: str) -> str:
            inner = f"""
                SELECT {", ".join(_KEY)} FROM relation {self._session.syntax.using(index)}
                WHERE project_pk = :project AND {end} = ends.value{self._types} {_NEWEST_FIRST} LIMIT :most
            """
            return self._session.syntax.for_each("ends", "bigint", _KEY, inner)

        both = f"{one_way('relation_by_start', 'from_pk')} UNION {one_way('relation_by_end', 'to_pk')}"
        rows = await self._session.all(
            f"SELECT pk FROM ({both}) AS touching {_NEWEST_FIRST} LIMIT :most",
            {**self._parameters, "ends": self._session.syntax.values(pks)},
        )
        return [pk for (pk,) in rows]

    async def _newest_near_hub(self, root: Entity) -> tuple[list[int], set[int]]:
        """Scan the project's newest relations for those of a hub or its neighbors."""
        using = self._session.syntax.using
        step = f"SELECT 1 FROM relation AS step {using('relation_pair')} WHERE step.{_BETWEEN_ENTITIES}{self._types}"

        def is_neighbor(end: str) -> str:
            # Not EXISTS: PostgreSQL might read all neighbours of the root first, to have them in a hash table.
            return f"""
                (({step} AND step.from_pk = :root AND step.to_pk = newest.{end} LIMIT 1) IS NOT NULL
                OR ({step} AND step.from_pk = newest.{end} AND step.to_pk = :root LIMIT 1) IS NOT NULL)
            """

        rows = await self._session.all(
            f"""
            SELECT pk, from_pk, to_pk, from_is_near, to_is_near FROM (
                SELECT pk, created_at, id, from_pk, to_pk,
                       {is_neighbor("from_pk")} AS from_is_near, {is_neighbor("to_pk")} AS to_is_near
                FROM relation AS newest {using("relation_by_creation")} WHERE project_pk = :project{self._types}
            ) AS newest
            WHERE from_pk = :root OR to_pk = :root OR from_is_near OR to_is_near {_NEWEST_FIRST} LIMIT :most
            """,
            {**self._parameters, "root": root.pk},
        )
        near = {end for row in rows for end, is_near in zip(row[1:3], row[3:], strict=True) if is_near}
        return [row[0] for row in rows], near

    async def _ends(self, keys: Sequence[int]) -> list[Row]:
        return await self._session.all(
            f"""
            {_ENDS.format(keys=self._session.syntax.table("keys", "bigint"))}
            WHERE relation.pk = keys.value AND relation.project_pk = :project
            ORDER BY relation.created_at DESC, relation.id DESC
            """,
            {"project": self._parameters["project"], "keys": self._session.syntax.values(keys)},
        )


def _relationship(row: Row, root: Entity, near: set[int]) -> Relationship:
    relation_id, relation_type, notes, created_at = row[:4]
    start_pk, *start, from_item = row[4:11]
    finish_pk, *finish, to_item = row[11:18]
    is_forward = _is_walked_forward((start_pk, start[0]), (finish_pk, finish[0]), root.pk, near)
    arrival, arrived_at = (finish, finish_pk) if is_forward else (start, start_pk)
    return Relationship(
        relation_id,
        relation_type,
        from_item if start_pk is None else start[0],
        to_item if finish_pk is None else finish[0],
        notes,
        created_at,
        None if arrived_at is None else RelatedEntity(*arrival),
    )


def _is_walked_forward(start: tuple[int, str], finish: tuple[int, str], root: int, near: set[int]) -> bool:
    """Whether the walk enters the relation at its start: the end nearer to the root comes first, then the lower id."""

    def rank(end: tuple[int, str]) -> tuple[int, str]:
        pk, end_id = end
        return (0 if pk == root else 1 if pk in near else 2), end_id or ""

    return rank(start) <= rank(finish)
