"""The schema's revisions, and the opening of databases: a schema that this program does not know is refused."""

import logging

from carrel.errors import SchemaMismatch, StoreUnavailable
from carrel.storage.database import Database, Location, Session, SqliteLocation
from carrel.storage.sqlite import (
    SCHEMA_FILE,
    STATEMENT_SEPARATOR,
    Connection,
    connect,
    create_folder,
    transaction,
    translate_errors,
)
from carrel.storage.sqlite_database import SqliteDatabase

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
HEAD = REVISIONS[-1]
OLDEST_SERVED = "0010"
"""The oldest revision whose servers this schema serves: 0009 and 0010 drop tables that older ones read. Move it up with
each release to the revision of the release before, and further where a migration takes something away."""

POSTGRES_REVISION = "SELECT version_num, obj_description('alembic_version'::regclass, 'pg_class') FROM alembic_version"
"""Selects the revision and the compatibility mark."""


def mark(revision: str) -> str:
    """Return the compatibility mark that an upgrade writes for servers of older releases."""
    return f"revision {revision} serves {OLDEST_SERVED} and newer"


def mismatch(revision: str | None, mark: str | None = None) -> str | None:
    """Return why this program cannot serve a database at `revision`, and the cure; None if it can."""
    if revision == HEAD or (is_newer(revision) and _serves(revision, mark)):
        return None
    if revision is None:
        return "the database has no Carrel tables yet: run carrel db upgrade"
    if revision in REVISIONS:
        return f"the database is at revision {revision}, this Carrel needs {HEAD}: run carrel db upgrade"
    return (
        f"the database is at revision {revision}, which this Carrel does not know: a newer one made it; "
        "run pip install -U carrel"
    )


def is_newer(revision: str | None) -> bool:
    return revision is not None and revision not in REVISIONS


def _serves(revision: str | None, mark: str | None) -> bool:
    """Whether a newer release has marked its schema as compatible with this program."""
    match (mark or "").split():
        case ["revision", marked, "serves", oldest, *_]:
            return marked == revision and oldest in REVISIONS
        case _:
            return False


log = logging.getLogger("carrel.storage")


async def open_database(location: Location, *, pool_size: int) -> Database:
    """Open a database whose schema this program can serve; a SQLite file is created and upgraded as needed."""
    if isinstance(location, SqliteLocation):
        return SqliteDatabase(location.path, prepare_sqlite(location))
    from carrel.storage.postgres import PostgresDatabase

    database = await PostgresDatabase.open(location.url, pool_size, replica_url=location.replica_url)
    try:
        revision, mark = await database.read(_postgres_revision)
        _check_revision(revision, mark)
        if revision != HEAD:
            log.warning("%s serves a database that a newer release has upgraded to revision %s", HEAD, revision)
    except BaseException:
        await database.close()
        raise
    return database


def prepare_sqlite(location: SqliteLocation) -> Connection:
    """Connect to a SQLite file, creating or upgrading it to this program's revision."""
    create_folder(location.path)
    connection = connect(location.path)
    try:
        with translate_errors(f"cannot read the database {location.path.name}", StoreUnavailable):
            revision = _sqlite_revision(connection)
        if revision is None:
            with translate_errors(f"cannot create the database {location.path.name}", StoreUnavailable):
                _create_schema(connection)
                revision = _sqlite_revision(connection)
        if revision != HEAD and not is_newer(revision):
            from carrel.storage.admin import upgrade

            revision = upgrade(location)[1]
        _check_revision(revision)
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
    """Create the newest schema in an empty file, in one transaction.

    Running every migration gives the same schema in fifty times the time. A file that holds anything is left alone.
    """
    connection.execute("PRAGMA synchronous = OFF")  # an empty file has nothing to lose
    with transaction(connection):
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            for statement in SCHEMA_FILE.read_text(encoding="utf-8").split(STATEMENT_SEPARATOR):
                connection.execute(statement)
    connection.execute("PRAGMA synchronous = NORMAL")


async def _postgres_revision(session: Session) -> tuple[str | None, str | None]:
    """Return the revision and the compatibility mark."""
    found = await session.first("SELECT to_regclass('alembic_version') IS NOT NULL", {})
    if found is None or not found[0]:
        return None, None
    revision, mark = await session.first(POSTGRES_REVISION, {}) or (None, None)
    return revision, mark


def _check_revision(revision: str | None, mark: str | None = None) -> None:
    if (problem := mismatch(revision, mark)) is not None:
        raise SchemaMismatch(problem)
