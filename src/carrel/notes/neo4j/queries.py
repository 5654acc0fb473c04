"""Read queries, nearly each of them one statement."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, LiteralString, NamedTuple

from carrel.notes.graph import Direction, Metric
from carrel.notes.graph_algorithms import first_shortest_path
from carrel.notes.neo4j.connection import Connection, Row
from carrel.notes.neo4j.records import file_id, sort_key, strings_of, title_of
from carrel.notes.note_names import SUFFIX, key, name_of
from carrel.notes.note_store import Completions, Hub, LinkView, NoteView, Overview, OverviewNote, flags
from carrel.notes.parser import EXCERPT_LENGTH, parse, truncated

NO_POSITION = 1 << 30
EXCERPT_UNITS = 2 * EXCERPT_LENGTH + 3
"""What the server is asked for to be sure of enough characters, where it counts in UTF-16."""

EXACT: Final = "MATCH (n:Node) WHERE n.id = $id\n"
FOLDED: Final = "MATCH (n:Node) WHERE n.path IN $paths\n"
_LINKS: Final = """
OPTIONAL MATCH (n)-[r:LINKS_TO]->(m:Node)
WITH n, collect(CASE WHEN m IS NULL THEN null ELSE {id: m.id, title: m.title, position: r.position} END) AS links
"""
WHOLE: Final = (
    _LINKS
    + """
RETURN n.id AS id, n.title AS title, n.content AS content, n.tags AS tags, links,
       n.path AS path, n.head AS head, n.broken AS broken, n.warnings AS warnings
"""
)
SHORT: Final = (
    _LINKS
    + "RETURN n.id AS id, n.title AS title, left(coalesce(n.content, ''), $units) AS content, n.tags AS tags, links"
)
BY_IDS: Final = "MATCH (n:Node) WHERE n.id IN $ids WITH n" + SHORT
NEIGHBORHOOD: Final = """
OPTIONAL MATCH (n)-[r:LINKS_TO]->(m:Node)
WITH n, m, min(coalesce(r.position, $no_position)) AS place
WITH n, m, place, EXISTS { MATCH (m)-[:LINKS_TO]->(n) } AS mutual
WITH n, collect(CASE WHEN m IS NULL THEN null ELSE {id: m.id, place: place, mutual: mutual} END) AS linked
WITH n, linked, CASE WHEN $is_both THEN [x IN linked | x.id] ELSE [] END AS shown
OPTIONAL MATCH (s:Node)-[:LINKS_TO]->(n)
WITH DISTINCT n, linked, shown, s
ORDER BY coalesce(s.sortKey, s.id)
WITH n, linked, shown, collect(s.id) AS linking
RETURN n.id AS id, n.path AS path, linked, size(linking) AS incoming,
       [x IN linking WHERE NOT x IN shown][0..$limit] AS linking
"""
TAGGED: Final = (
    """
MATCH (n:Node)
WHERE ($is_all AND all(tag IN $tags WHERE tag IN n.tagKeys))
   OR (NOT $is_all AND any(tag IN n.tagKeys WHERE tag IN $tags))
