"""Administration of a store through SQLAlchemy and Alembic, which a server at work does not load."""

import logging
import shutil
import time
import warnings
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex

from carrel.errors import SchemaMismatch, StoreError, StoreUnavailable
from carrel.storage.database import Location, SqliteLocation
from carrel.storage.schema import FORMER_TABLES, is_for_trigrams, is_on, metadata
from carrel.storage.schema_version import HEAD, is_newer, mark, mismatch
from carrel.storage.sqlite import Connection, connect, copy_file, create_folder, trust_triggers

INDEX_LOCK_KEY = 0x_CA_11_E3  # PostgreSQL advisory lock: one process at a time
INDEX_LOCK_POLL_SECONDS = 0.2

_VALID_INDEXES = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = current_schema()::regnamespace AND indisvalid
"""


def create_missing(engine: sa.Engine) -> list[str]:
    """Create the missing indexes without blocking writers, and return their names."""
    with _index_lock(engine), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        missing = _missing_indexes(connection)
        for index in missing:
            _create_index(connection, index)
    return [str(index.name) for index in missing]


@contextmanager
def _index_lock(engine: sa.Engine) -> Generator[None]:
    """Hold the lock on creating indexes, for one process at a time.

    `CREATE INDEX CONCURRENTLY` waits for every older snapshot. A process that waited for this lock inside one
    transaction would be such a snapshot, and both would wait for ever. So the lock is polled, each time in a new
    transaction.
    """
    with engine.connect() as connection:
        # No parameters: they would leave a portal open, and with it a snapshot that CREATE INDEX waits for.
        while not connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({INDEX_LOCK_KEY})").scalar_one():
            connection.rollback()
            time.sleep(INDEX_LOCK_POLL_SECONDS)
        yield


def _missing_indexes(connection: sa.Connection) -> list[sa.Index]:
    there = set(connection.execute(sa.text(_VALID_INDEXES)).scalars())
    expected = [index for table in metadata.sorted_tables for index in table.indexes if is_on(index, "postgresql")]
    return [index for index in expected if index.name not in there]


def _create_index(connection: sa.Connection, index: sa.Index) -> None:
    connection.execute(sa.text(f'DROP INDEX CONCURRENTLY IF EXISTS "{index.name}"'))
    statement = str(CreateIndex(index).compile(dialect=connection.dialect))
    connection.exec_driver_sql(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1))


UPGRADE_LOCK_KEY = 0x_CA_11_E1  # PostgreSQL advisory lock: one upgrade or restore at a time
TABLE_LOCK_TIMEOUT_SECONDS = 2.0
"""How long an upgrade waits for a table, since every other query queues behind it; it then backs off and retries."""
UPGRADE_RETRY_SECONDS = 0.5
MAX_UPGRADE_ATTEMPTS = 60
LOCK_NOT_AVAILABLE = "55P03"

log = logging.getLogger("carrel.storage")


class _TableInUse(StoreError):
    pass


def _engine(location: Location) -> sa.Engine:
    if isinstance(location, SqliteLocation):
        path = location.path

        def open_file() -> Connection:
            connection = trust_triggers(connect(path))
            # Batch migrations rebuild tables; with foreign keys on, dropping the old deletes its children.
            connection.execute("PRAGMA foreign_keys = OFF")
            return connection

        return sa.create_engine("sqlite://", creator=open_file, poolclass=sa.NullPool)
    from carrel.storage import postgres

    url = location.direct
    return sa.create_engine("postgresql+psycopg://", creator=lambda: postgres.connect(url), poolclass=sa.NullPool)


@contextmanager
def _driver_errors() -> Generator[None]:
    try:
        yield
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise _TableInUse("a table is in use, and an upgrade that waits for it makes everybody wait") from error
        raise StoreError(f"the database refused: {error.orig}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"the database cannot be used: {error}") from error
    except (OverflowError, UnicodeError) as error:
        raise StoreError(f"the database cannot keep a value: {error}") from error


@contextmanager
def schema_transaction(location: Location) -> Generator[sa.Connection]:
    """Open a transaction that excludes every other change to the schema."""
    if isinstance(location, SqliteLocation):
        create_folder(location.path)
    with _driver_errors(), _engine(location).connect() as connection, connection.begin():
        if isinstance(location, SqliteLocation):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(UPGRADE_LOCK_KEY)))
        yield connection


@contextmanager
def snapshot(location: Location) -> Generator[sa.Connection]:
    """Open a read-only transaction over one consistent view, while servers go on writing."""
    if isinstance(location, SqliteLocation) and not location.path.exists():
        raise StoreUnavailable(f"there is no database {location.path.name}: nothing has been kept here yet")
    with _driver_errors(), _engine(location).connect() as connection:
        if not isinstance(location, SqliteLocation):
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            if isinstance(location, SqliteLocation):
                connection.exec_driver_sql("BEGIN")
            yield connection


def current_revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def supported_revision(connection: sa.Connection) -> str | None:
    """Return the database's revision, None without tables; raise `SchemaMismatch` if a newer Carrel made it."""
    revision = current_revision(connection)
    if is_newer(revision):
        raise SchemaMismatch(mismatch(revision))
    return revision


