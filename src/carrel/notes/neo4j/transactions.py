"""Creating, changing and deleting notes: each in one transaction, one after the other, also between processes."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from carrel.notes.drafts import Draft, draft_change, draft_new
from carrel.notes.links import NoteName, links_to_change, rewritten
from carrel.notes.neo4j.connection import AlreadyExists, Connection, Row, Transaction, acquire_write_lock, record_count
from carrel.notes.neo4j.queries import find
from carrel.notes.neo4j.records import (
    NamedNote,
    NoteTargets,
    Properties,
    Resolver,
    candidates,
    file_id,
    mentioning,
    name_of_path,
    path_of,
    properties_of,
    relink,
    title_of,
)
from carrel.notes.note_names import SUFFIX, key, name_of, stem
from carrel.notes.note_store import Refusal
from carrel.notes.parser import decoded, encoded, facts_of

RETURN_TEXT: Final = """
RETURN n.id AS id, n.path AS path, n.title AS title, n.head AS head, n.content AS content,
       n.aliases AS aliases, n.aliasKeys AS aliasKeys
"""
AT_PATH: Final = """
MATCH (n:Node) WHERE n.path = $path RETURN n.id AS id
UNION
MATCH (n:Node) WHERE n.id = $id RETURN n.id AS id
"""
MARK_SEEN: Final = """
SET n.seen = [coalesce(n.title, ''), toString(size(coalesce(n.content, '')))] + coalesce(n.tags, [])
"""
PUT: Final = (
    """
UNWIND $notes AS row
MERGE (n:Node {id: row.id})
SET n += row.properties, n.turn = $revision
"""
    + MARK_SEEN
)
RENAME: Final = "MATCH (n:Node {id: $id}) SET n.id = $new_id"
DELETE: Final = "MATCH (n:Node {id: $id}) DETACH DELETE n"


class Written(NamedTuple):
    """The outcome of a write."""

    revision: int
    id: str
    changed: Sequence[str]
    gone: Sequence[str] = ()
    is_new: bool = False


class Writer:
    """The write operations on one database."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, title: str, content: str, tags: Sequence[str], directory: str) -> Written | Refusal:
        """Create a note."""
        draft = draft_new(title, content, tags, directory)
        if isinstance(draft, Refusal):
            return draft

        async def work(transaction: Transaction) -> Written | Refusal:
            revision = await acquire_write_lock(transaction)
            if await transaction.run(AT_PATH, path=path_of(draft.id), id=draft.id):
                return _exists(draft.id)
            properties = properties_of(draft.id, decoded(draft.content))
            await put(transaction, revision, {draft.id: properties})
            await relink(transaction, {draft.id} | await mentioning(transaction, _names(properties)))
            await record_count(transaction, revision)
            return Written(revision, draft.id, [draft.id], is_new=True)

        try:
            return await self._connection.write(work)
        except AlreadyExists:
            return _exists(draft.id)

    async def update(
        self, note_id: str, *, title: str | None, content: str | None, tags: Sequence[str] | None
    ) -> Written | Refusal:
        """Change a note, and the links to it if its title changes."""

        async def work(transaction: Transaction) -> Written | Refusal:
            revision = await acquire_write_lock(transaction)
            row = await find(transaction.run, note_id, RETURN_TEXT)
            if row is None:
                return Refusal("NODE_NOT_FOUND", f"There is no note {note_id}")
            draft = draft_change(file_id(row["id"]), encoded(_text(row)), title=title, content=content, tags=tags)
            if isinstance(draft, Refusal):
                return draft
            if draft.id == file_id(row["id"]):
                draft = draft._replace(id=row["id"])
            if title is not None and title != title_of(row["id"], row["title"]):
                return await _rename(transaction, revision, row, draft)
            properties = properties_of(draft.id, decoded(draft.content))
            await put(transaction, revision, {draft.id: properties})
            names = _names_in_row(row) ^ _names(properties)
            affected = await mentioning(transaction, names) if names else set[str]()
            await relink(transaction, {draft.id} | affected)
            return Written(revision, draft.id, [draft.id])

        return await self._connection.write(work)

    async def delete(self, note_id: str) -> Written | None:
        """Delete a note; return None if there is none."""

        async def work(transaction: Transaction) -> Written | None:
            revision = await acquire_write_lock(transaction)
            row = await find(transaction.run, note_id, RETURN_TEXT)
            if row is None:
                return None
            await transaction.run(DELETE, id=row["id"])
            await relink(transaction, await mentioning(transaction, _names_in_row(row)))
            await record_count(transaction, revision, [row["id"]])
            return Written(revision, row["id"], [], [row["id"]])

        return await self._connection.write(work)


