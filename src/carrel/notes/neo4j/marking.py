"""The node by which whoever changes the notes waits for the others, and sees that they were there."""

from typing import Final, NamedTuple

from carrel.notes.neo4j.connecting import Connection, Transaction

TAKE: Final = """
MERGE (m:CarrelNotes {name: 'notes'})
SET m.turn = coalesce(m.turn, 0) + 1
RETURN m.turn AS turn
"""
COUNT: Final = """
MATCH (n:Node) WITH count(n) AS total
MATCH (m:CarrelNotes {name: 'notes'})
SET m.notes = total
"""
STATE: Final = """
MATCH (n:Node) WITH count(n) AS total
OPTIONAL MATCH (m:CarrelNotes {name: 'notes'})
RETURN total, m.turn AS turn, m.notes AS counted
"""


class State(NamedTuple):
    turn: int
    has_strangers: bool
    """Whether notes came or went without our knowledge."""


async def take_turn(transaction: Transaction) -> int:
    """Hold up all others who change notes until this transaction ends; the number of the change."""
    return (await transaction.run(TAKE))[0]["turn"]


async def count_notes(transaction: Transaction) -> None:
    """To be the last of what changes how many there are."""
    await transaction.run(COUNT)


async def state(connection: Connection) -> State:
    row = (await connection.read(STATE))[0]
    return State(row["turn"] or 0, row["total"] != (row["counted"] or 0))
