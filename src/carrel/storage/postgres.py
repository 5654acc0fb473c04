"""PostgreSQL through psycopg's asynchronous pool."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import MissingExtra, StoreError, StoreUnavailable
from carrel.storage.database import Parameters, Row, Work

try:
    import psycopg
    from psycopg_pool import AsyncConnectionPool, PoolTimeout
except ImportError as error:
    raise MissingExtra("postgres", "a PostgreSQL database") from error

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS = 5


@cache
def _for_psycopg(sql: str) -> bytes:
    """`:name` as psycopg writes it; `::type` stays."""
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", sql.replace("%", "%%")).encode()


class _ConnectionLost(StoreUnavailable):
    pass


class _Session:
    def __init__(self, connection: "AsyncConnection[Row]") -> None:
        self._connection = connection

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        cursor = await self._connection.execute(_for_psycopg(sql), parameters)
        return await cursor.fetchall()

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        cursor = await self._connection.execute(_for_psycopg(sql), parameters)
        return await cursor.fetchone()


class PostgresDatabase:
    def __init__(self, url: str, pool_size: int) -> None:
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=pool_size,
            timeout=CONNECT_TIMEOUT_SECONDS,
            kwargs={"autocommit": True, "connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "carrel"},
            open=False,
        )
        self._opening = asyncio.Lock()

    async def read(self, work: Work[T]) -> T:
        try:
            return await self._read_once(work)
        except _ConnectionLost:
            await self._heal()
            return await self._read_once(work)

    async def write(self, work: Work[T]) -> T:
        try:
            async with self._connection() as connection, connection.transaction():
                return await work(_Session(connection))
        except _ConnectionLost:
            await self._heal()
            raise

    async def ping(self) -> None:
        await self.read(lambda session: session.first("SELECT 1", {}))

    async def close(self) -> None:
        await self._pool.close()

    async def _read_once(self, work: Work[T]) -> T:
        async with self._connection() as connection:
            return await work(_Session(connection))

    async def _heal(self) -> None:
        """Replace the idle connections that died with the one that was just lost, so that the next call gets a live one."""
        await self._pool.check()

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[AsyncConnection[Row]]":
        if self._pool.closed:
            async with self._opening:
                if self._pool.closed:
                    await self._pool.open()
        connection: AsyncConnection[Any] | None = None
        try:
            async with self._pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable("PostgreSQL: no connection could be had") from error
        except psycopg.Error as error:
            if connection is not None and connection.closed:
                raise _ConnectionLost(f"PostgreSQL: {error}") from error
            raise StoreError(f"PostgreSQL: {error}") from error