async def put(transaction: Transaction, revision: int, notes: dict[str, Properties]) -> None:
    """Create or update notes."""
    rows = [{"id": note_id, "properties": properties} for note_id, properties in notes.items()]
    await transaction.run(PUT, notes=rows, revision=revision)


async def _rename(transaction: Transaction, revision: int, row: Row, draft: Draft) -> Written | Refusal:
    """Give the note its new title, and the id that comes of it, and let the links to it say so."""
    old_id: str = row["id"]
    if draft.id != old_id:
        taken = await transaction.run(AT_PATH, path=path_of(draft.id), id=draft.id)
        if any(other["id"] != old_id for other in taken):
            return _exists(draft.id)
    texts = await rewritten_texts(transaction, NamedNote.of(row), draft)
    if draft.id != old_id:
        await transaction.run(RENAME, id=old_id, new_id=draft.id)
    notes = {note_id: properties_of(note_id, text) for note_id, text in texts.items()}
    await put(transaction, revision, notes)
    names = _names_in_row(row) | _names(notes[draft.id])
    await relink(transaction, {*notes} | await mentioning(transaction, names))
    gone = [old_id] if draft.id != old_id else []
    if gone:
        await record_count(transaction, revision, gone)
    return Written(revision, draft.id, list(notes), gone)


def _text(row: Row) -> str:
    return (row["head"] or "") + (row["content"] or "")


def _names(properties: Properties) -> set[str]:
    """Return all names that a link can use for a note; paths end in its name."""
    return {properties["name"], properties["titleKey"], *properties["aliasKeys"]}


def _names_in_row(row: Row) -> set[str]:
    title = title_of(row["id"], row["title"])
    return {name_of_path(path_of(row["id"])), key(title), *(row["aliasKeys"] or ())}


def _exists(note_id: str) -> Refusal:
    return Refusal("NODE_EXISTS", f"There is a note at {note_id} already; choose another title or update that one")


# --- the links to a note that gets another title, in the texts of all notes that have one

LINKING: Final = """
MATCH (n:Node)-[:LINKS_TO]->(:Node {id: $id}) WHERE n.id <> $id
RETURN DISTINCT n.id AS id, n.head AS head, n.content AS content
"""


async def rewritten_texts(transaction: Transaction, note: NamedNote, draft: Draft) -> dict[str, str]:
    """The texts that change, by id: those of notes that link to it, and its own, which is the last."""
    facts = facts_of(file_id(draft.id), draft.content)
    before, after = NoteName(file_id(note.id), note.title), NoteName(file_id(draft.id), facts.title)
    texts = {
        row["id"]: (row["head"] or "") + (row["content"] or "") for row in await transaction.run(LINKING, id=note.id)
    }
    texts[note.id] = decoded(draft.content)
    all_targets = [NoteTargets(each, facts_of(file_id(each), encoded(text)).targets) for each, text in texts.items()]
    possible = [NoteTargets(targets_of.id, [*targets_of.targets, *_new_names(after)]) for targets_of in all_targets]
    others = [other for other in await candidates(transaction, possible) if other.id != note.id]
    old, new = Resolver([*others, note]), Resolver([*others, NamedNote(draft.id, facts.title, facts.aliases)])
    changed: dict[str, str] = {}
    for targets_of in all_targets:
        leads = _resolves_to(old, targets_of.folder, note.id)
        changes = links_to_change(
            texts[targets_of.id],
            resolves_now={target for target in targets_of.targets if leads(target)}.__contains__,
            resolves_after=_resolves_to(new, targets_of.folder, draft.id),
            before=before,
            after=after,
        )
        if changes or targets_of.id == note.id:
            text = decoded(rewritten(encoded(texts[targets_of.id]), changes))
            changed[draft.id if targets_of.id == note.id else targets_of.id] = text
    return changed


def _new_names(after: NoteName) -> list[str]:
    """Return all names that a rewritten link may use."""
    names = [key(name) for name in (after.title, name_of(after.id), stem(after.id))]
    return [*names, *(name + SUFFIX for name in names)]


def _resolves_to(resolver: Resolver, folder: str, note_id: str) -> Callable[[str], bool]:
    return lambda target: resolver.resolve(target, folder) == note_id
