"""Putting documents into the tables, within a transaction of the caller's."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from carrel.search.analysis import normalized_title
from carrel.search.documents import Document, Passage
from carrel.search.index_store import digest, hash_of, passage_terms
from carrel.search.postgres.connections import Connection
from carrel.search.postgres.index_schema import scope_of
from carrel.search.postgres.retrieval import fitting_terms, tsvector

INSERT_BATCH_SIZE = 1000
"""Passages that one statement adds."""

_PUT_DOCUMENT = """
INSERT INTO document (collection_pk, id, title, version, newness, scope, id_key, id_fold, title_fold)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (collection_pk, id_key) DO UPDATE SET title = excluded.title, version = excluded.version,
newness = excluded.newness, scope = excluded.scope, title_fold = excluded.title_fold RETURNING pk
"""
_ADD_PASSAGES = """
WITH added AS (
    INSERT INTO passage (document_pk, place, label, text, hash, length, words, scope)
    SELECT document_pk, place, label, text, hash, length, words::tsvector, scope
    FROM unnest(%s::bigint[], %s::integer[], %s::text[], %s::text[], %s::bytea[], %s::integer[], %s::text[])
    WITH ORDINALITY AS new (document_pk, place, label, text, hash, length, words, number)
    JOIN document ON document.pk = document_pk ORDER BY number
    RETURNING pk, document_pk, hash
)
INSERT INTO pending SELECT added.pk, newness FROM added JOIN document ON document.pk = document_pk
WHERE NOT EXISTS (SELECT FROM embedding WHERE embedding.hash = added.hash)
"""
_MOVE_PASSAGES = """
UPDATE passage SET place = new.place FROM unnest(%s::bigint[], %s::integer[]) AS new (pk, place)
WHERE passage.pk = new.pk AND passage.place <> new.place
"""
_COUNT_TERMS = """
INSERT INTO term SELECT %s, term, change FROM unnest(%s::text[], %s::bigint[]) AS new (term, change)
ON CONFLICT (collection_pk, term) DO UPDATE SET passages = term.passages + excluded.passages
"""


Passages = dict[tuple[str, Passage], list[int]]
"""The passages of a document by its title and what is in them: most often one has that."""


class _ExistingDocument(NamedTuple):
    pk: int
    version: str
    newness: int
    scope: list[int]


class _NewPassage(NamedTuple):
    document_pk: int
    place: int
    label: str
    text: str
    hash: bytes
    length: int
    words: str


@dataclass(slots=True)
class _Changes:
    added: list[_NewPassage] = field(default_factory=list[_NewPassage])
    moved: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Passages and their new places."""
    removed_pks: list[int] = field(default_factory=list[int])
    terms: Counter[str] = field(default_factory=Counter[str])
    """How many more passages have each."""

    def put(self, pk: int, document: Document, before: Passages, *, is_reusable: bool) -> None:
        """Passages that were there before stay, if at another place; the others go."""
        reusable = {key: list(pks) for key, pks in before.items()} if is_reusable else {}
        for place, passage in enumerate(document.passages):
            if same := reusable.get((document.title, passage)):
                self.moved.append((same.pop(0), place))
            else:
                self._add(pk, document.title, place, passage)
        removed = reusable if is_reusable else before
        self.removed_pks += [each for pks in removed.values() for each in pks]

    def _add(self, pk: int, title: str, place: int, passage: Passage) -> None:
        found = passage_terms(title, passage)
        often = fitting_terms(Counter(found))
        self.terms.update(often.keys())
        self.added.append(
            _NewPassage(pk, place, passage.label, passage.text, hash_of(title, passage), len(found), tsvector(often))
        )


