"""Going through the ids of notes, a few at a time."""

from typing import Final, LiteralString

from carrel.notes.names import key
from carrel.notes.neo4j.connecting import Connection
from carrel.notes.neo4j.records import sort_key, title_of
from carrel.notes.store import Completions, LinkView

PAGE: Final = """
MATCH (n:Node) WHERE n.sortKey > $after
WITH n ORDER BY n.sortKey LIMIT $limit
RETURN n.id AS id, n.title AS title
"""
BEGINNING: Final = "MATCH (n:Node) WHERE n.path STARTS WITH $start\n"
WITHIN: Final = "MATCH (n:Node) WHERE n.path CONTAINS $inner AND NOT n.path STARTS WITH $start\n"
FIRST: Final = "WITH n ORDER BY n.sortKey LIMIT $limit RETURN n.id AS id"
TOTAL: Final = "RETURN count(n) AS total"


async def page(connection: Connection, after: str, limit: int) -> list[LinkView]:
    rows = await connection.read(PAGE, after=sort_key(after), limit=limit)
    return sorted(LinkView(row["id"], title_of(row["id"], row["title"])) for row in rows)


async def completions(connection: Connection, start: str, limit: int) -> Completions:
    """All nodes are looked through only where fewer than `limit` ids begin so; else the total is of those alone."""
    wanted = key(start)
    first, total = await _some(connection, BEGINNING, limit, start=wanted)
    if len(first) == limit:
        return Completions(first, total)
    second, more = await _some(connection, WITHIN, limit - len(first), start=wanted, inner=f"/{wanted}")
    return Completions([*first, *second], total + more)


async def _some(connection: Connection, which: LiteralString, limit: int, **words: str) -> tuple[list[str], int]:
    """Their ids by id, and how many there are."""
    ids = sorted(row["id"] for row in await connection.read(which + FIRST, limit=limit, **words))
    if len(ids) < limit:
        return ids, len(ids)
    return ids, (await connection.read(which + TOTAL, **words))[0]["total"]
