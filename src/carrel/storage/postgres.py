"""PostgreSQL through psycopg's asynchronous pool."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import anyio

from carrel.errors import CarrelError, SettingsError, StoreError, StoreTimeout, StoreUnavailable
from carrel.storage.database import Row, Work
from carrel.storage.postgres_pool import BACKEND, ConnectionLost, NotBegun, Pool, ReadOnly, advised, is_pooled, psycopg
from carrel.storage.postgres_pool import for_psycopg as for_psycopg
from carrel.storage.replica import Replica

T = TypeVar("T")

TIMEOUT_SECONDS = 5
CANCEL_SECONDS = 3
"""In which a server answers that it has cancelled a statement."""
CONNECTING: dict[str, Any] = {"connect_timeout": TIMEOUT_SECONDS, "application_name": "carrel"}


def connect(url: str) -> "psycopg.Connection[Row]":
    """A connection for the administrator's side."""
    try:
        connection = psycopg.connect(url, **CONNECTING)
        row = connection.execute(BACKEND).fetchone()
        if row is None or row[0] != connection.info.backend_pid:  # a pooler stands between, see `is_pooled`
            connection.prepare_threshold = None
        connection.rollback()
    except psycopg.Error as error:
        raise _unconnected(error) from error
    return connection


def _unconnected(error: psycopg.Error) -> CarrelError:
    if isinstance(error, psycopg.ProgrammingError):  # behind the colon is the URL, or a part of it
        return SettingsError(f"database.url cannot be used: {str(error).partition(': ')[0]}")
    return StoreUnavailable(f"PostgreSQL: {advised(error)}")


class PostgresDatabase:
    """Made by `open`."""

    def __init__(self, pool: Pool, replica: Replica | None) -> None:
        self._pool = pool
        self._replica = replica

    @classmethod
    async def open(cls, url: str, pool_size: int, *, replica_url: str = "") -> Self:
        """The first connection is not the pool's: it tells at once what is wrong, where a pool tries on."""
        try:
            async with asyncio.timeout(2 * TIMEOUT_SECONDS):  # a pooler lets one in whose database is away
                connection = await psycopg.AsyncConnection.connect(url, autocommit=True, **CONNECTING)
                async with connection:
                    pooled = await is_pooled(connection)
        except psycopg.Error as error:
            raise _unconnected(error) from error
        except TimeoutError as error:
            raise StoreUnavailable(f"PostgreSQL: no answer within {2 * TIMEOUT_SECONDS} seconds") from error
        pool = Pool(url, most=pool_size, seconds=TIMEOUT_SECONDS, is_pooled=pooled, **CONNECTING)
        await pool.open()
        replica = Replica(replica_url, pool, most=pool_size, **CONNECTING) if replica_url else None
        if replica:
            replica.follow()
        return cls(pool, replica)

    async def read(self, work: Work[T]) -> T:
        return await _to_its_end(self._reading(lambda: self._pool.read(work)))

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        if (replica := self._replica) is not None and replica.is_fresh:
            try:
                return await _to_its_end(replica.snapshot(work, seconds))
            except StoreTimeout:
                raise
            except StoreError as error:
                replica.failed(error)
        return await _to_its_end(self._reading(lambda: self._pool.snapshot(work, seconds)))

    async def write(self, work: Work[T]) -> T:
        return await _to_its_end(self._write(work))

    async def ping(self) -> None:
        await self.read(lambda session: session.first("SELECT 1", {}))

    def connections(self) -> tuple[int, int, int]:
        """To the primary: how many are open, how many of these idle, and how many callers wait for one."""
        return self._pool.connections

    async def can_write(self) -> bool:
        return True  # writers wait for a row at the most

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            if self._replica:
                await self._replica.close()
            await self._pool.close()

    async def _reading(self, once: Callable[[], Awaitable[T]]) -> T:
        try:
            return await once()
        except ConnectionLost:
            await self._pool.heal()
            return await once()

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._pool.write(work)
        except NotBegun:  # as after a restart: what the pool kept is dead, and nothing was written yet
            await self._pool.heal()
            return await self._pool.write(work)
        except ConnectionLost:
            await self._pool.heal()
            raise
        except ReadOnly:  # as after a failover, or when it was so for a while
            await self._pool.renew()
            return await self._pool.write(work)


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
            while not (await asyncio.wait([task], timeout=CANCEL_SECONDS))[0]:
                task.cancel()  # the server does not even answer to that: the connection is given up
        if not task.cancelled():
            task.exception()  # marks it as seen; the cancellation is what the caller gets
        raise
