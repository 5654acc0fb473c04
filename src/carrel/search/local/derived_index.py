"""The parts of an index that derive from its tables: the text index on disk and the vectors in memory.

The SQLite tables are authoritative. Both parts catch up by ascending row numbers: the text index keeps a checkpoint
in the same tantivy commit as its words, and each process remembers which embeddings it has loaded. After a crash,
either continues from its checkpoint.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.search.documents import Passage
from carrel.search.index_store import passage_terms
from carrel.search.local.text_index import Changes, Checkpoint, Entry, TextIndex
from carrel.storage.sqlite import Connection

if TYPE_CHECKING:
    from carrel.search.local.vectors import Vectors
    from carrel.search.providers.provider import Matrix

FETCH_BATCH_SIZE = 4096


class DerivedIndex:
    """A thread-safe view of one collection that catches up with the caller's transaction."""

    def __init__(self, collection: str, folder: Path) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._vectors: Vectors | None = None
        self._generation = self._embedding = self._removed = -1
        self.text = TextIndex(folder)

    # --- words

    def update_text(self, connection: Connection, *, seconds: float, most: int | None = None) -> None:
        """Take in what is new, unless that is more than `most` passages, or another process does so for long."""
        target = _target_checkpoint(connection)
        with self._lock:
            if self.text.head == target:  # what others write to it meanwhile is the same, merged
                return
            head = self.text.refresh()
            if _is_behind(head, target) and (most is None or target.added - head.added <= most):
                self.text.apply_changes(lambda seen: self._changes(connection, seen, target), seconds=seconds)

    def reset(self) -> None:
        """With the words alone; the vectors are of the tables."""
        with self._lock:
            self.text.reset()

    def _changes(self, connection: Connection, seen: Checkpoint, target: Checkpoint) -> Changes | None:
        if not _is_behind(seen, target):
            return None
        is_rebuild = _are_removals_pruned(connection, seen.removed)
        removed = connection.execute(
            "SELECT passage_pk FROM removed WHERE seq > ? AND collection = ?", (seen.removed, self._collection)
        )
        entries = self._entries(connection, 0 if is_rebuild else seen.added)
        return Changes(entries, [pk for (pk,) in removed], target, is_rebuild)

    def _entries(self, connection: Connection, after: int) -> Iterator[Entry]:
        rows = connection.execute(
            "SELECT passage.pk, title, label, text, filters FROM passage JOIN document ON document.pk = document_pk "
            "WHERE passage.pk > ? AND +collection = ?",  # not by the collection's index: it would look at all of it
            (after, self._collection),
        )
        for pk, title, label, text, filters in rows:
            yield Entry(pk, passage_terms(title, Passage(text, label)), _parse_filters(filters))

    # --- meaning

    def nearest(
        self, connection: Connection, query: "Matrix", most: int, filters: Mapping[str, Sequence[str]]
    ) -> list[int]:
        """About the nearest passages."""
        with self._lock:
            vectors = self._update_vectors(connection, len(query))
            return vectors.nearest(query, most, filters)

    def _update_vectors(self, connection: Connection, dimensions: int) -> "Vectors":
        from carrel.search.local.vectors import Row, Vectors, unpack

        (generation,) = connection.execute("SELECT generation FROM state").fetchone()
        vectors = self._vectors
        if vectors is None or generation != self._generation or _are_removals_pruned(connection, self._removed):
            vectors = self._vectors = Vectors(dimensions)
            self._generation, self._embedding, self._removed = generation, 0, _target_checkpoint(connection).removed
        cursor = connection.execute(
            """
            SELECT seq, passage_pk, filters, data FROM embedding JOIN vector ON vector.pk = vector_pk
            JOIN passage ON passage.pk = passage_pk JOIN document ON document.pk = document_pk
            WHERE seq > ? AND +collection = ? ORDER BY seq
            """,
            (self._embedding, self._collection),
        )
        while rows := cursor.fetchmany(FETCH_BATCH_SIZE):
            vectors.add(
                [Row(passage, _parse_filters(filters)) for _, passage, filters, _ in rows],
                unpack([row[3] for row in rows], dimensions),
            )
            self._embedding = rows[-1][0]
        removed_rows = connection.execute(
            "SELECT seq, passage_pk FROM removed WHERE seq > ? AND collection = ? ORDER BY seq",
            (self._removed, self._collection),
        ).fetchall()
        if removed_rows:
            vectors.remove([passage for _, passage in removed_rows])
            self._removed = removed_rows[-1][0]
        return vectors


def _target_checkpoint(connection: Connection) -> Checkpoint:
    numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    return Checkpoint(numbers.get("passage", 0), numbers.get("removed", 0))


def _is_behind(head: Checkpoint, target: Checkpoint) -> bool:
    return head.added < target.added or head.removed < target.removed


def _are_removals_pruned(connection: Connection, removed: int) -> bool:
    """Whether removals after this one are no longer known."""
    (first,) = connection.execute("SELECT min(seq) FROM removed").fetchone()
    return first is not None and removed < first - 1


@lru_cache(maxsize=1000)
def _parse_filters(filters: str) -> Mapping[str, str]:
    return json.loads(filters)
