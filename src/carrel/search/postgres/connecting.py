"""Connections to an index in PostgreSQL, and what its errors are to the rest of Carrel.

Nothing is left on a connection after a transaction, so a pgbouncer may stand between, in transaction mode too.
"""

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from carrel.errors import StoreError, StoreTimeout, StoreUnavailable
from carrel.storage.postgres import CONNECTING, TIMEOUT_SECONDS

Connection = psycopg.Connection[tuple[Any, ...]]

MOST_CONNECTIONS = 4


def lock_number(name: str) -> int:
    """An advisory lock's."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)


@contextmanager
def translated(connection: Connection | None = None) -> Generator[None]:
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
        self._beside = begin.format(path, sql.SQL("pg_advisory_xact_lock_shared"), number).as_bytes(None)
        self._alone = begin.format(path, sql.SQL("pg_advisory_xact_lock"), number).as_bytes(None)
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            min_size=0,
            max_size=MOST_CONNECTIONS,
            timeout=TIMEOUT_SECONDS,
            reconnect_timeout=TIMEOUT_SECONDS,
            check=ConnectionPool.check_connection,
            kwargs={**CONNECTING, "autocommit": True, "prepare_threshold": None},
            open=True,
        )

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Generator[Connection]:
        try:
            connection = self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        try:
            with translated(connection), connection.transaction():
                connection.execute(self._alone if alone else self._beside)
                yield connection
        finally:
            self._pool.putconn(connection)

    def close(self) -> None:
        self._pool.close()
