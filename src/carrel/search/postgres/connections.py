"""Connections to an index in PostgreSQL, its errors, and advisory locks for background work."""

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from carrel.errors import StoreError, StoreTimeout, StoreUnavailable
from carrel.storage.postgres import CONNECT_OPTIONS, CONNECT_TIMEOUT_SECONDS, connect

Connection = psycopg.Connection[tuple[Any, ...]]

MAX_CONNECTIONS = 4


def lock_number(name: str) -> int:
    """An advisory lock's."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)


@contextmanager
def translated_errors(connection: Connection | None = None) -> Generator[None]:
    """psycopg's errors as Carrel's."""
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise StoreTimeout(f"PostgreSQL: {error}") from error
    except psycopg.Error as error:
        lost = connection is not None and connection.closed
        raise (StoreUnavailable if lost else StoreError)(f"PostgreSQL: {error}") from error


class Connections:
    """A few, opened when they are needed. A transaction is beside others, or alone: then no other runs."""

    def __init__(self, url: str, schemas: list[str], lock: str) -> None:
        path = sql.SQL(", ").join(map(sql.Identifier, schemas))
        # Statements here are short, and their costs often misjudged: compiling them takes longer than running them.
        begin = sql.SQL("SET LOCAL search_path = {}; SET LOCAL jit = off; SELECT {}({})")
        number = lock_number(lock)
        self._begin_shared = begin.format(path, sql.SQL("pg_advisory_xact_lock_shared"), number).as_bytes(None)
        self._begin_exclusive = begin.format(path, sql.SQL("pg_advisory_xact_lock"), number).as_bytes(None)
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            min_size=0,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_TIMEOUT_SECONDS,
            reconnect_timeout=CONNECT_TIMEOUT_SECONDS,
            check=ConnectionPool.check_connection,
            kwargs={**CONNECT_OPTIONS, "autocommit": True, "prepare_threshold": None},
            open=True,
        )

    @contextmanager
    def transaction(self, *, exclusive: bool = False) -> Generator[Connection]:
        try:
            connection = self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        try:
            with translated_errors(connection), connection.transaction():
                connection.execute(self._begin_exclusive if exclusive else self._begin_shared)
                yield connection
        finally:
            self._pool.putconn(connection)

    def close(self) -> None:
        self._pool.close()


# A process that ends is noticed at once; a machine that does, after about a minute.
_SETTINGS = """
SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL tcp_keepalives_idle = 30;
SET LOCAL tcp_keepalives_interval = 10; SET LOCAL tcp_keepalives_count = 3
"""


class WorkLocks:
    """Advisory locks for background work.

    Each lock belongs to a transaction, not to a session, so that it also works through pgbouncer in transaction mode.
    Between statements, a transaction that wrote nothing blocks nobody else.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._held: dict[str, Connection] = {}

    @contextmanager
    def acquire(self, lock: str) -> Generator[bool]:
        """Hold a lock as long as the context, or until this process or its connection dies; False if another does."""
        connection = connect(self._url)
        try:
            with translated_errors(connection):
                connection.execute(_SETTINGS)
                # Without parameters, which would leave a portal open, and with it a view of the data.
                statement = f"SELECT pg_try_advisory_xact_lock({lock_number(lock)})"
                row = connection.execute(statement.encode()).fetchone()
            is_acquired = row is not None and bool(row[0])
            if is_acquired:
                self._held[lock] = connection
            yield is_acquired
        finally:
            if self._held.get(lock) is connection:
                del self._held[lock]
            connection.close()

    def check(self, lock: str) -> None:
        """Raise `StoreUnavailable` where this process had a turn, and its connection was lost: another may have it."""
        if (connection := self._held.get(lock)) is not None:
            with translated_errors(connection):
                connection.execute("SELECT 1")
