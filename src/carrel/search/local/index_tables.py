"""The tables that an index is kept in, and putting documents into them.

All of it can be made again from its sources, so it is never migrated.
"""

import json
from pathlib import Path
from typing import Any

from carrel.search.analysis import normalized_title
from carrel.search.documents import Document, Passage
from carrel.search.index_store import hash_of
from carrel.storage import sqlite
from carrel.storage.sqlite import Connection

VERSION = 1
BUSY_TIMEOUT_SECONDS = 30.0

_TABLES = """
CREATE TABLE document (
    pk INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    id_fold TEXT NOT NULL,
    title TEXT NOT NULL,
    title_fold TEXT NOT NULL,
    version TEXT NOT NULL,
    newness INTEGER NOT NULL,
    filters TEXT NOT NULL, -- a JSON object
    UNIQUE (collection, id)
);
CREATE INDEX document_by_id_fold ON document (collection, id_fold);
CREATE INDEX document_by_title ON document (collection, title_fold);
CREATE TABLE passage (
    pk INTEGER PRIMARY KEY AUTOINCREMENT, -- the text index follows the numbers up
    document_pk INTEGER NOT NULL REFERENCES document,
    place INTEGER NOT NULL,
    label TEXT NOT NULL,
    text TEXT NOT NULL,
    hash BLOB NOT NULL -- of what is embedded
);
CREATE INDEX passage_by_document ON passage (document_pk, place);
CREATE INDEX passage_by_hash ON passage (hash);
CREATE TABLE removed ( -- what those who follow have to leave out
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    collection TEXT NOT NULL,
    passage_pk INTEGER NOT NULL
);
CREATE TABLE vector (
    pk INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL -- half precision
);
CREATE TABLE embedding (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    passage_pk INTEGER NOT NULL UNIQUE REFERENCES passage,
    vector_pk INTEGER NOT NULL REFERENCES vector
);
CREATE TABLE pending ( -- passages without an embedding
    passage_pk INTEGER PRIMARY KEY REFERENCES passage,
    newness INTEGER NOT NULL
);
CREATE INDEX pending_in_order ON pending (newness, passage_pk);
CREATE TABLE state (
    model TEXT NOT NULL, -- that all vectors are of; empty for none
    dimensions INTEGER NOT NULL,
    generation INTEGER NOT NULL -- how often they were dropped
);
INSERT INTO state VALUES ('', 0, 0);
"""


def connect(path: Path) -> Connection:
    return sqlite.connect(path, busy_seconds=BUSY_TIMEOUT_SECONDS)


def prepare(connection: Connection) -> bool:
    """Make the tables where there are none; False where there are those of another version of Carrel."""
    return sqlite.create_tables(connection, VERSION, _TABLES)


ExistingPassages = dict[tuple[bytes, Passage], list[int]]
"""Passages by what is in them; two that differ may be embedded as the same text."""


class DocumentWriter:
    """Changes to one collection."""

    def __init__(self, connection: Connection, collection: str) -> None:
        self._connection = connection
        self._collection = collection

    def put(self, document: Document) -> bool:
        """Whether anything was to be changed."""
        filters = json.dumps(dict(sorted(document.filters.items())), ensure_ascii=False)
        known = self._connection.execute(
            "SELECT pk, version, newness, filters FROM document WHERE collection = ? AND id = ?",
            (self._collection, document.id),
        ).fetchone()
        if known is None:
            pk, reusable = self._add(document, filters), ExistingPassages()
        elif known[1] == document.version:
            return False
        else:
            pk = known[0]
            # With other filters or another turn even the same passages have to be put in again.
            reusable = self._passages(pk) if known[2:] == (document.newness, filters) else {}
            self._connection.execute(
                "UPDATE document SET title = ?, title_fold = ?, version = ?, newness = ?, filters = ? WHERE pk = ?",
                (document.title, normalized_title(document.title), document.version, document.newness, filters, pk),
            )
        self._put_passages(pk, document, reusable)
        return True

    def remove(self, document_id: str) -> None:
        known = self._connection.execute(
            "SELECT pk FROM document WHERE collection = ? AND id = ?", (self._collection, document_id)
        ).fetchone()
        if known is not None:
            self._remove_passages(
                [pk for (pk,) in self._rows("SELECT pk FROM passage WHERE document_pk = ?", known[0])]
            )
            self._connection.execute("DELETE FROM document WHERE pk = ?", known)

    def _add(self, document: Document, filters: str) -> int:
        (pk,) = self._connection.execute(
            "INSERT INTO document (collection, id, id_fold, title, title_fold, version, newness, filters) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING pk",
            (
                self._collection,
                document.id,
                normalized_title(document.id),
                document.title,
                normalized_title(document.title),
                document.version,
                document.newness,
                filters,
            ),
        ).fetchone()
        return pk

    def _passages(self, document_pk: int) -> ExistingPassages:
        found: ExistingPassages = {}
        sql = "SELECT pk, hash, text, label FROM passage WHERE document_pk = ? ORDER BY place"
        for pk, hashed, text, label in self._rows(sql, document_pk):
            found.setdefault((hashed, Passage(text, label)), []).append(pk)
        return found

    def _put_passages(self, document_pk: int, document: Document, reusable: ExistingPassages) -> None:
        """Passages that were there before stay, if at another place; the others go."""
        before = [pk for (pk,) in self._rows("SELECT pk FROM passage WHERE document_pk = ?", document_pk)]
        reused: set[int] = set()
        for place, passage in enumerate(document.passages):
            hashed = hash_of(document.title, passage)
            if same := reusable.get((hashed, passage)):
                reused.add(same[0])
                self._connection.execute("UPDATE passage SET place = ? WHERE pk = ?", (place, same.pop(0)))
            else:
                self._add_passage(document_pk, document.newness, place, passage, hashed)
        self._remove_passages([pk for pk in before if pk not in reused])

    def _add_passage(self, document_pk: int, newness: int, place: int, passage: Passage, hashed: bytes) -> None:
        pk = self._connection.execute(
            "INSERT INTO passage (document_pk, place, label, text, hash) VALUES (?, ?, ?, ?, ?)",
            (document_pk, place, passage.label, passage.text, hashed),
        ).lastrowid
        vector = self._connection.execute("SELECT pk FROM vector WHERE hash = ?", (hashed,)).fetchone()
        if vector is None:
            self._connection.execute("INSERT INTO pending (newness, passage_pk) VALUES (?, ?)", (newness, pk))
        else:
            self._connection.execute("INSERT INTO embedding (passage_pk, vector_pk) VALUES (?, ?)", (pk, vector[0]))

    def _remove_passages(self, pks: list[int]) -> None:
        for pk in pks:
            self._connection.execute("DELETE FROM pending WHERE passage_pk = ?", (pk,))
            self._connection.execute("DELETE FROM embedding WHERE passage_pk = ?", (pk,))
            self._connection.execute("DELETE FROM passage WHERE pk = ?", (pk,))
            self._connection.execute(
                "INSERT INTO removed (collection, passage_pk) VALUES (?, ?)", (self._collection, pk)
            )

    def _rows(self, sql: str, document_pk: int) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, (document_pk,)).fetchall()
