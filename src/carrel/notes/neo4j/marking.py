"""The node by which whoever changes the notes waits for the others, and sees that they were there.

turn      the number of the last change
notes     how many notes there are
listed    the turn at which a note last came, went, or got another id
gone      the ids of notes that went, the last ones first, each behind its turn and a blank
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from carrel.notes.neo4j.connecting import Connection, Transaction

TAKE: Final = """
MERGE (m:CarrelNotes {name: 'notes'})
SET m.turn = coalesce(m.turn, 0) + 1
RETURN m.turn AS turn
"""
MOST_GONE = 100
COUNT: Final = """
MATCH (n:Node) WITH count(n) AS total
MATCH (m:CarrelNotes {name: 'notes'})
WITH m, total,
     CASE WHEN size($gone) > 0 OR m.notes IS NULL OR m.notes <> total THEN m.turn ELSE m.listed END AS listed
SET m.notes = total, m.listed = listed, m.gone = ($gone + coalesce(m.gone, []))[0..$most]
"""
GONE: Final = "MATCH (m:CarrelNotes {name: 'notes'}) RETURN m.gone AS gone"
STATE: Final = """
MATCH (n:Node) WITH count(n) AS total
OPTIONAL MATCH (m:CarrelNotes {name: 'notes'})
RETURN total, m.turn AS turn, m.listed AS listed, m.notes AS counted
"""


class State(NamedTuple):
    turn: int
    listed: int
    has_strangers: bool
    """Whether notes came or went without our knowledge."""


async def take_turn(transaction: Transaction) -> int:
    """Hold up all others who change notes until this transaction ends; the number of the change."""
    return (await transaction.run(TAKE))[0]["turn"]


async def count_notes(transaction: Transaction, turn: int, gone: Sequence[str] = ()) -> None:
    """To be the last of what changes how many there are, or which; `gone` are ids that are no more."""
    await transaction.run(COUNT, gone=[f"{turn} {note_id}" for note_id in gone[:MOST_GONE]], most=MOST_GONE)


async def gone_between(connection: Connection, after: int, until: int) -> list[str]:
    """Ids of notes that went after one turn and until another, of the last `MOST_GONE`."""
    rows = await connection.read(GONE)
    entries = [entry.partition(" ") for row in rows for entry in row["gone"] or ()]
    return [note_id for when, _, note_id in entries if after < int(when) <= until]


async def state(connection: Connection) -> State:
    row = (await connection.read(STATE))[0]
    return State(row["turn"] or 0, row["listed"] or 0, row["total"] != (row["counted"] or 0))
