"""Notes as nodes of a property graph, and their links as relationships."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from carrel.common import TotalProgress
from carrel.notes.frontmatter import Unreadable, read
from carrel.notes.frontmatter_edits import with_tags, with_title
from carrel.notes.links import NameIndex, join_path, names_in_targets, normalize_path
from carrel.notes.neo4j.connection import Connection, Row, Transaction, acquire_write_lock, read_state
from carrel.notes.note_names import SUFFIX, is_note, key, name_of, stem
from carrel.notes.parser import encoded, facts_of, parse, shown

Properties = dict[str, Any]

EMPTY_FRONTMATTER = "---\n---\n"
MAX_KEY_LENGTH = 1000


def file_id(note_id: str) -> str:
    """The id as a file's: those that others make up need not end in `.md`."""
    return note_id if is_note(note_id) else f"{note_id}.md"


def path_of(note_id: str) -> str:
    """Return the path of an ID, as a key."""
    return key(stem(file_id(note_id)))


def folder_of_path(path: str) -> str:
    """Return the folder of a path."""
    return path[: path.rfind("/") + 1]


def name_of_path(path: str) -> str:
    """Return the name at the end of a path."""
    return path[path.rfind("/") + 1 :]


def title_of(note_id: str, title: str | None) -> str:
    """Return the title, or the ID's name if it has none."""
    return title or name_of(file_id(note_id))


def index_key(title: str) -> str:
    """The key of a title, as far as an index takes it."""
    return key(title)[:MAX_KEY_LENGTH]


def sort_key(note_id: str) -> str:
    """Return a property that Neo4j sorts as Python sorts IDs, by code point: one character for each UTF-8 byte."""
    return note_id.encode(errors="surrogatepass").decode("latin-1")


def strings_of(value: list[str] | str | None) -> list[str]:
    """Return a property as a list, also where another program stored one string, or nothing."""
    return [value] if isinstance(value, str) else value or []


def properties_of(note_id: str, text: str) -> Properties:
    """Return all properties of a note with this text; what is not Unicode is replaced."""
    warnings = facts_of(file_id(note_id), encoded(text)).warnings
    text = shown(text)
    facts = facts_of(file_id(note_id), text.encode())
    body = read(text).body
    return {
        "title": facts.title,
        "content": text[body:],
        "tags": list(facts.tags),
        "head": text[:body],
        **name_properties(note_id, facts.title, facts.aliases),
        "tagKeys": _keys(facts.tags),
        "targets": list(facts.targets),
        "mentions": sorted(names_in_targets(facts.targets)),
        "warnings": list(warnings),
        "version": version_of(facts.title, text),
    }


def name_properties(note_id: str, title: str, aliases: Sequence[str]) -> Properties:
    """Return the properties by which a link finds a note."""
    path = path_of(note_id)
    return {
        "sortKey": sort_key(note_id),
        "path": path,
        "name": name_of_path(path),
        "titleKey": index_key(title),
        "aliases": list(aliases),
        "aliasKeys": _keys(aliases),
    }


def version_of(title: str, text: str) -> str:
    """Return a hash of all that search indexes."""
    return hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=16).hexdigest()


def completed_properties(note_id: str, head: str | None, title: str, content: str, tags: Sequence[str]) -> Properties:
    """Return the properties that other programs leave out or do not update."""
    text = _text(note_id, head, title, content, tags)
    found = properties_of(note_id, text)
    for name in ("title", "content", "tags"):
        del found[name]  # theirs
    found["titleKey"], found["tagKeys"] = index_key(title), _keys(tags)
    return found


def _text(note_id: str, head: str | None, title: str, content: str, tags: Sequence[str]) -> str:
    """The text of a file that says the same."""
    if head is None or read(head + content).body != len(head):
        head = EMPTY_FRONTMATTER if content.lstrip("\ufeff").startswith("---") else ""
    text = head + content
    inline = set(_keys(parse(EMPTY_FRONTMATTER + content, "").tags))
    name = name_of(file_id(note_id))
    try:
        if _keys(parse(text, name).tags) != _keys(tags):
            text = with_tags(text, [tag for tag in tags if key(tag) not in inline])
        if parse(text, name).title != title:
            text = with_title(text, title)
    except Unreadable:
        return EMPTY_FRONTMATTER + content
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


class NamedNote(NamedTuple):
    """The names by which a link can call a note."""

    id: str
    title: str
    aliases: Sequence[str]

    @classmethod
    def of(cls, row: Row) -> "NamedNote":
        return cls(row["id"], title_of(row["id"], row["title"]), row["aliases"] or ())


class Resolver:
    """Resolves targets among some notes."""

    def __init__(self, notes: Iterable[NamedNote]) -> None:
        self._ids: list[str] = []
        self._paths: list[str] = []
        self._candidates = NameIndex(self._ids.__getitem__, self._paths.__getitem__)
        for number, note in enumerate(notes):
            path = path_of(note.id)
            self._ids.append(note.id)
            self._paths.append(path)
            self._candidates.add(number, path, key(note.title), map(key, note.aliases))

    def resolve(self, target: str, folder: str) -> str | None:
        """The id of the note that a link, as a key, leads to from a folder, as a key with a slash at its end."""
        number = self._candidates.resolve(target, folder)
        return None if number is None else self._ids[number]


