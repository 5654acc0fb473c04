"""Bringing all relationships up to date with the texts, where much has changed."""

from collections.abc import Callable, Sequence
from typing import Final

from carrel.notes.neo4j.connecting import Connection, Transaction
from carrel.notes.neo4j.linking import Known, Linked, Resolver, Saying, put_links
from carrel.notes.neo4j.marking import state, take_turn

BATCH = 500
"""Notes whose links are written in one transaction."""
ROUNDS = 5

NOTES: Final = """
MATCH (n:Node) WHERE n.id IS NOT NULL
RETURN n.id AS id, n.title AS title, n.aliases AS aliases, n.targets AS targets, n.broken AS broken
"""
LINKS: Final = """
MATCH (a:Node)-[r:LINKS_TO]->(b:Node) WHERE r.position IS NOT NULL
RETURN a.id AS id, b.id AS target, r.position AS position
"""


async def relink_all(connection: Connection, on_progress: Callable[[int, int], None] | None = None) -> int:
    """Let all links lead where they lead now; how many notes had another one. Others may write meanwhile."""
    total = 0
    for _ in range(ROUNDS):
        before = (await state(connection)).turn
        changed = await _changed(connection)
        turns = 0
        for start in range(0, len(changed), BATCH):
            await _put(connection, changed[start : start + BATCH])
            turns += 1
            if on_progress:
                on_progress(min(start + BATCH, len(changed)), len(changed))
        total += len(changed)
        if (await state(connection)).turn == before + turns:
            break
    return total


async def _put(connection: Connection, notes: Sequence[Linked]) -> None:
    async def work(transaction: Transaction) -> None:
        await take_turn(transaction)
        await put_links(transaction, notes)

    await connection.write(work)


async def _changed(connection: Connection) -> list[Linked]:
    """The notes whose relationships are not what their texts say."""
    rows = await connection.read(NOTES)
    resolver = Resolver(map(Known.of, rows))
    placed: dict[str, list[tuple[int, str]]] = {}
    for row in await connection.read(LINKS):
        placed.setdefault(row["id"], []).append((row["position"], row["target"]))
    changed: list[Linked] = []
    for row in rows:
        linked = Linked.of(Saying(row["id"], row["targets"] or ()), resolver)
        if sorted(placed.get(linked.id, [])) != list(enumerate(linked.out)) or linked.broken != (row["broken"] or []):
            changed.append(linked)
    return changed
