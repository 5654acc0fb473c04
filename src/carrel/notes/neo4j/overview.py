"""All notes in the database and the links between them."""

from typing import Final

from carrel.notes.neo4j.connecting import Connection
from carrel.notes.neo4j.records import title_of
from carrel.notes.overview import Overview, OverviewNote, flags

MOST_LINKS: Final = 200_000

TOTAL: Final = "MATCH (n:Node) RETURN count(n) AS total"
NOTES: Final = """
MATCH (n:Node) OPTIONAL MATCH (n)-[r:LINKS_TO]-(:Node)
WITH n, count(r) AS degree ORDER BY degree DESC, n.sortKey LIMIT $most
RETURN n.id AS id, n.title AS title, n.broken AS broken, degree
"""
LINKS: Final = "MATCH (a:Node)-[:LINKS_TO]->(b:Node) RETURN DISTINCT a.id AS source, b.id AS target LIMIT $most"


async def overview(connection: Connection, most: int) -> Overview:
    """The best linked first."""
    ((total,),) = [row.values() for row in await connection.read(TOTAL)]
    rows = await connection.read(NOTES, most=most)
    notes = [
        OverviewNote(
            row["id"],
            title_of(row["id"], row["title"]),
            flags(is_broken=bool(row["broken"]), is_linked=row["degree"] > 0),
        )
        for row in rows
    ]
    places = {note.id: place for place, note in enumerate(notes)}
    ends = [(row["source"], row["target"]) for row in await connection.read(LINKS, most=MOST_LINKS)]
    links = [places[each] for pair in ends if pair[0] in places and pair[1] in places for each in pair]
    return Overview(notes, links, total)