class NoteTargets(NamedTuple):
    """The targets of a note's links, as keys."""

    id: str
    targets: Sequence[str]

    @property
    def folder(self) -> str:
        return folder_of_path(path_of(self.id))


class ResolvedLinks(NamedTuple):
    """A note's links after resolution."""

    id: str
    out: Sequence[str]
    broken: Sequence[str]

    @classmethod
    def of(cls, targets_of: NoteTargets, resolver: Resolver) -> "ResolvedLinks":
        found = {target: resolver.resolve(target, targets_of.folder) for target in targets_of.targets}
        out = dict.fromkeys(note_id for note_id in found.values() if note_id is not None)
        return cls(targets_of.id, list(out), [target for target, note_id in found.items() if note_id is None])


async def candidates(transaction: Transaction, all_targets: Iterable[NoteTargets]) -> list[NamedNote]:
    """Return the notes that any of these links could mean."""
    words: set[str] = set()
    names: set[str] = set()
    for targets_of in all_targets:
        words.update(targets_of.targets, map(index_key, targets_of.targets))
        for target in targets_of.targets:
            names.update(map(name_of_path, _paths(target, targets_of.folder)))
    if not words:
        return []
    return [NamedNote.of(row) for row in await transaction.run(CANDIDATES, names=sorted(names), words=sorted(words))]


def _paths(target: str, folder: str) -> Iterator[str]:
    for ending in (target.removesuffix(SUFFIX), target):
        yield ending
        yield normalize_path(ending)
        yield join_path(folder, ending) or ""


async def mentioning(transaction: Transaction, names: Iterable[str]) -> set[str]:
    """Return the notes whose links may lead elsewhere when a note of one of these names comes or goes."""
    return {row["id"] for row in await transaction.run(MENTIONING, names=sorted(names))}


async def relink(transaction: Transaction, ids: Iterable[str]) -> None:
    """Resolve the links of these notes again."""
    rows = await transaction.run(TARGETS, ids=sorted(ids))
    all_targets = [NoteTargets(row["id"], row["targets"] or ()) for row in rows]
    resolver = Resolver(await candidates(transaction, all_targets))
    await put_links(transaction, [ResolvedLinks.of(targets_of, resolver) for targets_of in all_targets])


async def put_links(transaction: Transaction, notes: Sequence[ResolvedLinks]) -> None:
    """Replace the relationships of these notes."""
    links = [
        {"source": note.id, "target": target, "position": position}
        for note in notes
        for position, target in enumerate(note.out)
    ]
    await transaction.run(UNLINK, notes=[{"id": note.id, "broken": list(note.broken)} for note in notes])
    if links:
        await transaction.run(LINK, links=links)


# --- where much has changed

RELINK_BATCH_SIZE = 500
"""Notes whose links are written in one transaction."""
MAX_RELINK_ROUNDS = 5

ALL_TARGETS: Final = """
MATCH (n:Node) WHERE n.id IS NOT NULL
RETURN n.id AS id, n.title AS title, n.aliases AS aliases, n.targets AS targets, n.broken AS broken
"""
ALL_POSITIONS: Final = """
MATCH (a:Node)-[r:LINKS_TO]->(b:Node) WHERE r.position IS NOT NULL
RETURN a.id AS id, b.id AS target, r.position AS position
"""


async def relink_all(connection: Connection, on_progress: TotalProgress | None = None) -> int:
    """Resolve all links again; return how many notes have changed. Others may write meanwhile."""
    total = 0
    for _ in range(MAX_RELINK_ROUNDS):
        before = (await read_state(connection)).revision
        changed = await _changed(connection)
        own_changes = 0
        for start in range(0, len(changed), RELINK_BATCH_SIZE):
            await _put_all(connection, changed[start : start + RELINK_BATCH_SIZE])
            own_changes += 1
            if on_progress:
                on_progress(min(start + RELINK_BATCH_SIZE, len(changed)), len(changed))
        total += len(changed)
        if (await read_state(connection)).revision == before + own_changes:
            break
    return total


async def _put_all(connection: Connection, notes: Sequence[ResolvedLinks]) -> None:
    async def work(transaction: Transaction) -> None:
        await acquire_write_lock(transaction)
        await put_links(transaction, notes)

    await connection.write(work)


async def _changed(connection: Connection) -> list[ResolvedLinks]:
    """The notes whose relationships are not what their texts say."""
    rows = await connection.read(ALL_TARGETS)
    resolver = Resolver(map(NamedNote.of, rows))
    placed: dict[str, list[tuple[int, str]]] = {}
    for row in await connection.read(ALL_POSITIONS):
        placed.setdefault(row["id"], []).append((row["position"], row["target"]))
    changed: list[ResolvedLinks] = []
    for row in rows:
        linked = ResolvedLinks.of(NoteTargets(row["id"], row["targets"] or ()), resolver)
        if sorted(placed.get(linked.id, [])) != list(enumerate(linked.out)) or linked.broken != (row["broken"] or []):
            changed.append(linked)
    return changed