def migrate(connection: sa.Connection, revision: str) -> None:
    """Upgrade to `revision`. Tables that SQLite rebuilds on the way keep their last ids."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "carrel.storage:migrations")
    config.set_main_option("path_separator", "os")
    ids = last_ids(connection) if current_revision(connection) is not None else {}
    command.upgrade(config, revision)
    advance_last_ids(connection, ids)
    if revision == HEAD and connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS '{mark(HEAD)}'")


def upgrade(location: Location) -> tuple[str | None, str]:
    """Upgrade the schema to this program's revision; return the revisions before and after.

    Servers go on meanwhile. If one of them uses a table that has to change, neither side waits long for the other.
    """
    for tries_left in reversed(range(MAX_UPGRADE_ATTEMPTS)):
        try:
            before = _upgrade(location)
            create_missing_indexes(location)
            return before, HEAD
        except _TableInUse as error:
            if not tries_left:
                raise StoreError(
                    "a table was in use all the time: look for long transactions in pg_stat_activity, and try again"
                ) from error
            log.warning("a table is in use; trying again")
            time.sleep(UPGRADE_RETRY_SECONDS)
    raise AssertionError


def create_missing_indexes(location: Location) -> None:
    """Create missing indexes on PostgreSQL, while servers go on."""
    if not isinstance(location, SqliteLocation):
        with _driver_errors():
            for name in create_missing(_engine(location)):
                log.info("made the index %s", name)


def _upgrade(location: Location) -> str | None:
    with schema_transaction(location) as connection:
        before = supported_revision(connection)
        if not isinstance(location, SqliteLocation):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {TABLE_LOCK_TIMEOUT_SECONDS * 1000:.0f}")
        if before != HEAD:
            if isinstance(location, SqliteLocation) and before is not None:
                copy_beside(location.path, f"before-{HEAD}")
            migrate(connection, HEAD)
        return before


def copy_beside(path: Path, label: str) -> None:
    """Copy a SQLite file consistently to a file beside it, while it is in use."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    if shutil.disk_usage(path.parent).free < path.stat().st_size:
        raise StoreError(f"no room beside {path.name} for a copy of it: free some disk space first")
    copy_file(path, path.with_name(f"{path.name}.{label}-{stamp}"))


_LAST_SQLITE_IDS = """
    SELECT name, coalesce(seq, 0) FROM sqlite_master LEFT JOIN sqlite_sequence USING (name) WHERE type = 'table'
"""
_POSTGRES_SEQUENCES = """
    SELECT relname, pg_get_serial_sequence(attrelid::regclass::text, attname)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE attidentity <> '' AND relname = ANY(:tables) AND pg_table_is_visible(attrelid)
"""


def existing_tables(connection: sa.Connection) -> list[sa.Table]:
    """Reflect Carrel's tables in an order in which they can be filled; other programs' tables are left out."""
    reflected = sa.MetaData()
    reflected.reflect(connection, only=lambda name, _: name in metadata.tables or name in FORMER_TABLES)
    return reflected.sorted_tables


