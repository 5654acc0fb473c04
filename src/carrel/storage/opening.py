"""Opening a store for serving: nothing is served over a schema that this program does not know."""

import logging

from carrel.errors import SchemaMismatch, StoreUnavailable
from carrel.storage.database import Database, Session
from carrel.storage.location import Location, SqliteLocation
from carrel.storage.revisions import HEAD, POSTGRES_REVISION, is_newer, mismatch
from carrel.storage.sqlite import (
    BETWEEN_STATEMENTS,
    SCHEMA,
    Connection,
    connect,
    errors,
    make_folder,
    transaction,
)
from carrel.storage.sqlite_database import SqliteDatabase

log = logging.getLogger("carrel.storage")


async def open_database(location: Location, *, pool_size: int) -> Database:
    """The database, its schema at this program's revision. A SQLite file is made and upgraded on the way."""
    if isinstance(location, SqliteLocation):
        return SqliteDatabase(location.path, prepare_sqlite(location))
    from carrel.storage.postgres import PostgresDatabase

    database = await PostgresDatabase.open(location.url, pool_size, replica_url=location.replica_url)
    try:
        revision, mark = await database.read(_postgres_revision)
        _must_be_current(revision, mark)
        if revision != HEAD:
            log.warning("%s serves a database that a newer release has upgraded to revision %s", HEAD, revision)
    except BaseException:
        await database.close()
        raise
    return database


def prepare_sqlite(location: SqliteLocation) -> Connection:
    """A connection to the file, which is created where there is none; its schema is at this program's revision."""
    make_folder(location.path)
    connection = connect(location.path)
    try:
        with errors(f"cannot read the database {location.path.name}", StoreUnavailable):
            revision = _sqlite_revision(connection)
        if revision is None:
            with errors(f"cannot create the database {location.path.name}", StoreUnavailable):
                _create_schema(connection)
                revision = _sqlite_revision(connection)
        if revision != HEAD and not is_newer(revision):
            from carrel.storage.admin import upgrade

            revision = upgrade(location)[1]
        _must_be_current(revision)
    except BaseException:
        connection.close()
        raise
    return connection


def _sqlite_revision(connection: Connection) -> str | None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return row[0] if row else None


def _create_schema(connection: Connection) -> None:
    """Give an empty file the newest schema, in one transaction.

    Alembic would come to the same through every revision, in fifty times the time. A file that holds anything is left
    to it.
    """
    connection.execute("PRAGMA synchronous = OFF")  # as long as there is nothing to lose
    with transaction(connection):
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            for statement in SCHEMA.read_text(encoding="utf-8").split(BETWEEN_STATEMENTS):
                connection.execute(statement)
    connection.execute("PRAGMA synchronous = NORMAL")


async def _postgres_revision(session: Session) -> tuple[str | None, str | None]:
    """The revision, and which it serves."""
    found = await session.first("SELECT to_regclass('alembic_version') IS NOT NULL", {})
    if found is None or not found[0]:
        return None, None
    revision, mark = await session.first(POSTGRES_REVISION, {}) or (None, None)
    return revision, mark


def _must_be_current(revision: str | None, mark: str | None = None) -> None:
    if (problem := mismatch(revision, mark)) is not None:
        raise SchemaMismatch(problem)
