"""What links lead to, among the notes in the database, and the relationships that say so.

A relationship that stands for a link in the text has its place there as `position`; one that has none was made by
somebody else, and stays.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from carrel.common import TotalProgress
from carrel.notes.names import SUFFIX, key
from carrel.notes.neo4j.connection import Connection, Row, Transaction, state, take_turn
from carrel.notes.neo4j.records import folder_in, index_key, name_in, path_of, title_of
from carrel.notes.resolving import Candidates, joined, plain

CANDIDATES: Final = """
MATCH (n:Node) WHERE n.name IN $names RETURN n.id AS id, n.title AS title, n.aliases AS aliases
UNION
MATCH (n:Node) WHERE n.titleKey IN $words RETURN n.id AS id, n.title AS title, n.aliases AS aliases
UNION
MATCH (n:Node) WHERE any(word IN n.aliasKeys WHERE word IN $words)
RETURN n.id AS id, n.title AS title, n.aliases AS aliases
"""
MENTIONING: Final = "MATCH (n:Node) WHERE any(mention IN n.mentions WHERE mention IN $names) RETURN n.id AS id"
TARGETS: Final = "MATCH (n:Node) WHERE n.id IN $ids RETURN n.id AS id, n.targets AS targets"
UNLINK: Final = """
UNWIND $notes AS row
MATCH (n:Node {id: row.id})
SET n.broken = row.broken
WITH n
MATCH (n)-[r:LINKS_TO]->(:Node) WHERE r.position IS NOT NULL
DELETE r
"""
LINK: Final = """
UNWIND $links AS row
MATCH (a:Node {id: row.source})
MATCH (b:Node {id: row.target})
MERGE (a)-[r:LINKS_TO]->(b)
SET r.position = row.position
"""


class Known(NamedTuple):
    """What a link can call a note by."""

    id: str
    title: str
    aliases: Sequence[str]

    @classmethod
    def of(cls, row: Row) -> "Known":
        return cls(row["id"], title_of(row["id"], row["title"]), row["aliases"] or ())


class Resolver:
    """Which of some notes a link leads to."""

    def __init__(self, notes: Iterable[Known]) -> None:
        self._ids: list[str] = []
        self._paths: list[str] = []
        self._candidates = Candidates(self._ids.__getitem__, self._paths.__getitem__)
        for number, note in enumerate(notes):
            path = path_of(note.id)
            self._ids.append(note.id)
            self._paths.append(path)
            self._candidates.add(number, path, key(note.title), map(key, note.aliases))

    def resolve(self, target: str, folder: str) -> str | None:
        """The id of the note that a link, as a key, leads to from a folder, as a key with a slash at its end."""
        number = self._candidates.resolve(target, folder)
        return None if number is None else self._ids[number]


class Saying(NamedTuple):
    """What a note's links say, as keys."""

    id: str
    targets: Sequence[str]

    @property
    def folder(self) -> str:
        return folder_in(path_of(self.id))


class Linked(NamedTuple):
    id: str
    out: Sequence[str]
    broken: Sequence[str]

    @classmethod
    def of(cls, saying: Saying, resolver: Resolver) -> "Linked":
        found = {target: resolver.resolve(target, saying.folder) for target in saying.targets}
        out = dict.fromkeys(note_id for note_id in found.values() if note_id is not None)
        return cls(saying.id, list(out), [target for target, note_id in found.items() if note_id is None])


async def candidates(transaction: Transaction, sayings: Iterable[Saying]) -> list[Known]:
    """The notes that any of these links could mean."""
    words: set[str] = set()
    names: set[str] = set()
    for saying in sayings:
        words.update(saying.targets, map(index_key, saying.targets))
        for target in saying.targets:
            names.update(map(name_in, _paths(target, saying.folder)))
    if not words:
        return []
    return [Known.of(row) for row in await transaction.run(CANDIDATES, names=sorted(names), words=sorted(words))]


def _paths(target: str, folder: str) -> Iterator[str]:
    for stem in (target.removesuffix(SUFFIX), target):
        yield stem
        yield plain(stem)
        yield joined(folder, stem) or ""


async def mentioning(transaction: Transaction, names: Iterable[str]) -> set[str]:
    """The notes whose links may lead elsewhere when a note of one of these names comes or goes."""
    return {row["id"] for row in await transaction.run(MENTIONING, names=sorted(names))}


async def relink(transaction: Transaction, ids: Iterable[str]) -> None:
    """Let the links of these notes lead where they lead now."""
    rows = await transaction.run(TARGETS, ids=sorted(ids))
    sayings = [Saying(row["id"], row["targets"] or ()) for row in rows]
    resolver = Resolver(await candidates(transaction, sayings))
    await put_links(transaction, [Linked.of(saying, resolver) for saying in sayings])


async def put_links(transaction: Transaction, notes: Sequence[Linked]) -> None:
    links = [
        {"source": note.id, "target": target, "position": position}
        for note in notes
        for position, target in enumerate(note.out)
    ]
    await transaction.run(UNLINK, notes=[{"id": note.id, "broken": list(note.broken)} for note in notes])
    if links:
        await transaction.run(LINK, links=links)


# --- where much has changed

BATCH_SIZE = 500
"""Notes whose links are written in one transaction."""
ROUNDS = 5

SAID: Final = """
MATCH (n:Node) WHERE n.id IS NOT NULL
RETURN n.id AS id, n.title AS title, n.aliases AS aliases, n.targets AS targets, n.broken AS broken
"""
PLACED: Final = """
MATCH (a:Node)-[r:LINKS_TO]->(b:Node) WHERE r.position IS NOT NULL
RETURN a.id AS id, b.id AS target, r.position AS position
"""


async def relink_all(connection: Connection, on_progress: TotalProgress | None = None) -> int:
    """Let all links lead where they lead now; how many notes had another one. Others may write meanwhile."""
    total = 0
    for _ in range(ROUNDS):
        before = (await state(connection)).turn
        changed = await _changed(connection)
        turns = 0
        for start in range(0, len(changed), BATCH_SIZE):
            await _put_all(connection, changed[start : start + BATCH_SIZE])
            turns += 1
            if on_progress:
                on_progress(min(start + BATCH_SIZE, len(changed)), len(changed))
        total += len(changed)
        if (await state(connection)).turn == before + turns:
            break
    return total


async def _put_all(connection: Connection, notes: Sequence[Linked]) -> None:
    async def work(transaction: Transaction) -> None:
        await take_turn(transaction)
        await put_links(transaction, notes)

    await connection.write(work)


async def _changed(connection: Connection) -> list[Linked]:
    """The notes whose relationships are not what their texts say."""
    rows = await connection.read(SAID)
    resolver = Resolver(map(Known.of, rows))
    placed: dict[str, list[tuple[int, str]]] = {}
    for row in await connection.read(PLACED):
        placed.setdefault(row["id"], []).append((row["position"], row["target"]))
    changed: list[Linked] = []
    for row in rows:
        linked = Linked.of(Saying(row["id"], row["targets"] or ()), resolver)
        if sorted(placed.get(linked.id, [])) != list(enumerate(linked.out)) or linked.broken != (row["broken"] or []):
            changed.append(linked)
    return changed
