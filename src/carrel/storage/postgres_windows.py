"""Calls of the last minute, counted in PostgreSQL."""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from carrel.errors import StoreError, StoreUnavailable
from carrel.storage.database import Row
from carrel.storage.postgres import for_psycopg

if TYPE_CHECKING:
    from psycopg import AsyncConnection

CONNECTIONS = 4
PATIENCE_SECONDS = 2.0
SWEEP_SECONDS = 60.0

# One statement, so one transaction and one round trip. The row of a client is locked before anything is looked at, and
# then read as it is, not as it was when the statement began: READ COMMITTED does so for ON CONFLICT. The clock is read
# after that, too. Times that lie ahead, after the clock was put back, count as now.
_ADMIT = """
    INSERT INTO rate_window AS w (client, calls, wait, seen_at)
    SELECT :client, jsonb_build_array(jsonb_build_array(now.us, :tool::text))::text, 0, now.us
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS now
    ON CONFLICT (client) DO UPDATE SET (calls, wait, seen_at) = (
        SELECT
            (CASE WHEN late.wait > 0 THEN live.calls
                  ELSE live.calls || jsonb_build_array(jsonb_build_array(now.us, :tool::text)) END)::text,
            late.wait,
            now.us
        FROM (
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us, w.calls::jsonb AS calls OFFSET 0
        ) AS now,
        LATERAL (
            SELECT
                coalesce(jsonb_agg(jsonb_build_array(at.us, each.value ->> 1) ORDER BY at.us), '[]') AS calls,
                count(*) FILTER (WHERE each.value ->> 1 = :tool::text) AS of_tool,
                count(*) AS of_client,
                min(at.us) FILTER (WHERE each.value ->> 1 = :tool::text) AS oldest_of_tool,
                min(at.us) AS oldest
            FROM jsonb_array_elements(now.calls) AS each,
            LATERAL (SELECT least((each.value ->> 0)::bigint, now.us) AS us) AS at
            WHERE at.us > now.us - 60000000
        ) AS live,
        LATERAL (
            SELECT greatest(
                CASE WHEN :of_tool::bigint > 0 AND live.of_tool >= :of_tool::bigint
                     THEN live.oldest_of_tool + 60000000 - now.us END,
                CASE WHEN :of_client::bigint > 0 AND live.of_client >= :of_client::bigint
                     THEN live.oldest + 60000000 - now.us END,
                0
            ) AS wait
        ) AS late
    )
    RETURNING wait
"""
_SWEEP = """
    DELETE FROM rate_window
    WHERE seen_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 60000000
"""


class PostgresWindows:
    """Has few connections of its own, so that a limit is not waited for behind the work that it is to limit.

    Made by `open`. Each works alone on its client's row; two calls of one client follow each other.
    """

    def __init__(self, pool: "AsyncConnectionPool[AsyncConnection[Row]]") -> None:
        self._pool = pool
        self._swept_at = time.monotonic()
        self._sweeping: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str) -> Self:
        """Does not wait for a connection: without one, limits are kept by each process alone."""
        settings: dict[str, Any] = {
            "connect_timeout": 2,
            "application_name": "carrel limits",
            "autocommit": True,
            "prepare_threshold": None,  # poolers between transactions
        }
        pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=PATIENCE_SECONDS,
            reconnect_timeout=PATIENCE_SECONDS,
            kwargs=settings,
            open=False,
        )
        await pool.open()
        return cls(pool)

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        given = {"client": client, "tool": tool, "of_tool": of_tool, "of_client": of_client}
        wait = await self._first(_ADMIT, given)
        if time.monotonic() - self._swept_at > SWEEP_SECONDS and (self._sweeping is None or self._sweeping.done()):
            self._swept_at = time.monotonic()
            self._sweeping = asyncio.create_task(self._sweep())
        return None if not wait else wait / 1e6

    async def close(self) -> None:
        if self._sweeping:
            await self._sweeping
        await self._pool.close()

    async def sweep(self) -> None:
        """Forget the clients that did not call for a minute."""
        await self._first(_SWEEP, {})

    async def _sweep(self) -> None:
        with suppress(StoreError):  # the next minute's will do it
            await self.sweep()

    async def _first(self, sql: str, parameters: dict[str, Any]) -> int | None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._pool.connection() as connection:
                cursor = await connection.execute(for_psycopg(sql), parameters)
                row = await cursor.fetchone() if cursor.description else None
        except (psycopg.Error, PoolTimeout, PoolClosed, TimeoutError) as error:
            raise StoreUnavailable(f"PostgreSQL: {error or 'no answer'}") from error
        return row[0] if row else None
