"""A pool of connections to one PostgreSQL server, and units of work on them."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import MissingExtra, StoreError, StoreTimeout, StoreUnavailable
from carrel.storage.database import Parameters, Row, Work
from carrel.storage.sql_syntax import PostgresSyntax

try:
    import psycopg
    from psycopg.pq import TransactionStatus
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise MissingExtra("postgres", "a PostgreSQL database") from error

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")

BACKEND_PID = "SELECT pg_backend_pid()"

_ADVICE = {
    "25006": "it is a standby, or set to read only: point database.url at the primary, or let it write again",
    "53100": "free space on the database server's disk; nothing else is needed",
    "53200": "the database server is out of memory; for locks, raise its max_locks_per_transaction",
    "53300": "lower database.pool_size, or raise the database server's max_connections",
    "57014": "see in pg_stat_activity what the statement waited for",
    "XX001": "the database server's files are damaged: restore a backup",
    "XX002": "an index is damaged: REINDEX it",
}
_TOO_MANY_CONNECTIONS = ("too many connections", "too many clients", "remaining connection slots")
_STRING_OR_PARAMETER = re.compile(r"'[^']*'|(?<!:):([a-z_][a-z0-9_]*)")


@cache
def to_psycopg(sql: str) -> bytes:
    """Translate `:name` parameters to psycopg's syntax; `::type` and quoted strings stay."""

    def written(match: re.Match[str]) -> str:
        return f"%({match[1]})s" if match[1] else match[0]

    return _STRING_OR_PARAMETER.sub(written, sql.replace("%", "%%")).encode()


def with_advice(error: Exception) -> str:
    """Return the error's text, and what to do about it if that is known."""
    code = getattr(error, "sqlstate", None)
    if code is None and any(each in str(error) for each in _TOO_MANY_CONNECTIONS):
        code = "53300"  # a connection attempt that the server refuses carries no SQLSTATE
    advice = _ADVICE.get(code or "")
    return f"{error} ({advice})" if advice else str(error)


class ConnectionLost(StoreUnavailable):
    """The connection broke during a unit of work."""


class NotStarted(ConnectionLost):
    """The connection was dead before the transaction began: the work is safe to repeat."""


class ReadOnlyServer(StoreError):
    """The server is read-only, for example a former primary after a failover; nothing was written."""


def _store_error(error: Exception, connection: "AsyncConnection[Row]") -> StoreError:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return StoreTimeout(f"PostgreSQL: {with_advice(error)}")
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return ReadOnlyServer(f"PostgreSQL: {with_advice(error)}")
    kind = ConnectionLost if connection.closed else StoreError
    return kind(f"PostgreSQL: {with_advice(error)}")


class _Session:
    syntax = PostgresSyntax()

    def __init__(self, connection: "AsyncConnection[Row]") -> None:
        self._connection = connection
        self._prepare: bool | None = None  # psycopg prepares what is executed often

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        try:
            cursor = await self._connection.execute(to_psycopg(sql), parameters, prepare=self._prepare)
            return await cursor.fetchall() if cursor.description else []
        except (psycopg.Error, UnicodeError) as error:
            raise _store_error(error, self._connection) from error

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        return next(iter(await self.all(sql, parameters)), None)

    def expect_slow(self) -> None:
        """Plan each statement for its own parameters: a prepared one keeps one plan for all, and a plan that suits a
        rare text takes ten times as long for a common one."""
        self._prepare = False


async def is_pooled(connection: "AsyncConnection[Row]") -> bool:
    """Whether a pooler such as pgbouncer is in between: it reports a backend PID of its own."""
    row = await (await connection.execute(BACKEND_PID)).fetchone()
    return row is None or row[0] != connection.info.backend_pid


class Pool:
    """A pool of connections. Behind a pooler, consecutive transactions may use different backends, so nothing is
    prepared."""

    def __init__(
        self, url: str, *, max_size: int, seconds: float, is_pooled: bool, min_size: int = 1, **connect_options: Any
    ) -> None:
        options = {**connect_options, "prepare_threshold": None} if is_pooled else connect_options
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=min_size,
            max_size=max_size,
            timeout=seconds,
            reconnect_timeout=seconds,  # with the next call it then tries anew, not minutes later
            kwargs={**options, "autocommit": True},
            open=False,
        )

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close()

    @property
    def connections(self) -> tuple[int, int, int]:
        """Open connections, idle ones, and callers waiting for one."""
        found = self._pool.get_stats()
        return found.get("pool_size", 0), found.get("pool_available", 0), found.get("requests_waiting", 0)

    async def replace_dead(self) -> None:
        """Replace dead idle connections, so that the next call gets a live one."""
        await self._pool.check()

    async def replace_all(self) -> None:
        """Replace every connection: new ones may reach another server, or new settings."""
        await self._pool.drain()

    async def read(self, work: Work[T]) -> T:
        async with self._connection() as connection:
            return await work(_Session(connection))

    async def snapshot(self, work: Work[T], seconds: float) -> T:
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {seconds * 1000:.0f}"
        async with self._connection() as connection:
            await connection.execute(begin.encode())
            try:
                return await work(_Session(connection))
            finally:
                if not connection.closed:
                    await connection.execute(b"ROLLBACK")

    async def write(self, work: Work[T]) -> T:
        has_begun = False
        async with self._connection() as connection:
            try:
                async with connection.transaction():
                    has_begun = True
                    result = await work(_Session(connection))
                    if connection.info.transaction_status == TransactionStatus.INERROR:
                        raise StoreError("PostgreSQL: a statement failed and ended the transaction")
                    return result
            except psycopg.Error as error:
                if connection.closed and not has_begun:
                    raise NotStarted(f"PostgreSQL: {with_advice(error)}") from error
                raise

    @asynccontextmanager
    async def _connection(self) -> "AsyncGenerator[AsyncConnection[Row]]":
        try:
            connection = await self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        try:
            yield connection
        except psycopg.Error as error:
            raise _store_error(error, connection) from error
        finally:
            await self._pool.putconn(connection)
