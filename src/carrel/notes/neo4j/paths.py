"""The shortest way between two notes: searched from both ends, a round trip a step."""

from collections.abc import Iterable
from typing import Final

from carrel.notes.neo4j.connecting import Connection
from carrel.notes.paths import first_shortest_path

FORWARD: Final = """
MATCH (a:Node)-[:LINKS_TO]->(b:Node) WHERE a.id IN $ids RETURN a.id AS id, collect(DISTINCT b.id) AS others
"""
BACKWARD: Final = """
MATCH (a:Node)-[:LINKS_TO]->(b:Node) WHERE b.id IN $ids RETURN b.id AS id, collect(DISTINCT a.id) AS others
"""


async def first_path(connection: Connection, source: str, target: str) -> list[str] | None:
    """Of several shortest ones, that whose ids come first."""
    edges: set[tuple[str, str]] = set()
    ahead, behind = {source}, {target}
    seen_ahead, seen_behind = {source}, {target}
    while not ahead & behind:
        if not ahead or not behind:
            return None
        if len(ahead) <= len(behind):
            rows = await connection.read(FORWARD, ids=list(ahead))
            edges.update((row["id"], other) for row in rows for other in row["others"])
            ahead = {other for row in rows for other in row["others"]} - seen_ahead
            seen_ahead |= ahead
        else:
            rows = await connection.read(BACKWARD, ids=list(behind))
            edges.update((other, row["id"]) for row in rows for other in row["others"])
            behind = {other for row in rows for other in row["others"]} - seen_behind
            seen_behind |= behind
    return _first(edges, source, target)


def _first(edges: Iterable[tuple[str, str]], source: str, target: str) -> list[str] | None:
    """Among the links that were seen, which are all that a shortest way can take."""
    ids = sorted({source, target, *(end for edge in edges for end in edge)})
    number = {note_id: place for place, note_id in enumerate(ids)}
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for start, end in edges:
        after.setdefault(number[start], []).append(number[end])
        before.setdefault(number[end], []).append(number[start])
    found = first_shortest_path(
        number[source],
        number[target],
        after=lambda some: [after.get(each, ()) for each in some],
        before=lambda some: [before.get(each, ()) for each in some],
        id_of=ids.__getitem__,
    )
    return None if found is None else [ids[each] for each in found]
