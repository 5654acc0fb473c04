"""Putting documents into the tables, within a transaction of the caller's."""

import json
import sqlite3
from typing import Any

from carrel.search.analysis import titled
from carrel.search.document import Document, Passage
from carrel.search.indexed import hash_of

Kept = dict[tuple[bytes, Passage], list[int]]
"""Passages by what is in them; two that differ may be embedded as the same text."""


class Writing:
    """Changes to one collection."""

    def __init__(self, connection: sqlite3.Connection, collection: str) -> None:
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
            pk, kept = self._add(document, filters), Kept()
        elif known[1] == document.version:
            return False
        else:
            pk = known[0]
            # With other filters or another turn even the same passages have to be put in again.
            kept = self._passages(pk) if known[2:] == (document.newness, filters) else {}
            self._connection.execute(
                "UPDATE document SET title = ?, title_fold = ?, version = ?, newness = ?, filters = ? WHERE pk = ?",
                (document.title, titled(document.title), document.version, document.newness, filters, pk),
            )
        self._put_passages(pk, document, kept)
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
                titled(document.id),
                document.title,
                titled(document.title),
                document.version,
                document.newness,
                filters,
            ),
        ).fetchone()
        return pk

    def _passages(self, document_pk: int) -> Kept:
        found: Kept = {}
        sql = "SELECT pk, hash, text, label FROM passage WHERE document_pk = ? ORDER BY place"
        for pk, hashed, text, label in self._rows(sql, document_pk):
            found.setdefault((hashed, Passage(text, label)), []).append(pk)
        return found

    def _put_passages(self, document_pk: int, document: Document, kept: Kept) -> None:
        """Passages that were there before stay, if at another place; the others go."""
        before = [pk for (pk,) in self._rows("SELECT pk FROM passage WHERE document_pk = ?", document_pk)]
        staying: set[int] = set()
        for place, passage in enumerate(document.passages):
            hashed = hash_of(document.title, passage)
            if same := kept.get((hashed, passage)):
                staying.add(same[0])
                self._connection.execute("UPDATE passage SET place = ? WHERE pk = ?", (place, same.pop(0)))
            else:
                self._add_passage(document_pk, document.newness, place, passage, hashed)
        self._remove_passages([pk for pk in before if pk not in staying])

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
