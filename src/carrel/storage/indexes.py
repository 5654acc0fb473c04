"""Indexes that are made while servers go on: on a table with many rows one takes long, and would hold up every write.

A migration makes the indexes of its own new tables. One on a table that was there before is left to this, for
PostgreSQL; so is one that is missing or was left half made.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex

from carrel.storage.schema import is_on, metadata

INDEXES_LOCK = 0x_CA_11_E3  # PostgreSQL advisory lock: one process at a time
LOOK_SECONDS = 0.2

_VALID = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = current_schema()::regnamespace AND indisvalid
"""


def make_missing(engine: sa.Engine) -> list[str]:
    """The names of those that were made."""
    with _turn(engine), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        missing = _missing(connection)
        for index in missing:
            _make(connection, index)
    return [str(index.name) for index in missing]


@contextmanager
def _turn(engine: sa.Engine) -> Generator[None]:
    """One process at a time. Whoever makes an index waits for everybody who looks at anything meanwhile: so the lock is
    not waited for but asked for again and again, each time in another transaction."""
    with engine.connect() as connection:
        # Without parameters, which would leave a portal open, and with it a view of the data that is waited for too.
        while not connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({INDEXES_LOCK})").scalar_one():
            connection.rollback()
            time.sleep(LOOK_SECONDS)
        yield


def _missing(connection: sa.Connection) -> list[sa.Index]:
    there = set(connection.execute(sa.text(_VALID)).scalars())
    expected = [index for table in metadata.sorted_tables for index in table.indexes if is_on(index, "postgresql")]
    return [index for index in expected if index.name not in there]


def _make(connection: sa.Connection, index: sa.Index) -> None:
    connection.execute(sa.text(f'DROP INDEX CONCURRENTLY IF EXISTS "{index.name}"'))
    statement = str(CreateIndex(index).compile(dialect=connection.dialect))
    connection.exec_driver_sql(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1))
