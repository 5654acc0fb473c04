"""PostgreSQL through psycopg's asynchronous pool."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

from carrel.errors import CarrelError, MissingExtra, SettingsError, StoreError, StoreTimeout, StoreUnavailable
from carrel.storage.database import Parameters, Row, Work
from carrel.storage.syntax import PostgresSyntax

try:
    import psycopg
    from psycopg.pq import TransactionStatus
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise MissingExtra("postgres", "a PostgreSQL database") from error

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")

TIMEOUT_SECONDS = 5
CONNECTING: dict[str, Any] = {"connect_timeout": TIMEOUT_SECONDS, "application_name": "carrel"}

_STRING_OR_PARAMETER = re.compile(r"'[^']*'|(?<!:):([a-z_][a-z0-9_]*)")


@cache
def for_psycopg(sql: str) -> bytes:
    """`:name` as psycopg writes it; `::type` and what stands in quotes stay."""

    def written(match: re.Match[str]) -> str:
        return f"%({match[1]})s" if match[1] else match[0]

    return _STRING_OR_PARAMETER.sub(written, sql.replace("%", "%%")).encode()


def connect(url: str) -> "psycopg.Connection[Row]":
    """A connection for the administrator's side."""
    try:
        return psycopg.connect(url, **CONNECTING)
    except psycopg.Error as error:
        raise _unconnected(error) from error


def _unconnected(error: psycopg.Error) -> CarrelError:
    if isinstance(error, psycopg.ProgrammingError):  # behind the colon is the URL, or a part of it
        return SettingsError(f"database.url cannot be used: {str(error).partition(': ')[0]}")
    return StoreUnavailable(f"PostgreSQL: {error}")


class _ConnectionLost(StoreUnavailable):
    pass


def _failed(error: Exception, connection: "AsyncConnection[Row]") -> StoreError:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return StoreTimeout(f"PostgreSQL: {error}")
    kind = _ConnectionLost if connection.closed else StoreError
    return kind(f"PostgreSQL: {error}")


class _Session:
    syntax = PostgresSyntax()

    def __init__(self, connection: "AsyncConnection[Row]") -> None:
        self._connection = connection

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        try:
            cursor = await self._connection.execute(for_psycopg(sql), parameters)
            return await cursor.fetchall() if cursor.description else []
        except (psycopg.Error, UnicodeError) as error:
            raise _failed(error, self._connection) from error

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        return next(iter(await self.all(sql, parameters)), None)


class PostgresDatabase:
    """Made by `open`."""

    def __init__(self, pool: "AsyncConnectionPool[AsyncConnection[Row]]") -> None:
        self._pool = pool

    @classmethod
    async def open(cls, url: str, pool_size: int) -> Self:
        """The first connection is not the pool's: it tells at once what is wrong, where a pool tries on."""
        try:
            await (await psycopg.AsyncConnection.connect(url, **CONNECTING)).close()
        except psycopg.Error as error:
            raise _unconnected(error) from error
        pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=pool_size,
            timeout=TIMEOUT_SECONDS,
            reconnect_timeout=TIMEOUT_SECONDS,  # with the next call it then tries anew, not minutes later
            kwargs={**CONNECTING, "autocommit": True},
            open=False,
        )
        await pool.open()
        return cls(pool)

    async def read(self, work: Work[T]) -> T:
        return await _to_its_end(self._reading(lambda: self._read_once(work)))

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        return await _to_its_end(self._reading(lambda: self._snapshot_once(work, seconds)))

    async def write(self, work: Work[T]) -> T:
        return await _to_its_end(self._write(work))

    async def ping(self) -> None:
        await self.read(lambda session: session.first("SELECT 1", {}))

    async def can_write(self) -> bool:
        return True  # writers wait for a row at the most

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._pool.close()

    async def _reading(self, once: Callable[[], Awaitable[T]]) -> T:
        try:
            return await once()
        except _ConnectionLost:
            await self._heal()
            return await once()

    async def _read_once(self, work: Work[T]) -> T:
        async with self._connection() as connection:
            return await work(_Session(connection))

    async def _snapshot_once(self, work: Work[T], seconds: float) -> T:
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {seconds * 1000:.0f}"
        async with self._connection() as connection:
            await connection.execute(begin.encode())
            try:
                return await work(_Session(connection))
            finally:
                if not connection.closed:
                    await connection.execute(b"ROLLBACK")

    async def _write(self, work: Work[T]) -> T:
        try:
            async with self._connection() as connection, connection.transaction():
                result = await work(_Session(connection))
                if connection.info.transaction_status == TransactionStatus.INERROR:
                    raise StoreError("PostgreSQL: a statement failed and ended the transaction")
                return result
        except _ConnectionLost:
            await self._heal()
            raise

    async def _heal(self) -> None:
        """Replace the idle connections that died too, so that the next call gets a live one."""
        await self._pool.check()

    @asynccontextmanager
    async def _connection(self) -> "AsyncGenerator[AsyncConnection[Row]]":
        try:
            connection = await self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise StoreUnavailable(f"PostgreSQL: {error}") from error
        try:
            yield connection
        except psycopg.Error as error:
            raise _failed(error, connection) from error
        finally:
            await self._pool.putconn(connection)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` as a task of its own that a cancelled caller cancels once and then waits for.

    psycopg answers that by cancelling the query in the server and rolling back. anyio's own cancellation
    strikes again at each await of that, and would leave the query running.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # marks it as seen; the cancellation is what the caller gets
        raise
