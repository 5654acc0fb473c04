"""The administrator's side of a store, through SQLAlchemy and Alembic: what a running server never imports."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

from carrel.errors import MissingExtra, StoreError, StoreUnavailable
from carrel.storage.location import Location, SqliteLocation
from carrel.storage.revisions import HEAD
from carrel.storage.schema import metadata
from carrel.storage.sqlite import connect

UPGRADE_LOCK = 0x_CA_11_E1  # PostgreSQL advisory lock: one upgrade or restore at a time


def _engine(location: Location) -> sa.Engine:
    if isinstance(location, SqliteLocation):
        path = location.path

        def open_file() -> sqlite3.Connection:
            connection = connect(path)
            # Batch migrations rebuild tables; with foreign keys on, dropping the old one would delete its children.
            connection.execute("PRAGMA foreign_keys = OFF")
            return connection

        return sa.create_engine("sqlite://", creator=open_file, poolclass=sa.NullPool)
    try:
        return sa.create_engine(
            sa.make_url(location.url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool
        )
    except ImportError as error:
        raise MissingExtra("postgres", "a PostgreSQL database") from error


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sa.exc.OperationalError as error:
        raise StoreUnavailable(f"the database cannot be used: {error.orig}") from error
    except sa.exc.DBAPIError as error:
        raise StoreError(f"the database refused: {error.orig}") from error


@contextmanager
def changing(location: Location) -> Iterator[sa.Connection]:
    """A transaction that no other change to the schema can run beside."""
    with _errors(), _engine(location).connect() as connection:
        if isinstance(location, SqliteLocation):
            with connection.begin():
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        else:
            with connection.begin():
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(UPGRADE_LOCK)))
                yield connection


@contextmanager
def snapshot(location: Location) -> Iterator[sa.Connection]:
    """One consistent view of everything, taken while servers go on writing."""
    with _errors(), _engine(location).connect() as connection:
        if isinstance(location, SqliteLocation):
            with connection.begin():
                connection.exec_driver_sql("BEGIN")
                yield connection
        else:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection


def current_revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def migrate(connection: sa.Connection, revision: str) -> None:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "carrel.storage:migrations")
    config.set_main_option("path_separator", "os")
    command.upgrade(config, revision)


def upgrade(location: Location) -> tuple[str | None, str]:
    """Bring the schema to this program's revision; the revision before and after."""
    with changing(location) as connection:
        before = current_revision(connection)
        if before != HEAD:
            if isinstance(location, SqliteLocation) and before is not None:
                copy_aside(location.path, f"before-{HEAD}")
            migrate(connection, HEAD)
        return before, HEAD


def copy_aside(path: Path, label: str) -> Path:
    """A consistent copy of a SQLite file beside it, made while it is in use."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    copy = path.with_name(f"{path.name}.{label}-{stamp}")
    if shutil.disk_usage(path.parent).free < path.stat().st_size:
        raise StoreError(f"no room beside {path.name} for a copy of it: free some disk space first")
    source, target = sqlite3.connect(path), sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()
    return copy


def faults(location: Location) -> list[str]:
    """What is wrong with the database, each as a sentence; nothing when all is well."""
    with snapshot(location) as connection:
        revision = current_revision(connection)
        if revision != HEAD:
            return [f"the schema is at revision {revision or 'none'}, this program's is {HEAD}: run carrel db upgrade"]
        found = [f"the schema differs from revision {HEAD}: {difference}" for difference in _differences(connection)]
        if isinstance(location, SqliteLocation):
            found += [
                f"integrity: {row[0]}"
                for row in connection.exec_driver_sql("PRAGMA integrity_check")
                if row[0] != "ok"
            ]
            found += [
                f"a row of {row[0]} points at a row of {row[2]} that is not there"
                for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
            ]
        else:
            found += [
                f"the index {row[0]} is invalid: REINDEX it"
                for row in connection.execute(
                    sa.text("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")
                )
            ]
        return found


def _differences(connection: sa.Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))
