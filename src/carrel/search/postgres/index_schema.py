"""The schema of an index in PostgreSQL, and how a document's collection and filters are stored."""

import json
import logging
from collections.abc import Mapping
from hashlib import blake2b

import psycopg
from psycopg import sql

from carrel.search.index_store import Filters
from carrel.search.postgres.connections import Connection, lock_number

SCHEMA = "carrel_search_1"
EXTENSION = "vector"
MIN_PGVECTOR_VERSION = (0, 8)
"""Of pgvector: the first that goes on looking where filters leave too little."""

_UNAVAILABLE_ERRORS = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.UndefinedFile,
)

log = logging.getLogger("carrel.search")

_TABLES = """
CREATE TABLE collection ( -- its row is what writers lock
    pk integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    passages bigint NOT NULL DEFAULT 0,
    length bigint NOT NULL DEFAULT 0 -- of all of them, in terms
);
CREATE TABLE term (
    collection_pk integer NOT NULL REFERENCES collection ON DELETE CASCADE,
    term text COLLATE "C" NOT NULL,
    passages bigint NOT NULL, -- that have it
    PRIMARY KEY (collection_pk, term)
) WITH (fillfactor = 80);
CREATE TABLE document (
    pk bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection_pk integer NOT NULL REFERENCES collection ON DELETE CASCADE,
    id text NOT NULL,
    title text NOT NULL,
    version text NOT NULL,
    newness bigint NOT NULL,
    scope bigint[] NOT NULL, -- the collection and the filters, see scope.py
    -- Hashes of the id, and of both as they are compared: what is longer than 2 KB cannot be in an index.
    id_key bytea NOT NULL,
    id_fold bytea NOT NULL,
    title_fold bytea NOT NULL,
    UNIQUE (collection_pk, id_key)
);
CREATE INDEX document_by_id_fold ON document (collection_pk, id_fold);
CREATE INDEX document_by_title_fold ON document (collection_pk, title_fold);
CREATE TABLE passage (
    pk bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_pk bigint NOT NULL REFERENCES document ON DELETE CASCADE,
    place integer NOT NULL,
    label text NOT NULL,
    text text NOT NULL,
    hash bytea NOT NULL, -- of what is embedded
    length integer NOT NULL, -- in terms
    words tsvector NOT NULL, -- see words.py
    scope bigint[] NOT NULL -- of its document
);
CREATE INDEX passage_by_document ON passage (document_pk, place);
CREATE INDEX passage_by_hash ON passage (hash);
CREATE INDEX passage_by_words ON passage USING gin (words, scope) WITH (fastupdate = off);
CREATE TABLE pending ( -- passages without a vector
    passage_pk bigint PRIMARY KEY REFERENCES passage ON DELETE CASCADE,
    newness bigint NOT NULL
);
CREATE INDEX pending_in_order ON pending (newness, passage_pk);
CREATE TABLE embedding (hash bytea PRIMARY KEY); -- made anew for each model, with vectors, see meaning.py
CREATE TABLE state (model text NOT NULL, dimensions integer NOT NULL); -- that all vectors have
INSERT INTO state VALUES ('', 0);
"""


def prepare(connection: Connection, schema: str, extension: str) -> str | None:
    """Make what is missing. Where pgvector is: None if it is not to be had."""
    with connection.transaction():
        # One process at a time, however many start at once.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(f"{schema} making"),))
        _make_tables(connection, schema)
        return _extension(connection, extension)


def _make_tables(connection: Connection, schema: str) -> None:
    if not _exists(connection, b"SELECT FROM pg_namespace WHERE nspname = %s", schema):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    if not _exists(connection, b"SELECT FROM pg_tables WHERE tablename = 'state' AND schemaname = %s", schema):
        connection.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
        connection.execute(_TABLES)
        connection.execute("SET LOCAL search_path = DEFAULT")


def _exists(connection: Connection, query: bytes, name: str) -> bool:
    return connection.execute(query, (name,)).fetchone() is not None


def _extension(connection: Connection, name: str) -> str | None:
    """The schema it is in."""
    try:
        with connection.transaction():
            if not _exists(connection, b"SELECT FROM pg_extension WHERE extname = %s", name):
                connection.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)))
    except _UNAVAILABLE_ERRORS as error:
        log.warning(
            "search compares words only, because pgvector is not there; an administrator can install it, "
            f"run CREATE EXTENSION {name} in the database, and restart Carrel",
            extra={"fields": {"reason": str(error).partition("\n")[0]}},
        )
        return None
    ((schema, version),) = connection.execute(
        "SELECT nspname, extversion FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
        "WHERE extname = %s",
        (name,),
    ).fetchall()
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR_VERSION:
        log.warning(
            f"search compares words only, because pgvector is of version {version}; an administrator can install "
            f"a newer one, run ALTER EXTENSION {name} UPDATE in the database, and restart Carrel"
        )
        return None
    return schema


def scope_of(collection: int, filters: Mapping[str, str]) -> list[int]:
    return [collection, *sorted(_number(key, value) for key, value in filters.items())]


def scope_condition(collection: int, filters: Filters) -> sql.Composed:
    """The condition that a row's scope fits."""
    conditions = [sql.SQL("scope @> {}::bigint[]").format([collection])]
    for key, values in filters.items():
        conditions.append(sql.SQL("scope && {}::bigint[]").format([_number(key, value) for value in values]))
    return sql.SQL(" AND ").join(conditions)


def _number(key: str, value: str) -> int:
    """Below 0, where no collection's number is."""
    text = json.dumps([key, value])
    return -1 - (int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1)
