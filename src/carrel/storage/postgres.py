"""PostgreSQL through psycopg's asynchronous pool."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import anyio

from carrel.errors import CarrelError, SettingsError, StoreError, StoreTimeout, StoreUnavailable
from carrel.storage.database import Row, Work
from carrel.storage.postgres_pool import (
    BACKEND_PID,
    ConnectionLost,
    NotStarted,
    Pool,
    ReadOnlyServer,
    is_pooled,
    psycopg,
    with_advice,
)
from carrel.storage.postgres_pool import to_psycopg as to_psycopg
from carrel.storage.replica import Replica

T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS = 5
CANCEL_TIMEOUT_SECONDS = 3
"""How long a server may take to confirm that it cancelled a statement."""
CONNECT_OPTIONS: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "carrel"}


def connect(url: str) -> "psycopg.Connection[Row]":
    """Open a synchronous connection, for commands and bulk work."""
    try:
        connection = psycopg.connect(url, **CONNECT_OPTIONS)
        row = connection.execute(BACKEND_PID).fetchone()
        if row is None or row[0] != connection.info.backend_pid:  # a pooler stands between, see `is_pooled`
            connection.prepare_threshold = None
        connection.rollback()
    except psycopg.Error as error:
        raise _connect_error(error) from error
    return connection


def _connect_error(error: psycopg.Error) -> CarrelError:
    if isinstance(error, psycopg.ProgrammingError):  # behind the colon is the URL, or a part of it
        return SettingsError(f"database.url cannot be used: {str(error).partition(': ')[0]}")
    return StoreUnavailable(f"PostgreSQL: {with_advice(error)}")


class PostgresDatabase:
    """A `Database` on PostgreSQL; create one with `open`.

    A read whose connection is lost runs once more. So does a write whose connection was dead before it began; any other
    interrupted write is reported as failed, since it may or may not have been committed.
    """

    def __init__(self, pool: Pool, replica: Replica | None) -> None:
        self._pool = pool
        self._replica = replica

    @classmethod
    async def open(cls, url: str, pool_size: int, *, replica_url: str = "") -> Self:
        """Connect once outside the pool first: that fails at once with the cause, where a pool would keep trying."""
        try:
            async with asyncio.timeout(2 * CONNECT_TIMEOUT_SECONDS):  # a pooler lets one in whose database is away
                connection = await psycopg.AsyncConnection.connect(url, autocommit=True, **CONNECT_OPTIONS)
                async with connection:
                    has_pooler = await is_pooled(connection)
        except psycopg.Error as error:
            raise _connect_error(error) from error
        except TimeoutError as error:
            raise StoreUnavailable(f"PostgreSQL: no answer within {2 * CONNECT_TIMEOUT_SECONDS} seconds") from error
        pool = Pool(url, max_size=pool_size, seconds=CONNECT_TIMEOUT_SECONDS, is_pooled=has_pooler, **CONNECT_OPTIONS)
        await pool.open()
        replica = Replica(replica_url, pool, max_size=pool_size, **CONNECT_OPTIONS) if replica_url else None
        if replica:
            replica.follow()
        return cls(pool, replica)

    async def read(self, work: Work[T]) -> T:
        return await _run_shielded(self._retry_read(lambda: self._pool.read(work)))

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        if (replica := self._replica) is not None and replica.is_fresh:
            try:
                return await _run_shielded(replica.snapshot(work, seconds))
            except StoreTimeout:
                raise
            except StoreError as error:
                replica.failed(error)
        return await _run_shielded(self._retry_read(lambda: self._pool.snapshot(work, seconds)))

    async def write(self, work: Work[T]) -> T:
        return await _run_shielded(self._write(work))

    async def ping(self) -> None:
        await self.read(lambda session: session.first("SELECT 1", {}))

    def connections(self) -> tuple[int, int, int]:
        """Return the connections to the primary: open, idle, and callers waiting for one."""
        return self._pool.connections

    async def can_write(self) -> bool:
        return True  # writers wait for a row at the most

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            if self._replica:
                await self._replica.close()
            await self._pool.close()

    async def _retry_read(self, once: Callable[[], Awaitable[T]]) -> T:
        try:
            return await once()
        except ConnectionLost:
            await self._pool.replace_dead()
            return await once()

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._pool.write(work)
        except NotStarted:  # as after a restart: what the pool kept is dead, and nothing was written yet
            await self._pool.replace_dead()
            return await self._pool.write(work)
        except ConnectionLost:
            await self._pool.replace_dead()
            raise
        except ReadOnlyServer:  # as after a failover, or when it was so for a while
            await self._pool.replace_all()
            return await self._pool.write(work)


async def _run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in its own task, which a cancelled caller cancels once and then waits for.

    psycopg reacts to a cancellation by cancelling the query on the server and rolling back. anyio repeats its
    cancellation at each await of that cleanup, and would leave the query running.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            while not (await asyncio.wait([task], timeout=CANCEL_TIMEOUT_SECONDS))[0]:
                task.cancel()  # the server does not even answer to that: the connection is given up
        if not task.cancelled():
            task.exception()  # marks it as seen; the cancellation is what the caller gets
        raise
