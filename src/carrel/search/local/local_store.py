"""The index of one machine: what is true is in SQLite; the text index and the vectors in memory follow it."""

import json
import logging
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carrel.errors import StoreDamaged
from carrel.search.analysis import normalized_title
from carrel.search.documents import Document, Hit, Passage, Progress, SearchResults
from carrel.search.index_store import (
    Filters,
    ModelChanged,
    Pending,
    Query,
    bounded_query_terms,
    digest,
    embedded_text,
    storable,
    storable_document,
    storable_filters,
)
from carrel.search.local import index_tables
from carrel.search.local.derived_index import DerivedIndex
from carrel.search.local.index_tables import DocumentWriter
from carrel.search.local.text_index import TextDamaged
from carrel.search.ranking import Candidate, Ranked, candidates_for, rank
from carrel.storage.sqlite import Connection, transaction, translate_errors, try_lock

if TYPE_CHECKING:
    from carrel.search.providers.provider import Matrix

T = TypeVar("T")

log = logging.getLogger("carrel.search")

FILE = "index.db"
MAX_QUERY_UPDATE_PASSAGES = 2000
"""Passages that a query waits for the text index to take in; more are left to whoever put them there."""
WIDENING_FACTOR = 4
"""Times as many passages are ranked where the best of them are of fewer documents than are asked for."""
WRITER_TIMEOUT_SECONDS = 60.0
MAX_REMOVAL_ROWS = 100_000
"""Removals that are remembered; who is behind by more begins anew."""


class LocalStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._write_lock = threading.Lock()
        self._open_lock = threading.Lock()
        self._threads = threading.local()
        self._connections: list[Connection] = []
        self._derived_indexes: dict[str, DerivedIndex] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if not self._prepare_tables():
            self._recreate()

    def _prepare_tables(self) -> bool:
        try:
            with translate_errors("search index"):
                return index_tables.prepare(self._connection())
        except StoreDamaged:
            return False

    def _recreate(self) -> None:
        self.close()
        self._derived_indexes.clear()
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        self._prepare_tables()

    # --- filling it

    def put(self, collection: str, documents: Sequence[Document]) -> int:
        with self._write() as connection:
            changed = sum(DocumentWriter(connection, collection).put(storable_document(each)) for each in documents)
            connection.execute(
                "DELETE FROM removed WHERE seq <= (SELECT max(seq) FROM removed) - ?", (MAX_REMOVAL_ROWS,)
            )
        self._update_words(collection)  # also where nothing was changed: who put it in may have been killed before this
        return changed

    def remove(self, collection: str, ids: Sequence[str]) -> None:
        with self._write() as connection:
            for each in ids:
                DocumentWriter(connection, collection).remove(storable(each))
        self._update_words(collection)

    def clear(self) -> None:
        try:
            self._empty()
        except StoreDamaged:
            self._recreate()

    def _empty(self) -> None:
        with self._write() as connection:
            documents = connection.execute("SELECT collection, id FROM document").fetchall()
            for collection, each in documents:
                DocumentWriter(connection, collection).remove(each)
            connection.execute("DELETE FROM vector")
            connection.execute("UPDATE state SET generation = generation + 1")
        for collection in {collection for collection, _ in documents}:
            self._update_words(collection)

    def tidy(self) -> None:
        with self._write() as connection:
            connection.execute("DELETE FROM vector WHERE pk NOT IN (SELECT vector_pk FROM embedding)")

    def _update_words(self, collection: str) -> None:
        index = self._collection(collection)
        self._with_repair(index, lambda: self._update_all_words(index))

    def _update_all_words(self, index: DerivedIndex) -> None:
        with self._read() as connection:
            index.update_text(connection, seconds=WRITER_TIMEOUT_SECONDS)

    def _with_repair(self, index: DerivedIndex, job: Callable[[], T]) -> T:
        """The job's result, after a second try where the words are damaged: what they are made of is in the tables."""
        try:
            return job()
        except TextDamaged as error:
            log.warning("%s; they are made anew", error)
            index.reset()
            self._update_all_words(index)
            return job()

    # --- its meaning

    def use_model(self, name: str, dimensions: int) -> None:
        with self._write() as connection:
            if _model(connection) == (name, dimensions):
                return
            connection.execute("DELETE FROM embedding")
            connection.execute("DELETE FROM vector")
            connection.execute("DELETE FROM pending")
            connection.execute(
                "INSERT INTO pending SELECT passage.pk, newness FROM passage JOIN document ON document.pk = document_pk"
            )
            connection.execute(
                "UPDATE state SET model = ?, dimensions = ?, generation = generation + 1", (name, dimensions)
            )

    def pending(self, most: int) -> list[Pending]:
        with self._read() as connection:
            rows = connection.execute(
                """
                SELECT hash, title, label, text FROM (
                    SELECT newness AS turn, passage_pk FROM pending ORDER BY newness DESC, passage_pk DESC LIMIT ?
                ) JOIN passage ON passage.pk = passage_pk JOIN document ON document.pk = document_pk
                ORDER BY turn DESC, passage.pk DESC
                """,
                (most,),
            ).fetchall()
        return list(
            {
                hashed: Pending(hashed, embedded_text(title, Passage(text, label)))
                for hashed, title, label, text in rows
            }.values()
        )

    def embed(self, model: str, hashes: Sequence[bytes], matrix: "Matrix") -> None:
        from carrel.search.local.vectors import pack

        with self._write() as connection:
            if _model(connection) != (model, matrix.shape[1]):
                raise ModelChanged
            connection.executemany(
                "INSERT OR IGNORE INTO vector (hash, data) VALUES (?, ?)", zip(hashes, pack(matrix), strict=True)
            )
            for each in hashes:
                connection.execute(
                    "INSERT INTO embedding (passage_pk, vector_pk) "
                    "SELECT passage.pk, vector.pk FROM passage JOIN vector USING (hash) "
                    "JOIN pending ON passage_pk = passage.pk WHERE hash = ?",
                    (each,),
                )
                connection.execute(
                    "DELETE FROM pending WHERE passage_pk IN (SELECT pk FROM passage WHERE hash = ?)", (each,)
                )

    @contextmanager
    def work_lock(self, work: str = "turn") -> Generator[bool]:
        name = work if work == "turn" else digest(work).hex()
        with try_lock(self._folder / f"{name}.db") as is_acquired:
            yield is_acquired

    # --- asking it

    def search(self, collection: str, query: Query, *, filters: Filters, limit: int) -> SearchResults:
        index = self._collection(collection)
        return self._with_repair(index, lambda: self._search(index, collection, query, filters, limit))

    def _search(
        self, index: DerivedIndex, collection: str, query: Query, filters: Filters, limit: int
    ) -> SearchResults:
        text, filters = storable(query.text), storable_filters(filters)
        words, most, vector = bounded_query_terms(text), candidates_for(limit), query.vector
        with self._read() as connection:
            index.update_text(connection, seconds=0, most=MAX_QUERY_UPDATE_PASSAGES)
            titles = _exact_matches(connection, collection, text, filters)
            if vector is not None and _model(connection) != (query.model, len(vector)):
                vector = None
            candidates, is_complete = _candidates(connection, index, words, titles, vector, most, filters)
            if not is_complete and len({each.id for each in candidates}) < limit:  # many passages of few documents
                candidates, _ = _candidates(connection, index, words, titles, vector, WIDENING_FACTOR * most, filters)
            best, total = rank(candidates, set(titles.values()), limit, index.text.weigh(words))
            return SearchResults(_hits(connection, best), total)

    def versions(self, collection: str) -> dict[str, str]:
        with self._read() as connection:
            rows = connection.execute("SELECT id, version FROM document WHERE collection = ?", (collection,))
            return dict(rows.fetchall())

    def progress(self) -> dict[str, Progress]:
        with self._read() as connection:
            rows = connection.execute(
                """
                SELECT collection, count(DISTINCT document.pk), count(passage.pk), count(embedding.seq)
                FROM document LEFT JOIN passage ON document_pk = document.pk
                LEFT JOIN embedding ON passage_pk = passage.pk GROUP BY collection ORDER BY collection
                """
            ).fetchall()
        return {collection: Progress(*counts) for collection, *counts in rows}

    # --- opening and closing

    def close(self) -> None:
        """No other thread may be at it any more."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._threads = threading.local()

    def _collection(self, name: str) -> DerivedIndex:
        with self._open_lock:
            if name not in self._derived_indexes:
                self._derived_indexes[name] = DerivedIndex(name, self._folder / "words" / digest(name).hex())
            return self._derived_indexes[name]

    def _connection(self) -> Connection:
        """Each thread has its own."""
        connection: Connection | None = getattr(self._threads, "connection", None)
        if connection is None:
            connection = self._threads.connection = index_tables.connect(self._folder / FILE)
            self._connections.append(connection)
        return connection

    @contextmanager
    def _read(self) -> Generator[Connection]:
        with self._translated_errors(), transaction(self._connection(), "DEFERRED") as connection:
            yield connection

    @contextmanager
    def _write(self) -> Generator[Connection]:
        with self._write_lock, self._translated_errors(), transaction(self._connection()) as connection:
            yield connection

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        try:
            with translate_errors("search index"):
                yield
        except StoreDamaged as error:
            raise StoreDamaged(
                "the search index is damaged: carrel index --rebuild makes it again; restart the servers after it"
            ) from error


def _model(connection: Connection) -> tuple[str, int]:
    """Its name and its dimensions."""
    return connection.execute("SELECT model, dimensions FROM state").fetchone()


def _exact_matches(connection: Connection, collection: str, query: str, filters: Filters) -> dict[int, str]:
    """The documents whose title or id the query is, by their first passages."""
    title = normalized_title(query)
    if not title:
        return {}
    rows = connection.execute(
        """
        SELECT passage.pk, id, filters FROM (
            SELECT pk, id, filters FROM document WHERE collection = :collection AND title_fold = :query
            UNION SELECT pk, id, filters FROM document WHERE collection = :collection AND id_fold = :query
        ) AS document JOIN passage ON document_pk = document.pk AND place = 0
        """,
        {"collection": collection, "query": title},
    )
    return {pk: document for pk, document, kept in rows if _matches_filters(json.loads(kept), filters)}


def _matches_filters(kept: Mapping[str, str], filters: Filters) -> bool:
    return all(kept.get(key) in values for key, values in filters.items())


def _candidates(
    connection: Connection,
    index: DerivedIndex,
    words: Sequence[str],
    titles: Iterable[int],
    vector: "Matrix | None",
    most: int,
    filters: Filters,
) -> tuple[list[Candidate], bool]:
    """The titled, and so many of the best by words and by meaning; and whether these are all that there are."""
    bm25 = index.text.search(words, most, filters) if words else {}
    is_complete = len(bm25) < most
    nearest = index.nearest(connection, vector, most, filters) if vector is not None else []
    passages = {*bm25, *titles, *nearest}
    if not is_complete:  # else no other passage has any of the words
        bm25 |= index.text.scores(words, [passage for passage in nearest if passage not in bm25])
    return _with_scores(connection, passages, bm25, vector), is_complete and len(nearest) < most


def _with_scores(
    connection: Connection, passages: Iterable[int], bm25: Mapping[int, float], vector: "Matrix | None"
) -> list[Candidate]:
    # In the order of the tables, of which pages that are near are read together.
    rows = connection.execute(
        """
        SELECT passage.pk, document.id, place, data
        FROM json_each(?) JOIN passage ON passage.pk = value JOIN document ON document.pk = document_pk
        LEFT JOIN embedding ON passage_pk = passage.pk LEFT JOIN vector ON vector.pk = vector_pk
        """,
        (str(sorted(passages)),),
    ).fetchall()
    cosines = _cosines([row[-1] for row in rows], vector)
    return [
        Candidate(pk, document, place, cosine, bm25.get(pk, 0.0))
        for (pk, document, place, _), cosine in zip(rows, cosines, strict=True)
    ]


def _hits(connection: Connection, best: Sequence[Ranked]) -> list[Hit]:
    rows = connection.execute(
        "SELECT passage.pk, title, text, label FROM json_each(?) "
        "JOIN passage ON passage.pk = value JOIN document ON document.pk = document_pk",
        (str([each.pk for each in best]),),
    )
    texts = {pk: (title, Passage(text, label)) for pk, title, text, label in rows}
    return [Hit(each.id, texts[each.pk][0], each.score, texts[each.pk][1], each.place) for each in best]


def _cosines(data: Sequence[bytes | None], vector: "Matrix | None") -> Sequence[float | None]:
    """Exactly, of those that there is a vector of."""
    known = [each for each in data if each is not None]
    if vector is None or not known:
        return [None] * len(data)
    from carrel.search.local.vectors import unpack

    found = iter((unpack(known, len(vector)) @ vector).tolist())
    return [None if each is None else next(found) for each in data]
