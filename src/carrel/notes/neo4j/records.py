"""Notes as nodes of a property graph, and their links as relationships."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from carrel.common import TotalProgress
from carrel.notes.frontmatter import Unreadable, read
from carrel.notes.frontmatter_edits import with_tags, with_title
from carrel.notes.links import Candidates, joined, names_in, plain
from carrel.notes.neo4j.connection import Connection, Row, Transaction, state, take_turn
from carrel.notes.note_names import SUFFIX, is_note, key, name_of, stem
from carrel.notes.parser import encoded, facts_of, parse, shown

Properties = dict[str, Any]

EMPTY_HEAD = "---\n---\n"
LONGEST_KEY = 1000


def file_id(note_id: str) -> str:
    """The id as a file's: those that others make up need not end in `.md`."""
    return note_id if is_note(note_id) else f"{note_id}.md"


def path_of(note_id: str) -> str:
    return key(stem(file_id(note_id)))


def folder_in(path: str) -> str:
    return path[: path.rfind("/") + 1]


def name_in(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def title_of(note_id: str, title: str | None) -> str:
    return title or name_of(file_id(note_id))


def index_key(title: str) -> str:
    """The key of a title, as far as an index takes it."""
    return key(title)[:LONGEST_KEY]


def sort_key(note_id: str) -> str:
    return note_id.encode(errors="surrogatepass").decode("latin-1")


def words_in(value: list[str] | str | None) -> list[str]:
    """A property that is a list, also where somebody wrote one word, or nothing."""
    return [value] if isinstance(value, str) else value or []


def properties_of(note_id: str, text: str) -> Properties:
    """Of a note with this text; what is no Unicode in it is replaced."""
    warnings = facts_of(file_id(note_id), encoded(text)).warnings
    text = shown(text)
    facts = facts_of(file_id(note_id), text.encode())
    body = read(text).body
    return {
        "title": facts.title,
        "content": text[body:],
        "tags": list(facts.tags),
        "head": text[:body],
        **names_of(note_id, facts.title, facts.aliases),
        "tagKeys": _keys(facts.tags),
        "targets": list(facts.targets),
        "mentions": sorted(names_in(facts.targets)),
        "warnings": list(warnings),
        "version": version_of(facts.title, text),
    }


def names_of(note_id: str, title: str, aliases: Sequence[str]) -> Properties:
    path = path_of(note_id)
    return {
        "sortKey": sort_key(note_id),
        "path": path,
        "name": name_in(path),
        "titleKey": index_key(title),
        "aliases": list(aliases),
        "aliasKeys": _keys(aliases),
    }


def version_of(title: str, text: str) -> str:
    return hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=16).hexdigest()


def adopted(note_id: str, head: str | None, title: str, content: str, tags: Sequence[str]) -> Properties:
    """What others leave out when they write a note, or did not see to when they changed one."""
    text = _text(note_id, head, title, content, tags)
    found = properties_of(note_id, text)
    for name in ("title", "content", "tags"):
        del found[name]  # theirs
    found["titleKey"], found["tagKeys"] = index_key(title), _keys(tags)
    return found


def _text(note_id: str, head: str | None, title: str, content: str, tags: Sequence[str]) -> str:
    """The text of a file that says the same."""
    if head is None or read(head + content).body != len(head):
        head = EMPTY_HEAD if content.lstrip("\ufeff").startswith("---") else ""
    text = head + content
    inline = set(_keys(parse(EMPTY_HEAD + content, "").tags))
    name = name_of(file_id(note_id))
    try:
        if _keys(parse(text, name).tags) != _keys(tags):
            text = with_tags(text, [tag for tag in tags if key(tag) not in inline])
        if parse(text, name).title != title:
            text = with_title(text, title)
    except Unreadable:
        return EMPTY_HEAD + content
    return text


def _keys(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(key, words)))


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
    for ending in (target.removesuffix(SUFFIX), target):
        yield ending
        yield plain(ending)
        yield joined(folder, ending) or ""


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