WITH n ORDER BY coalesce(n.sortKey, n.id) LIMIT $limit
"""
    + SHORT
)
RANDOM: Final = "MATCH (n:Node) WITH n, rand() AS chance ORDER BY chance LIMIT 1 WITH n" + WHOLE
RANDOM_TAGGED: Final = (
    "MATCH (n:Node) WHERE any(tag IN n.tagKeys WHERE tag IN $tags) "
    "WITH n, rand() AS chance ORDER BY chance LIMIT 1 WITH n" + WHOLE
)
_RANKED: Final = """
WITH n, count(DISTINCT m) AS score
ORDER BY score DESC, coalesce(n.sortKey, n.id) LIMIT $limit
RETURN n.id AS id, n.title AS title, score
"""
HUBS: dict[Metric, LiteralString] = {
    "in_degree": "MATCH (n:Node)<-[:LINKS_TO]-(m:Node)" + _RANKED,
    "out_degree": "MATCH (n:Node)-[:LINKS_TO]->(m:Node)" + _RANKED,
}


Run = Callable[..., Awaitable[list[Row]]]
"""A statement and its parameters give rows: `Connection.read` or `Transaction.run`."""


async def find(run: Run, note_id: str, statement: LiteralString, **parameters: Any) -> Row | None:
    """Return the row of the note of this ID, else of the only one that differs in case or in `.md` alone. `statement`
    continues from a node `n` and returns its ID and path."""
    rows = await run(EXACT + statement, id=note_id, **parameters)
    return matching_row(note_id, rows or await run(FOLDED + statement, paths=paths_of(note_id), **parameters))


def paths_of(note_id: str) -> list[str]:
    """Return the paths that an ID may mean."""
    wanted = key(note_id)
    return list(dict.fromkeys([wanted.removesuffix(SUFFIX), wanted]))


def matching_row(note_id: str, rows: Sequence[Row]) -> Row | None:
    """Return the row that an ID means, of several."""
    for row in rows:
        if row["id"] == note_id:
            return row
    for wanted in paths_of(note_id):
        if found := [row for row in rows if row["path"] == wanted]:
            return found[0] if len(found) == 1 else None
    return None


class NeighborIds(NamedTuple):
    """The neighbors of a note, in order."""

    id: str
    directions: dict[str, Direction]
    """The neighbours to show, in order."""
    incoming: int
    outgoing: int


async def whole(connection: Connection, note_id: str) -> NoteView | None:
    """Return a note with its full content."""
    row = await find(connection.read, note_id, WHOLE)
    return None if row is None else whole_view(row)


async def get_many(connection: Connection, ids: Sequence[str]) -> list[NoteView]:
    """Return those of these notes that exist, in this order."""
    if not ids:
        return []
    found = {row["id"]: row for row in await connection.read(BY_IDS, ids=list(ids), units=EXCERPT_UNITS)}
    return [short_view(found[note_id]) for note_id in ids if note_id in found]


async def neighborhood(connection: Connection, note_id: str, direction: Direction, limit: int) -> NeighborIds | None:
    """Return a note's neighbors, and how many there are in all."""
    both = direction == "both"
    row = await find(connection.read, note_id, NEIGHBORHOOD, no_position=NO_POSITION, is_both=both, limit=limit)
    if row is None:
        return None
    out = sorted(row["linked"], key=lambda each: (each["place"], each["id"]))
    directions: dict[str, Direction] = {}
    if direction != "in":
        directions = {each["id"]: "both" if each["mutual"] else "out" for each in out[:limit]}
    if direction != "out":
        linked = {each["id"] for each in out}
        for other in row["linking"][: limit - len(directions)]:
            directions[other] = "both" if other in linked else "in"
    return NeighborIds(row["id"], directions, row["incoming"], len(out))


async def find_by_tags(connection: Connection, tags: Sequence[str], *, all_of_them: bool, limit: int) -> list[NoteView]:
    """Return notes that have one of the tags, or all of them."""
    keys = list(dict.fromkeys(map(key, tags)))
    rows = await connection.read(TAGGED, tags=keys, is_all=all_of_them, limit=limit, units=EXCERPT_UNITS)
    return sorted(map(short_view, rows), key=lambda note: note.id)


async def random_one(connection: Connection, tags: Sequence[str] | None) -> NoteView | None:
    """Return a note with one of the tags, each with the same probability."""
    if tags:
        rows = await connection.read(RANDOM_TAGGED, tags=list(dict.fromkeys(map(key, tags))))
    else:
        rows = await connection.read(RANDOM)
    return whole_view(rows[0]) if rows else None


async def hubs(connection: Connection, metric: Metric, limit: int) -> list[Hub]:
    """Return the notes of highest degree."""
    rows = await connection.read(HUBS[metric], limit=limit)
    return [Hub(row["id"], title_of(row["id"], row["title"]), row["score"]) for row in rows]


def whole_view(row: Row) -> NoteView:
    """Return a row as a note with full content."""
    content: str = row["content"] or ""
    return _view(row, content, [*_broken(row, content), *(row["warnings"] or ())])


def short_view(row: Row) -> NoteView:
    """Return a row as a note with an excerpt."""
    return _view(row, truncated(row["content"], EXCERPT_LENGTH), ())


def _view(row: Row, content: str, warnings: Sequence[str]) -> NoteView:
    return NoteView(
        row["id"], title_of(row["id"], row["title"]), content, strings_of(row["tags"]), _links(row["links"]), warnings
    )


def _links(links: Iterable[Row]) -> list[LinkView]:
    """Return links in order of the text, then those that other programs have added, by ID."""

    def place(link: Row) -> tuple[int, str]:
        return (NO_POSITION if link["position"] is None else link["position"], link["id"])

    first = {link["id"]: link["title"] for link in sorted(links, key=place, reverse=True)}
    return [LinkView(note_id, title_of(note_id, title)) for note_id, title in reversed(first.items())]


