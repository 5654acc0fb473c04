"""A rate store in PostgreSQL: calls of the last minute, and leases on calls in flight."""

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from carrel.errors import StoreError, StoreUnavailable
from carrel.storage.database import Row
from carrel.storage.postgres import to_psycopg

if TYPE_CHECKING:
    from psycopg import AsyncConnection

POOL_SIZE = 4
POSTGRES_TIMEOUT_SECONDS = 2.0
SWEEP_INTERVAL_SECONDS = 60.0

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
# A client's calls under way have a row of the same kind: a list of [taken at, lasts, lease], seen last when the last of
# them runs out. Both statements read the row as it is once they have its lock.
_ACQUIRE = """
    INSERT INTO rate_window AS w (client, calls, wait, seen_at)
    SELECT
        :client,
        jsonb_build_array(jsonb_build_array(now.us, :lasts::bigint, :lease::text))::text,
        0,
        now.us + :lasts::bigint
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS now
    ON CONFLICT (client) DO UPDATE SET (calls, wait, seen_at) = (
        SELECT
            (CASE WHEN live.count < :most::bigint
                  THEN live.calls || jsonb_build_array(jsonb_build_array(now.us, :lasts::bigint, :lease::text))
                  ELSE live.calls END)::text,
            CASE WHEN live.count < :most::bigint THEN 0 ELSE 1 END,
            greatest(live.until, now.us + :lasts::bigint)
        FROM (
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us, w.calls::jsonb AS calls OFFSET 0
        ) AS now,
        LATERAL (
            SELECT
                coalesce(jsonb_agg(jsonb_build_array(at.us, at.lasts, each.value ->> 2)), '[]') AS calls,
                count(*) AS count,
                max(at.us + at.lasts) AS until
            FROM jsonb_array_elements(now.calls) AS each,
            LATERAL (
                SELECT least((each.value ->> 0)::bigint, now.us) AS us, (each.value ->> 1)::bigint AS lasts
            ) AS at
            WHERE at.us + at.lasts > now.us
        ) AS live
    )
    RETURNING wait
"""
_RELEASE = """
    UPDATE rate_window SET calls = (
        SELECT coalesce(jsonb_agg(each.value), '[]')::text
        FROM jsonb_array_elements(rate_window.calls::jsonb) AS each
        WHERE each.value ->> 2 <> :lease::text
    )
    WHERE client = :client
"""
_SWEEP = """
    DELETE FROM rate_window
    WHERE seen_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 60000000
"""


class PostgresRateStore:
    """Rate limits shared through PostgreSQL; create one with `open`.

    It has a small pool of its own, so that a limit never queues behind the work that it limits. Each statement locks
    one row, that of its client: calls of one client are serialized, and different clients do not wait for each other.
    """

    def __init__(self, pool: "AsyncConnectionPool[AsyncConnection[Row]]", lease_seconds: float) -> None:
        self._pool = pool
        self._lease_us = int(lease_seconds * 1e6)
        self._swept_at = time.monotonic()
        self._sweeping: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, *, lease_seconds: float = 0) -> Self:
        """Open the store without waiting for a connection: until there is one, each process enforces limits alone."""
        settings: dict[str, Any] = {
            "connect_timeout": 2,
            "application_name": "carrel limits",
            "autocommit": True,
            "prepare_threshold": None,  # poolers between transactions
        }
        pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=POOL_SIZE,
            timeout=POSTGRES_TIMEOUT_SECONDS,
            reconnect_timeout=POSTGRES_TIMEOUT_SECONDS,
            kwargs=settings,
            open=False,
        )
        await pool.open()
        return cls(pool, lease_seconds)

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        given = {"client": client, "tool": tool, "of_tool": of_tool, "of_client": of_client}
        wait = await self._first(_ADMIT, given)
        self._sweep_later()
        return None if not wait else wait / 1e6

    async def acquire(self, client: str, lease: str, *, most: int) -> bool:
        given = {"client": _in_flight_key(client), "lease": lease, "most": most, "lasts": self._lease_us}
        is_refused = await self._first(_ACQUIRE, given)
        self._sweep_later()
        return not is_refused

    async def release(self, client: str, lease: str) -> None:
        await self._first(_RELEASE, {"client": _in_flight_key(client), "lease": lease})

    async def close(self) -> None:
        if self._sweeping:
            await self._sweeping
        await self._pool.close()

    async def sweep(self) -> None:
        """Delete the rows of clients without calls in the last minute or in flight."""
        await self._first(_SWEEP, {})

    def _sweep_later(self) -> None:
        if time.monotonic() - self._swept_at > SWEEP_INTERVAL_SECONDS and (
            self._sweeping is None or self._sweeping.done()
        ):
            self._swept_at = time.monotonic()
            self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        with suppress(StoreError):  # the next minute's will do it
            await self.sweep()

    async def _first(self, sql: str, parameters: dict[str, Any]) -> int | None:
        try:
            async with asyncio.timeout(POSTGRES_TIMEOUT_SECONDS), self._pool.connection() as connection:
                cursor = await connection.execute(to_psycopg(sql), parameters)
                row = await cursor.fetchone() if cursor.description else None
        except (psycopg.Error, PoolTimeout, PoolClosed, TimeoutError) as error:
            raise StoreUnavailable(f"PostgreSQL: {error or 'no answer'}") from error
        return row[0] if row else None


def _in_flight_key(client: str) -> str:
    """Return the key of a client's calls in flight; no client name contains a line feed."""
    return f"under way\n{client}"