class DocumentWriter:
    """Changes to one collection, whose row is locked: no other transaction changes it meanwhile."""

    def __init__(self, connection: Connection, collection: str) -> None:
        self._connection = connection
        self._collection = self._lock_collection(collection)

    def put(self, documents: Sequence[Document]) -> int:
        """How many were to be changed."""
        known = self._existing([document.id for document in documents])
        versions = {each: fitting_terms.version for each, fitting_terms in known.items()}
        wanted: dict[str, Document] = {}
        changed = 0
        for document in documents:
            if versions.get(document.id) != document.version:
                versions[document.id] = document.version
                wanted[document.id] = document
                changed += 1
        before = self._passages([known[each].pk for each in wanted if each in known])
        changes = _Changes()
        for document in wanted.values():
            scope = scope_of(self._collection, document.filters)
            pk = self._put_document(document, scope)
            old = known.get(document.id)
            # With other filters or another turn even the same passages have to be put in again.
            is_reusable = old is not None and (old.newness, old.scope) == (document.newness, scope)
            changes.put(pk, document, before.get(pk, {}), is_reusable=is_reusable)
        self._apply(changes)
        return changed

    def remove(self, ids: Sequence[str]) -> None:
        pks = [known.pk for known in self._existing(ids).values()]
        rows = self._connection.execute("SELECT pk FROM passage WHERE document_pk = ANY(%s)", (pks,)).fetchall()
        self._apply(_Changes(removed_pks=[pk for (pk,) in rows]))
        self._connection.execute("DELETE FROM document WHERE pk = ANY(%s)", (pks,))

    def _lock_collection(self, name: str) -> int:
        lock = "SELECT pk FROM collection WHERE name = %s FOR UPDATE"
        row = self._connection.execute(lock, (name,)).fetchone()
        if row is None:
            self._connection.execute("INSERT INTO collection (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
            (row,) = self._connection.execute(lock, (name,)).fetchall()
        return row[0]

    def _existing(self, ids: Sequence[str]) -> dict[str, _ExistingDocument]:
        rows = self._connection.execute(
            "SELECT id, pk, version, newness, scope FROM document WHERE collection_pk = %s AND id_key = ANY(%s)",
            (self._collection, [digest(each) for each in ids]),
        ).fetchall()
        return {document_id: _ExistingDocument(*row) for document_id, *row in rows}

    def _passages(self, document_pks: list[int]) -> dict[int, Passages]:
        rows = self._connection.execute(
            "SELECT document_pk, passage.pk, title, text, label FROM passage JOIN document "
            "ON document.pk = document_pk WHERE document_pk = ANY(%s) ORDER BY document_pk, place",
            (document_pks,),
        ).fetchall()
        found: dict[int, Passages] = {}
        for document_pk, pk, title, text, label in rows:
            found.setdefault(document_pk, {}).setdefault((title, Passage(text, label)), []).append(pk)
        return found

    def _put_document(self, document: Document, scope: list[int]) -> int:
        ((pk,),) = self._connection.execute(
            _PUT_DOCUMENT,
            (
                self._collection,
                document.id,
                document.title,
                document.version,
                document.newness,
                scope,
                digest(document.id),
                digest(normalized_title(document.id)),
                digest(normalized_title(document.title)),
            ),
        ).fetchall()
        return pk

    def _apply(self, changes: _Changes) -> None:
        for start in range(0, len(changes.added), INSERT_BATCH_SIZE):
            columns = zip(*changes.added[start : start + INSERT_BATCH_SIZE], strict=True)
            self._connection.execute(_ADD_PASSAGES, [list(column) for column in columns])
        if changes.moved:
            self._connection.execute(_MOVE_PASSAGES, [list(column) for column in zip(*changes.moved, strict=True)])
        length = sum(each.length for each in changes.added) - self._remove(changes)
        self._connection.execute(
            "UPDATE collection SET passages = passages + %s, length = length + %s WHERE pk = %s",
            (len(changes.added) - len(changes.removed_pks), length, self._collection),
        )
        self._count(changes.terms)

    def _remove(self, changes: _Changes) -> int:
        """How long they were."""
        if not changes.removed_pks:
            return 0
        rows = self._connection.execute(
            "SELECT lexeme, count(*) FROM passage, unnest(words) WHERE pk = ANY(%s) GROUP BY lexeme",
            (changes.removed_pks,),
        )
        changes.terms.subtract(dict(rows.fetchall()))
        rows = self._connection.execute(
            "DELETE FROM passage WHERE pk = ANY(%s) RETURNING length", (changes.removed_pks,)
        )
        return sum(length for (length,) in rows.fetchall())

    def _count(self, terms: Counter[str]) -> None:
        changed = [(term, change) for term, change in sorted(terms.items()) if change]
        if changed:
            columns = [list(column) for column in zip(*changed, strict=True)]
            self._connection.execute(_COUNT_TERMS, (self._collection, *columns))
            self._connection.execute(
                "DELETE FROM term WHERE collection_pk = %s AND term = ANY(%s) AND passages <= 0",
                (self._collection, [term for term, change in changed if change < 0]),
            )
