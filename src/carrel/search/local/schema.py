"""The file that an index is kept in. All of it can be made again from its sources, so it is never migrated."""

import sqlite3
from pathlib import Path

VERSION = 1
BUSY_SECONDS = 30.0
CACHE_KIB = 16 * 1024
"""Of pages, for each connection: a query reads a hundred passages and their vectors from all over the file."""

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


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def prepare(connection: sqlite3.Connection) -> bool:
    """Make the tables where there are none; False where there are those of another version of Carrel."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
    finally:
        connection.execute("COMMIT")
    return version in (0, VERSION)
