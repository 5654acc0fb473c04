"""Opening a store for serving: nothing is served over a schema that this program does not know."""

import sqlite3

from carrel.errors import SchemaMismatch, StoreError
from carrel.storage.database import Database, Session
from carrel.storage.location import Location, SqliteLocation
from carrel.storage.revisions import HEAD, REVISIONS
from carrel.storage.sqlite import SqliteDatabase, connect


async def open_database(location: Location, *, pool_size: int) -> Database:
    """The database, its schema at this program's revision. A SQLite file is made and upgraded on the way."""
    if isinstance(location, SqliteLocation):
        return _open_sqlite(location)
    from carrel.storage.postgres import PostgresDatabase

    database = PostgresDatabase(location.url, pool_size)
    try:
        _must_be_current(await database.read(_postgres_revision))
    except BaseException:
        await database.close()
        raise
    return database


def _open_sqlite(location: SqliteLocation) -> SqliteDatabase:
    try:
        location.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder for {location.path.name}: {error.strerror}") from error
    revision = _sqlite_revision(location)
    if revision is None or (revision in REVISIONS and revision != HEAD):
        from carrel.storage.admin import upgrade

        upgrade(location)
        revision = HEAD
    _must_be_current(revision)
    return SqliteDatabase(location.path)


def _sqlite_revision(location: SqliteLocation) -> str | None:
    connection = connect(location.path)
    try:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"{location.path.name} cannot be read as a database: {error}") from error
    finally:
        connection.close()
    return row[0] if row else None


async def _postgres_revision(session: Session) -> str | None:
    found = await session.first("SELECT to_regclass('alembic_version') IS NOT NULL", {})
    if found is None or not found[0]:
        return None
    row = await session.first("SELECT version_num FROM alembic_version", {})
    return row[0] if row else None


def _must_be_current(revision: str | None) -> None:
    if revision == HEAD:
        return
    if revision is None:
        raise SchemaMismatch("the database has no Carrel tables yet: run carrel db upgrade")
    if revision in REVISIONS:
        raise SchemaMismatch(
            f"the database is at revision {revision}, this Carrel needs {HEAD}: run carrel db upgrade"
        )
    raise SchemaMismatch(
        f"the database is at revision {revision}, which a newer Carrel made: upgrade this one, pip install -U carrel"
    )
