"""The index in PostgreSQL, where every process that is connected sees the same."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from psycopg import sql

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
from carrel.search.postgres import retrieval
from carrel.search.postgres.connections import Connection, Connections, WorkLocks, translated_errors
from carrel.search.postgres.document_writer import DocumentWriter
from carrel.search.postgres.index_schema import EXTENSION, SCHEMA, prepare, scope_condition
from carrel.search.ranking import Candidate, Ranked, rank, weigh
from carrel.storage.notifications import CHANNEL, SEARCH_CHANGE, payload
from carrel.storage.postgres import connect

if TYPE_CHECKING:
    from carrel.search.providers.provider import Matrix

EMBEDDING_WORK = "turn"
"""The work that one process at a time does."""
BM25_RANKED_PASSAGES = 50
"""Passages that are looked at, of those with the best words."""

_EXACT_MATCHES = sql.SQL("""
SELECT passage.pk, id FROM passage JOIN (
    SELECT pk, id FROM document WHERE collection_pk = {collection} AND (title_fold = {fold} OR id_fold = {fold})
) AS document ON document_pk = document.pk AND place = 0 WHERE {within}
""")
_NEWEST_PENDING = """
SELECT passage.pk, hash, embedding.hash IS NOT NULL, title, label, text FROM (
    SELECT newness AS turn, passage_pk FROM pending ORDER BY newness DESC, passage_pk DESC LIMIT %s
) AS newest JOIN passage ON passage.pk = passage_pk JOIN document ON document.pk = document_pk
LEFT JOIN embedding USING (hash) ORDER BY turn DESC, passage.pk DESC
"""
_DELETE_PENDING = """
DELETE FROM pending WHERE passage_pk IN (
    SELECT passage_pk FROM pending JOIN passage ON passage.pk = passage_pk WHERE hash = ANY(%s)
    ORDER BY passage_pk FOR UPDATE OF pending SKIP LOCKED
)
"""
_NOTIFY_ALL_EMBEDDED = "SELECT pg_notify(%s, %s) WHERE NOT EXISTS (SELECT FROM pending)"


class PostgresStore:
    """Connects at once, and raises `StoreUnavailable` where that cannot be."""

    def __init__(self, url: str, *, direct_url: str = "", schema: str = SCHEMA, extension: str = EXTENSION) -> None:
        """`direct_url` leads past a pooler, where `url` leads through one."""
        self._schema = schema
        self._work_locks = WorkLocks(direct_url or url)
        connection = connect(url)
        try:
            with translated_errors(connection):
                vectors = prepare(connection, schema, extension)
        finally:
            connection.close()
        self._has_vectors = vectors is not None
        self._connections = Connections(url, [schema, vectors] if vectors else [schema], f"{schema} all")

    # --- filling it

    def put(self, collection: str, documents: Sequence[Document]) -> int:
        documents = [storable_document(document) for document in documents]
        with self._connections.transaction() as connection:
            changed = DocumentWriter(connection, collection).put(documents)
            if changed:
                connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload(SEARCH_CHANGE, collection)))
            return changed

    def remove(self, collection: str, ids: Sequence[str]) -> None:
        with self._connections.transaction() as connection:
            DocumentWriter(connection, collection).remove([storable(each) for each in ids])

    def clear(self) -> None:
        with self._connections.transaction(exclusive=True) as connection:
            connection.execute("TRUNCATE collection, term, document, passage, pending, embedding")

    def tidy(self) -> None:
        if not self._has_vectors:
            return
        with self._connections.transaction(exclusive=True) as connection:
            connection.execute(
                "DELETE FROM embedding WHERE NOT EXISTS (SELECT FROM passage WHERE passage.hash = embedding.hash)"
            )

    # --- its meaning

    def use_model(self, name: str, dimensions: int) -> None:
        """Where there is no pgvector, nothing is ever pending, and nothing kept."""
        if not self._has_vectors:
            return
        with self._connections.transaction(exclusive=True) as connection:
            if _model(connection) != (name, dimensions):
                retrieval.make_table(connection, dimensions)
                connection.execute("TRUNCATE pending")
                connection.execute(
                    "INSERT INTO pending "
                    "SELECT passage.pk, newness FROM passage JOIN document ON document.pk = document_pk"
                )
                connection.execute("UPDATE state SET model = %s, dimensions = %s", (name, dimensions))

    @contextmanager
    def work_lock(self, work: str = EMBEDDING_WORK) -> Generator[bool]:
        with self._work_locks.acquire(f"{self._schema} {work}") as has_lock:
            yield has_lock

    def pending(self, most: int) -> list[Pending]:
        if not self._has_vectors:
            return []
        self._work_locks.check(f"{self._schema} {EMBEDDING_WORK}")
        with self._connections.transaction() as connection:
            rows = connection.execute(_NEWEST_PENDING, (most,)).fetchall()
            # Put in just while an equal one was embedded.
            while done := [pk for pk, _, is_embedded, *_ in rows if is_embedded]:
                connection.execute("DELETE FROM pending WHERE passage_pk = ANY(%s)", (done,))
                rows = connection.execute(_NEWEST_PENDING, (most,)).fetchall()
        return list(
            {
                hashed: Pending(hashed, embedded_text(title, Passage(text, label)))
                for _, hashed, _, title, label, text in rows
            }.values()
        )

    def embed(self, model: str, hashes: Sequence[bytes], matrix: "Matrix") -> None:
        if not self._has_vectors:
            return
        vectors = dict(zip(hashes, map(retrieval.literal, matrix), strict=True))
        with self._connections.transaction() as connection:
            if _model(connection) != (model, matrix.shape[1]):
                raise ModelChanged
            # In order, so that two processes with the same ones do not wait for each other.
            connection.execute(
                "INSERT INTO embedding SELECT * FROM unnest(%s::bytea[], %s::text[]::halfvec[]) ON CONFLICT DO NOTHING",
                (sorted(vectors), [vectors[each] for each in sorted(vectors)]),
            )
            # What is locked is just being removed.
            connection.execute(_DELETE_PENDING, (list(vectors),))
            connection.execute(_NOTIFY_ALL_EMBEDDED, (CHANNEL, payload(SEARCH_CHANGE, "")))

    # --- asking it

    def search(self, collection: str, query: Query, *, filters: Filters, limit: int) -> SearchResults:
        text, filters = storable(query.text), storable_filters(filters)
        with self._connections.transaction() as connection:
            asked = _collection(connection, collection)
            if asked is None:
                return SearchResults([], 0)
            fitting = scope_condition(asked.pk, filters)
            terms = bounded_query_terms(text)
            frequencies = retrieval.frequencies(connection, asked, terms)
            by_words = retrieval.best(connection, asked, frequencies, fitting)
            titles = _exact_matches(connection, asked, text, fitting)
            others = set(titles)
            vector = query.vector
            if vector is not None and not (self._has_vectors and _model(connection) == (query.model, len(vector))):
                vector = None
            if vector is not None:
                others |= set(retrieval.nearest(connection, asked, filters, fitting, vector))
            rows = _passages(connection, {*by_words, *others}, list(frequencies), vector)
        bm25 = {pk: retrieval.bm25(asked, frequencies, length, often) for pk, length, often, *_ in rows}
        others.update(nlargest(BM25_RANKED_PASSAGES, by_words, key=lambda pk: bm25.get(pk, 0.0)))
        weights = weigh([frequencies.get(term, 0) for term in terms], asked.passages)
        best, total = rank(_candidates(rows, others, bm25), set(titles.values()), limit, weights)
        return SearchResults(_hits(rows, best), total)

    def versions(self, collection: str) -> dict[str, str]:
        with self._connections.transaction() as connection:
            rows = connection.execute(
                "SELECT id, version FROM document JOIN collection ON collection.pk = collection_pk WHERE name = %s",
                (collection,),
            )
            return dict(rows.fetchall())

    def progress(self) -> dict[str, Progress]:
        with self._connections.transaction() as connection:
            rows = connection.execute(
                """
                SELECT name, count(DISTINCT document.pk), count(passage.pk), count(embedding.hash)
                FROM document JOIN collection ON collection.pk = collection_pk
                LEFT JOIN passage ON document_pk = document.pk LEFT JOIN embedding USING (hash)
                GROUP BY name ORDER BY name
                """
            ).fetchall()
        return {name: Progress(*counts) for name, *counts in rows}

    def close(self) -> None:
        self._connections.close()


def _collection(connection: Connection, name: str) -> retrieval.Collection | None:
    row = connection.execute("SELECT pk, passages, length FROM collection WHERE name = %s", (name,)).fetchone()
    return retrieval.Collection(*row) if row else None


def _model(connection: Connection) -> tuple[str, int]:
    ((name, dimensions),) = connection.execute("SELECT model, dimensions FROM state").fetchall()
    return name, dimensions


def _exact_matches(
    connection: Connection, collection: retrieval.Collection, query: str, fitting: sql.Composed
) -> dict[int, str]:
    """The documents whose title or id the query is, by their first passages."""
    title = normalized_title(query)
    if not title:
        return {}
    statement = _EXACT_MATCHES.format(collection=collection.pk, fold=digest(title), within=fitting)
    return dict(connection.execute(statement).fetchall())


def _passages(
    connection: Connection, pks: Iterable[int], terms: list[str], vector: "Matrix | None"
) -> list[tuple[Any, ...]]:
    """What there is to know of each passage, its exact cosine with it."""
    cosine = sql.SQL("NULL")
    if vector is not None:
        cosine = sql.SQL(
            "(SELECT -(data::vector <#> {}::vector) FROM embedding WHERE embedding.hash = passage.hash)"
        ).format(retrieval.literal(vector))
    statement = sql.SQL(
        """
        SELECT passage.pk, length,
        (SELECT coalesce(json_object_agg(lexeme, positions[1]), '{{}}') FROM unnest(words) WHERE lexeme = ANY({terms})),
        {cosine}, id, title, label, text, place
        FROM passage JOIN document ON document.pk = document_pk WHERE passage.pk = ANY({pks})
        """
    ).format(terms=terms, cosine=cosine, pks=list(pks))
    return connection.execute(statement).fetchall()


def _candidates(rows: Iterable[tuple[Any, ...]], pks: set[int], bm25: Mapping[int, float]) -> Iterable[Candidate]:
    for pk, _, _, cosine, document, _, _, _, place in rows:
        if pk in pks:
            yield Candidate(pk, document, place, cosine, bm25[pk])


def _hits(rows: Iterable[tuple[Any, ...]], best: Iterable[Ranked]) -> list[Hit]:
    texts = {pk: (title, Passage(text, label)) for pk, _, _, _, _, title, label, text, _ in rows}
    return [Hit(each.id, texts[each.pk][0], each.score, texts[each.pk][1], each.place) for each in best]