def lasting_tables(found: Iterable[sa.Table]) -> list[sa.Table]:
    """Return the tables that a backup holds: not those whose rows expire anyway."""
    passing = {name for name, table in metadata.tables.items() if table.info.get("is_passing")}
    passing |= {name for name, is_kept in FORMER_TABLES.items() if not is_kept}
    return [table for table in found if table.name not in passing]


def last_ids(connection: sa.Connection) -> dict[str, int]:
    """Return the last id that each table assigned, 0 for none, so that no id is ever assigned twice."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(sa.text(_LAST_SQLITE_IDS))
        return {name: last for name, last in rows if name in metadata.tables}
    return {table: _last_id(connection, sequence) for table, sequence in _sequences(connection).items()}


def _last_id(connection: sa.Connection, sequence: str) -> int:
    query = sa.text(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}")  # noqa: S608 - PostgreSQL's name
    return int(connection.execute(query).scalar_one())


def advance_last_ids(connection: sa.Connection, ids: Mapping[str, int]) -> None:
    """Advance each table's id counter to at least the given id."""
    further = {table: ids[table] for table, last in last_ids(connection).items() if ids.get(table, 0) > last}
    if not further:
        return
    if connection.dialect.name == "sqlite":
        rows = [{"name": name, "seq": last} for name, last in further.items()]
        connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), rows)
        connection.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)"), rows)
    else:
        sequences = _sequences(connection)
        for table, last in further.items():
            connection.execute(sa.select(sa.func.setval(sequences[table], last)))


def _sequences(connection: sa.Connection) -> dict[str, str]:
    """Return the PostgreSQL sequence of each table with generated ids."""
    rows = connection.execute(sa.text(_POSTGRES_SEQUENCES), {"tables": list(metadata.tables)})
    return {row[0]: row[1] for row in rows}


def integrity_problems(location: Location) -> list[str]:
    """Check the schema and the integrity of the database; return a sentence for each problem."""
    with snapshot(location) as connection:
        if (problem := mismatch(current_revision(connection))) is not None:
            return [problem]
        found = [f"the schema differs from revision {HEAD}: {each}" for each in _differences(connection)]
        if isinstance(location, SqliteLocation):
            damage = [
                f"integrity: {row[0]}" for row in connection.exec_driver_sql("PRAGMA integrity_check") if row[0] != "ok"
            ]
            if damage:  # what else would be looked at cannot be read
                return found + damage
            found += [
                f"a row of {row[0]} points at a row of {row[2]} that is not there"
                for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
            ]
        else:
            query = sa.text("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
            found += [f"the index {row[0]} is invalid: REINDEX it" for row in connection.execute(query)]
        return found


def _differences(connection: sa.Connection) -> list[Any]:
    is_sqlite = connection.dialect.name == "sqlite"

    def is_ours(name: str | None, kind: str, _parents: Mapping[str, str | None]) -> bool:
        return kind != "table" or name in metadata.tables

    def is_comparable(part: Any, _name: str | None, kind: str, *_others: object) -> bool:
        return not (kind == "index" and part.name in unread)

    unread = {str(index.name) for _, index in _indexes() if _is_beyond_alembic(index, connection.dialect.name)}
    options = {"include_name": is_ours, "include_object": is_comparable}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "autogenerate skipping metadata-specified expression-based index")
        found = list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))
    return found + (_missing_on_sqlite(connection, unread) if is_sqlite else [])


def _indexes() -> Iterator[tuple[str, sa.Index]]:
    """Every index, with the name of its table."""
    for name, table in metadata.tables.items():
        for index in table.indexes:
            yield name, index


def _is_beyond_alembic(index: sa.Index, dialect: str) -> bool:
    """Whether Alembic cannot compare the index: only the other engine has it, or on SQLite, it sorts downwards."""
    is_plain = all(isinstance(each, sa.Column) for each in index.expressions)
    return not is_on(index, dialect) or (dialect == "sqlite" and not is_plain)


def _missing_on_sqlite(connection: sa.Connection, unread: Collection[str]) -> list[str]:
    there = set(connection.execute(sa.text("SELECT name FROM sqlite_master")).scalars())
    expected = {
        f"{table}_trigrams" if is_for_trigrams(index) else str(index.name)
        for table, index in _indexes()
        if index.name in unread
    }
    return [f"{name} is missing" for name in sorted(expected - there)]