def _broken(row: Row, content: str) -> list[str]:
    """The links that lead nowhere, as they are written."""
    broken: set[str] = set(row["broken"] or [])
    if not broken:
        return []
    text = (row["head"] or "") + content
    found = (
        f"Broken link: [[{link.target}]]" if link.is_wiki else f"Broken link: {link.written(text)}"
        for link in parse(text, name_of(file_id(row["id"]))).links
        if key(link.target) in broken
    )
    return list(dict.fromkeys(found))


# --- going through the ids, a few at a time

PAGE: Final = """
MATCH (n:Node) WHERE n.sortKey > $after
WITH n ORDER BY n.sortKey LIMIT $limit
RETURN n.id AS id, n.title AS title
"""
PATH_PREFIX: Final = "MATCH (n:Node) WHERE n.path STARTS WITH $start\n"
FOLDER_PREFIX: Final = "MATCH (n:Node) WHERE n.path CONTAINS $inner AND NOT n.path STARTS WITH $start\n"
FIRST_IDS: Final = "WITH n ORDER BY n.sortKey LIMIT $limit RETURN n.id AS id"
TOTAL: Final = "RETURN count(n) AS total"


async def page(connection: Connection, after: str, limit: int) -> list[LinkView]:
    """Return notes in order of their IDs, after one."""
    rows = await connection.read(PAGE, after=sort_key(after), limit=limit)
    return sorted(LinkView(row["id"], title_of(row["id"], row["title"])) for row in rows)


async def completions(connection: Connection, start: str, limit: int) -> Completions:
    """Return IDs with a prefix. All nodes are scanned only if too few begin with it."""
    wanted = key(start)
    first, total = await _matching_ids(connection, PATH_PREFIX, limit, start=wanted)
    if len(first) == limit:
        return Completions(first, total)
    second, more = await _matching_ids(connection, FOLDER_PREFIX, limit - len(first), start=wanted, inner=f"/{wanted}")
    return Completions([*first, *second], total + more)


async def _matching_ids(
    connection: Connection, which: LiteralString, limit: int, **words: str
) -> tuple[list[str], int]:
    """Their ids by id, and how many there are."""
    ids = sorted(row["id"] for row in await connection.read(which + FIRST_IDS, limit=limit, **words))
    if len(ids) < limit:
        return ids, len(ids)
    return ids, (await connection.read(which + TOTAL, **words))[0]["total"]


# --- all notes and the links between them

MAX_OVERVIEW_LINKS: Final = 200_000

NOTE_COUNT: Final = "MATCH (n:Node) RETURN count(n) AS total"
BEST_LINKED: Final = """
MATCH (n:Node) OPTIONAL MATCH (n)-[r:LINKS_TO]-(:Node)
WITH n, count(r) AS degree ORDER BY degree DESC, n.sortKey LIMIT $most
RETURN n.id AS id, n.title AS title, n.broken AS broken, degree
"""
ALL_LINKS: Final = "MATCH (a:Node)-[:LINKS_TO]->(b:Node) RETURN DISTINCT a.id AS source, b.id AS target LIMIT $most"


async def overview(connection: Connection, most: int) -> Overview:
    """Return notes and links, the best linked notes first."""
    ((total,),) = [row.values() for row in await connection.read(NOTE_COUNT)]
    rows = await connection.read(BEST_LINKED, most=most)
    notes = [
        OverviewNote(
            row["id"],
            title_of(row["id"], row["title"]),
            flags(is_broken=bool(row["broken"]), is_linked=row["degree"] > 0),
        )
        for row in rows
    ]
    places = {note.id: place for place, note in enumerate(notes)}
    ends = [(row["source"], row["target"]) for row in await connection.read(ALL_LINKS, most=MAX_OVERVIEW_LINKS)]
    links = [places[each] for pair in ends if pair[0] in places and pair[1] in places for each in pair]
    return Overview(notes, links, total)


# --- the shortest way between two: searched from both ends, a round trip a step

FORWARD: Final = """
MATCH (a:Node)-[:LINKS_TO]->(b:Node) WHERE a.id IN $ids RETURN a.id AS id, collect(DISTINCT b.id) AS others
"""
BACKWARD: Final = """
MATCH (a:Node)-[:LINKS_TO]->(b:Node) WHERE b.id IN $ids RETURN b.id AS id, collect(DISTINCT a.id) AS others
"""


async def first_path(connection: Connection, source: str, target: str) -> list[str] | None:
    """Return the shortest path whose IDs come first: bidirectional search, one round trip for each step."""
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
    return _first_of(edges, source, target)


def _first_of(edges: Iterable[tuple[str, str]], source: str, target: str) -> list[str] | None:
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
