"""A project's entities and what relates to what, as one graph."""

import asyncio
from collections import Counter
from itertools import chain
from typing import NamedTuple

from carrel.content.projects import Project
from carrel.storage.database import Row, Session

MOST_RELATIONS = 100_000

_TOTAL = "SELECT sum(total) FROM entity_tally WHERE project_pk = :project"
_NEWEST = """
    SELECT from_pk, to_pk FROM relation {}
    WHERE project_pk = :project AND from_pk IS NOT NULL AND to_pk IS NOT NULL
    ORDER BY created_at DESC, id DESC LIMIT :most_relations
"""
_COLUMNS = "pk, id, title, entity_type"


class LinkedEntity(NamedTuple):
    id: str
    title: str
    entity_type: str
    is_linked: bool


class LinkedEntities(NamedTuple):
    nodes: list[LinkedEntity]
    links: list[int]
    """Places in `nodes`: where one begins, where it ends, where the next begins and so on; each pair once."""
    total: int
    """Entities of the project."""
    is_truncated: bool


async def linked_entities(session: Session, project: Project, most: int) -> LinkedEntities:
    """Where there are more entities than `most`, those with most relations; where there are more relations than
    `MOST_RELATIONS`, by the newest of them."""
    parameters: dict[str, object] = {"project": project.pk, "most": most, "most_relations": MOST_RELATIONS + 1}
    ((total,),) = await session.all(_TOTAL, parameters)
    total = int(total or 0)
    relations = await session.all(_NEWEST.format(session.syntax.using("relation_by_creation")), parameters)
    # Hundreds of thousands of numbers are not gone through while others wait for the event loop.
    pairs, degrees = await asyncio.to_thread(_counted, relations[:MOST_RELATIONS])
    rows = await _entities(session, parameters, degrees, most if total > most else 0)
    nodes, links = await asyncio.to_thread(_graph, rows, pairs, degrees)
    return LinkedEntities(nodes, links, total, len(relations) > MOST_RELATIONS or total > len(nodes))


def _counted(relations: list[Row]) -> tuple[dict[Row, None], Counter[int]]:
    """Each pair once, and how many each end is in."""
    pairs = dict.fromkeys(relations)
    return pairs, Counter(chain.from_iterable(pairs))


def _graph(rows: list[Row], pairs: dict[Row, None], degrees: Counter[int]) -> tuple[list[LinkedEntity], list[int]]:
    places = {row[0]: place for place, row in enumerate(rows)}
    links = [places[pk] for pair in pairs if pair[0] in places and pair[1] in places for pk in pair]
    return [LinkedEntity(*row[1:], is_linked=row[0] in degrees) for row in rows], links


async def _entities(session: Session, parameters: dict[str, object], degrees: Counter[int], most: int) -> list[Row]:
    """All of them, or at most so many: the best linked ones first."""
    if not most:
        return await session.all(f"SELECT {_COLUMNS} FROM entity WHERE project_pk = :project ORDER BY pk", parameters)
    best = await asyncio.to_thread(lambda: sorted(degrees, key=lambda pk: (-degrees[pk], pk))[:most])
    among = session.syntax.among("pk", "best")
    rows = await session.all(
        f"SELECT {_COLUMNS} FROM entity WHERE project_pk = :project AND {among}",
        {**parameters, "best": session.syntax.values(best)},
    )
    turn = {pk: place for place, pk in enumerate(best)}
    rows.sort(key=lambda row: turn[row[0]])
    if len(best) < most:  # then `best` are all that have a relation
        others = f"SELECT {_COLUMNS} FROM entity WHERE project_pk = :project AND NOT ({among}) ORDER BY pk LIMIT :rest"
        rows += await session.all(others, {**parameters, "best": session.syntax.values(best), "rest": most - len(best)})
    return rows
