"""What only an index in PostgreSQL has: an extension that may be missing, HNSW, and BM25 of its own."""

import inspect
import json
import logging
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psycopg
import pytest
from psycopg import sql

from carrel.errors import StoreUnavailable
from carrel.search.documents import Document, Passage, Progress
from carrel.search.index_store import Query, Store
from carrel.search.local.local_store import LocalStore
from carrel.search.postgres import retrieval
from carrel.search.postgres.index_schema import scope_condition
from carrel.search.postgres.postgres_store import PostgresStore
from carrel.search.ranking import MEANING
from tests.postgres import recreate_database
from tests.search_stores import (
    BOOK,
    DIMENSIONS,
    LEAST,
    MODEL,
    OTHERS,
    ask,
    ask_meaning,
    embed_all,
    ids,
    new_schema,
    note,
    others,
    unit,
    vector_of,
    word,
)

Floats = npt.NDArray[np.float32]


@pytest.fixture
def schema(postgres_url: str, worker_id: str) -> Iterator[str]:
    for place in new_schema(postgres_url, worker_id):
        yield place.partition("#")[2]


@pytest.fixture
def store(postgres_url: str, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, schema=schema)
    yield store
    store.close()


def administrator(url: str, *statements: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements[:-1]:
            connection.execute(statement.encode())
        cursor = connection.execute(statements[-1].encode())
        return cursor.fetchall() if cursor.description else []


# --- without pgvector


def check_words_alone(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [*others(), note("a", "marmalade")])
    assert store.pending(10) == []
    with store.work_lock() as has_lock:
        assert has_lock
    store.embed(MODEL, [b"x" * 16], vector_of("marmalade")[None])
    assert store.progress() == {BOOK: Progress(OTHERS + 1, OTHERS + 1, 0)}
    found = store.search(BOOK, Query("marmalade", MODEL, vector_of("marmalade")), filters={}, limit=10)
    assert found.hits == ask(store, "marmalade")
    assert ids(found.hits) == ["a"]


def check_meaning_too(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    assert len(embed_all(store)) == OTHERS + 1
    assert ids(ask_meaning(store, vector_of("marmalade"))) == ["a"]


def test_where_the_extension_is_not_installed_words_serve(
    postgres_url: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "carrel.search")
    without = PostgresStore(postgres_url, schema=schema, extension="carrel_no_such")
    (record,) = caplog.records
    assert "CREATE EXTENSION carrel_no_such" in record.getMessage()
    check_words_alone(without)
    store = PostgresStore(postgres_url, schema=schema)  # as after it was installed
    check_meaning_too(store)
    query = Query("marmalade", MODEL, vector_of("marmalade"))
    assert without.search(BOOK, query, filters={}, limit=10).hits == ask(store, "marmalade")
    for each in (without, store):
        each.close()
    assert len(caplog.records) == 1


def test_where_the_extension_is_not_permitted_words_serve(
    postgres_server_url: str, worker_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = recreate_database(postgres_server_url, f"search_{worker_id}")
    role = f"search_{worker_id}"
    administrator(
        url, f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN", f"CREATE SCHEMA s AUTHORIZATION {role}"
    )
    store = PostgresStore(url.replace("postgres@", f"{role}@"), schema="s")
    assert ["CREATE EXTENSION vector" in record.getMessage() for record in caplog.records] == [True]
    check_words_alone(store)
    store.close()
    # Not in the schema where it is by default, but where some providers put it.
    administrator(
        url,
        "CREATE SCHEMA extensions",
        f"GRANT USAGE ON SCHEMA extensions TO {role}",
        "CREATE EXTENSION vector SCHEMA extensions",
    )
    store = PostgresStore(url.replace("postgres@", f"{role}@"), schema="s")
    check_meaning_too(store)
    store.close()
    administrator(url, "DROP SCHEMA s CASCADE", f"DROP OWNED BY {role}", f"DROP ROLE {role}")


# --- HNSW

ROWS = 3000


@pytest.fixture(scope="module")
def clustered(postgres_url: str, worker_id: str) -> Iterator[tuple[str, Floats]]:
    """A schema with documents of a vector each, in clusters."""
    chance = np.random.default_rng(2)
    centres = chance.normal(size=(60, 48))
    cluster = chance.integers(0, 60, ROWS)
    matrix = unit(centres[cluster] + 0.7 * chance.normal(size=(ROWS, 48)))
    documents = [note(f"{row}", f"row {row}", filters={"part": str(row % 100)}) for row in range(ROWS)]
    for place in new_schema(postgres_url, worker_id):
        schema = place.partition("#")[2]
        store = PostgresStore(postgres_url, schema=schema)
        store.use_model(MODEL, 48)
        store.put(BOOK, documents)
        while batch := store.pending(1000):
            store.embed(MODEL, [each.hash for each in batch], matrix[[int(each.text.split()[1]) for each in batch]])
        store.close()
        yield schema, matrix


@pytest.fixture
def asked_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few they are."""
    monkeypatch.setattr(retrieval, "MAX_ALWAYS_EXACT_PASSAGES", 0)
    monkeypatch.setattr(retrieval, "MAX_EXACT_PASSAGES", 0)


def recall(
    store: Store, matrix: Floats, fitting: npt.NDArray[np.intp], filters: dict[str, list[str]], queries: Floats
) -> float:
    """How many of the ten nearest above the floor are found."""
    found = total = 0
    for query in queries:
        cosines = matrix[fitting] @ query
        best = [int(fitting[row]) for row in np.argsort(-cosines)[:10] if MEANING * cosines[row] > LEAST + 0.001]
        found += len({str(row) for row in best} & set(ids(ask_meaning(store, query, filters=filters))))
        total += len(best)
    assert total > 50
    return found / total


@pytest.mark.usefixtures("asked_by_index")
@pytest.mark.parametrize("part", [100, 50, 10, 1])
def test_the_index_finds_what_an_exhaustive_search_finds(
    postgres_url: str, clustered: tuple[str, Floats], part: int
) -> None:
    schema, matrix = clustered
    store = PostgresStore(postgres_url, schema=schema)
    filters = {"part": [str(number) for number in range(part)]} if part < 100 else {}
    fitting = np.flatnonzero(np.arange(ROWS) % 100 < part)
    assert recall(store, matrix, fitting, filters, matrix[:: ROWS // 60]) >= 0.98
    store.close()


@pytest.mark.usefixtures("asked_by_index")
def test_where_the_index_gives_up_early_all_that_fit_are_looked_at(
    postgres_url: str, clustered: tuple[str, Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of what is near to these queries does not fit, and pgvector looks at too little to come to the rest."""
    schema, matrix = clustered
    monkeypatch.setattr(retrieval, "EF_SEARCH", (40, 40))
    store = PostgresStore(f"{postgres_url}?options=-c%20hnsw.max_scan_tuples%3D1", schema=schema)
    rare = np.array([row for row in range(ROWS) if row % 10 == 3], np.intp)
    filters = {"part": [str(number) for number in range(3, 100, 10)]}
    queries = unit(matrix[rare[:60]] + matrix[rare[:60] + 1])
    assert recall(store, matrix, rare, filters, queries) == 1
    store.close()


@pytest.mark.usefixtures("asked_by_index")
def test_what_is_asked_for_goes_along_the_index(postgres_url: str, clustered: tuple[str, Floats]) -> None:
    """Also where nobody has analysed the tables, and until enough that fit were come to."""
    schema, matrix = clustered
    with psycopg.connect(postgres_url) as connection:
        connection.execute(sql.SQL("SET LOCAL search_path = {}, public").format(sql.Identifier(schema)))
        connection.execute(retrieval.INDEX_SCAN_SETTINGS.format(ef=40))
        statement = retrieval.INDEX_SCAN.format(
            query=retrieval.literal(matrix[0]),
            within=scope_condition(1, {"part": ["1", "2", "3", "4", "5"]}),
            most=100,
        )
        plan = str(connection.execute(sql.SQL("EXPLAIN ") + statement).fetchall())
        assert len(connection.execute(statement).fetchall()) == 100
    assert "embedding_by_data" in plan
    assert "Sort" not in plan


def test_more_dimensions_than_an_index_takes_are_looked_through(store: PostgresStore) -> None:
    dimensions = retrieval.MAX_HNSW_DIMENSIONS + 1
    store.use_model(MODEL, dimensions)
    store.put(BOOK, [note("a", "one"), note("b", "two")])
    embed_all(store, dimensions=dimensions)
    assert ids(ask_meaning(store, vector_of("one", dimensions))) == ["a"]
    store.use_model(MODEL, retrieval.MAX_HNSW_DIMENSIONS)
    embed_all(store, dimensions=retrieval.MAX_HNSW_DIMENSIONS)
    assert ids(ask_meaning(store, vector_of("one", retrieval.MAX_HNSW_DIMENSIONS))) == ["a"]


# --- words


def library() -> list[Document]:
    """What some modules say about themselves."""
    documents: list[Document] = []
    for module in (json, logging, textwrap, re, inspect, np.linalg, psycopg, pytest):
        for name, value in vars(module).items():
            if text := inspect.getdoc(value) if callable(value) else None:
                passages = [Passage(part, label=name) for part in text.split("\n\n") if part.strip()]
                documents.append(note(f"{module.__name__}.{name}", *passages, title=name))
    return documents


QUERIES = """
parse a string; format of a record; write to a stream; decode error; the singular values of a matrix; eigenvalues;
wrap long lines of text; compile a pattern; match at the beginning; signature of a function; source code of an object;
set the level of a logger; handler for a file; raise an exception; skip a test; fixture scope; connection to a database;
keyword arguments; return a list of members; transaction isolation; getLogger; LogRecord; basicConfig; least squares
""".replace("\n", " ").split("; ")


def test_words_score_as_they_do_in_files(store: PostgresStore, tmp_path: Path) -> None:
    local = LocalStore(tmp_path / "index")
    documents = library()
    for each in (store, local):
        each.put(BOOK, documents)
    assert store.progress() == local.progress()
    assert store.progress()[BOOK].passages > 500
    same = total = 0
    for query in QUERIES:
        here, there = (
            {hit.id: hit.score for hit in each.search(BOOK, Query(query), filters={}, limit=1000).hits}
            for each in (store, local)
        )
        assert there, query
        best = list(there)[:10]
        same += len(set(best) & set(list(here)[:10]))
        total += len(best)
        for each in here.keys() & there.keys():
            assert here[each] == pytest.approx(there[each], abs=0.015), (query, each)
    assert same >= 0.95 * total
    local.close()


def test_counts_of_words_follow_every_change(store: PostgresStore, postgres_url: str, schema: str) -> None:
    """Those that are kept are those that are there."""
    store.put(BOOK, [note("a", "marmalade toast", "toast toast"), note("b", "toast", title="Eggs")])
    store.put(BOOK, [note("a", "marmalade toast", "kippers", version="2"), note("c", "porridge")])
    store.remove(BOOK, ["c"])
    store.put("other", [note("a", "porridge")])
    counted = administrator(
        postgres_url,
        f"SELECT term, term.passages FROM {schema}.term JOIN {schema}.collection ON collection.pk = collection_pk "
        f"WHERE name = '{BOOK}' ORDER BY term",
    )
    assert counted == [("egg", 1), ("kipper", 1), ("marmalad", 1), ("toast", 2)]
    totals = administrator(postgres_url, f"SELECT name, passages, length FROM {schema}.collection ORDER BY name")
    assert totals == [(BOOK, 3, 2 + 1 + 3), ("other", 1, 1)]


def test_the_rarest_words_alone_are_looked_for_where_they_are_enough(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "RARE_TERM_PASSAGES", 2)
    monkeypatch.setattr(retrieval, "BM25_CANDIDATES", 3)
    text = "toast butter knife crumbs"
    common = [note(f"common-{number}", text, filters={"kind": "plain"}) for number in range(20)]
    rare = [note(f"rare-{number}", "toast and marmalade") for number in range(3)]
    store.put(BOOK, [*others(), *common, *rare])
    assert ids(ask(store, f"marmalade {text}")) == ["rare-0", "rare-1", "rare-2"]
    plain = store.search(BOOK, Query(f"marmalade {text}"), filters={"kind": ["plain"]}, limit=10)
    assert len(plain.hits) == 3  # none of them has the rare word, so the common ones are looked for too


def test_a_passage_has_no_more_words_than_fit(
    store: PostgresStore, postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = retrieval.tsvector(retrieval.fitting_terms({word(number): number for number in range(1, 100_000)}))
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT length(%s::tsvector) > 40000", (most,)).fetchone() == (True,)
    monkeypatch.setattr(retrieval, "MAX_TSVECTOR_BYTES", 100)
    store.put(BOOK, [*others(), note("a", " ".join(map(word, range(100))))])
    assert ids(ask(store, word(1))) == ["a"]
    assert ask(store, word(99)) == []
    store.remove(BOOK, ["a", *(each.id for each in others())])
    assert administrator(postgres_url, f"SELECT * FROM {schema}.term") == []


# --- the database


def test_stores_of_two_versions_do_not_disturb_each_other(
    postgres_url: str, worker_id: str, store: PostgresStore
) -> None:
    for place in new_schema(postgres_url, worker_id):
        other = PostgresStore(postgres_url, schema=place.partition("#")[2])
        other.put(BOOK, [note("a", "one", version="9")])
        store.put(BOOK, [note("b", "two")])
        other.use_model("tests/other", 8)
        store.use_model(MODEL, DIMENSIONS)
        with store.work_lock() as first, other.work_lock() as second:
            assert (first, second) == (True, True)
        store.clear()
        assert other.versions(BOOK) == {"a": "9"}
        other.close()


def test_nothing_stays_on_a_connection(store: PostgresStore, postgres_url: str) -> None:
    """So a pgbouncer may hand it to another after each transaction."""
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one")])
    embed_all(store)
    ask_meaning(store, vector_of("one"))
    with store.work_lock():
        pass
    with store._connections._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        changed = connection.execute("SELECT name FROM pg_settings WHERE source = 'session'").fetchall()
        assert [name for (name,) in changed if name not in ("application_name", "client_encoding")] == []
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    locks = (
        "SELECT objid FROM pg_locks JOIN pg_database ON pg_database.oid = database "
        "WHERE locktype = 'advisory' AND datname = current_database()"
    )
    assert administrator(postgres_url, locks) == []


def test_lost_connections_are_replaced(store: PostgresStore, postgres_url: str) -> None:
    store.put(BOOK, [note("a", "one")])
    administrator(
        postgres_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    assert store.versions(BOOK) == {"a": "1"}


def test_a_database_that_cannot_be_reached_is_unavailable(store: PostgresStore) -> None:
    with pytest.raises(StoreUnavailable):
        PostgresStore("postgresql://postgres@127.0.0.1:1/none")
    store.close()
    with pytest.raises(StoreUnavailable):
        store.versions(BOOK)


def test_what_was_embedded_while_it_was_put_in_is_not_embedded_again(
    store: PostgresStore, postgres_url: str, schema: str
) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one", newness=2), note("b", "two", newness=1)])
    (first,) = store.pending(1)
    store.embed(MODEL, [first.hash], vector_of("one")[None])
    # As if this one's transaction had not seen the vector.
    administrator(postgres_url, f"INSERT INTO {schema}.pending SELECT min(pk), 2 FROM {schema}.passage")
    assert [each.text for each in store.pending(1)] == ["two"]
    assert [each.text for each in store.pending(10)] == ["two"]
