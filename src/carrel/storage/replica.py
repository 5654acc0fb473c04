"""A streaming replica for reads, used while it is known to be at most a few seconds behind.

A replica shows the past. What a caller can change (tasks, discoveries, tokens, the search index) is therefore
always read from the primary, whichever process was written to. What goes to the replica is content, by way of
`Database.snapshot`: it is written by commands only, and a command that has written returns once the replica has it,
or once it is so late that no process reads from the replica any more (`wait_for_replica`). So whoever wrote reads
what was written, from every process, and the processes need not tell each other anything.
"""

import asyncio
import logging
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import StoreError, StoreUnavailable
from carrel.storage.database import Row, Work
from carrel.storage.postgres_pool import ConnectionLost, Pool, is_pooled, psycopg

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

T = TypeVar("T")

MAX_LAG_SECONDS = 5.0
"""How far a replica may be behind and still be read."""
REPLICA_POLL_SECONDS = 0.5
REPLICA_TIMEOUT_SECONDS = 1.0
"""How long to wait for a connection; the primary is used if it takes longer."""

WAL_PAGE_BYTES = 8192
WAL_PAGE_HEADER_BYTES = 40

_PRIMARY_LSN = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_REPLAY_LSN = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() - '0/0' END"

log = logging.getLogger("carrel.storage")


class _NotAReplica(Exception):
    pass


def has_reached(replayed: int, written: int) -> bool:
    """Whether the replica has replayed what the primary had written.

    At the end of a WAL page, the primary reports the position behind the next page's header, which the replica reaches
    only with the next record.
    """
    return replayed >= written or (replayed % WAL_PAGE_BYTES == 0 and written - replayed <= WAL_PAGE_HEADER_BYTES)


def _lsn(row: Row | None) -> int:
    if row is None or row[0] is None:
        raise _NotAReplica("database.replica_url leads to a server that is no replica")
    return int(row[0])


class Replica:
    """A replica with its pool, and a task that measures how far it is behind."""

    def __init__(self, url: str, primary: Pool, *, max_size: int, **connect_options: Any) -> None:
        self._url = url
        self._primary = primary
        self._max_size = max_size
        self._connect_options = connect_options
        self._pool: Pool | None = None
        self._caught_up_at = -math.inf
        """The replica has everything written before this time."""
        self._retry_at = -math.inf
        self._is_used = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_fresh(self) -> bool:
        now = time.monotonic()
        return now - self._caught_up_at <= MAX_LAG_SECONDS and now >= self._retry_at

    async def snapshot(self, work: Work[T], seconds: float) -> T:
        if self._pool is None:
            raise StoreUnavailable("PostgreSQL: the replica has not answered yet")
        return await self._pool.snapshot(work, seconds)

    def failed(self, error: StoreError) -> None:
        """Note a failed read, which the primary repeats. Only an unreachable replica is avoided for a while: conflicts
        with replay and tables that are not replicated yet resolve themselves."""
        if isinstance(error, StoreUnavailable):
            self._retry_at = time.monotonic() + MAX_LAG_SECONDS
            self._log_fallback(str(error))

    def follow(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._pool:
            await self._pool.close()

    async def _follow(self) -> None:
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True, **self._connect_options)
                async with connection:
                    await self._make_ready(connection)
                    await self._watch(connection)
            except (psycopg.Error, _NotAReplica, TimeoutError) as error:
                self._caught_up_at = -math.inf
                self._log_fallback(str(error))
            await asyncio.sleep(REPLICA_POLL_SECONDS)

    async def _make_ready(self, connection: "AsyncConnection[Row]") -> None:
        if self._pool:
            await self._pool.replace_dead()
        else:
            async with asyncio.timeout(MAX_LAG_SECONDS):
                has_pooler = await is_pooled(connection)
            pool = Pool(
                self._url,
                max_size=self._max_size,
                seconds=REPLICA_TIMEOUT_SECONDS,
                is_pooled=has_pooler,
                min_size=0,
                **self._connect_options,
            )
            await pool.open()
            self._pool = pool

    async def _watch(self, connection: "AsyncConnection[Row]") -> None:
        while True:
            measured_at, lsn = time.monotonic(), await self._primary_lsn()
            while not has_reached(await self._replay_lsn(connection), lsn):
                if not self.is_fresh:
                    self._log_fallback(f"it is more than {MAX_LAG_SECONDS:g} seconds behind")
                await asyncio.sleep(REPLICA_POLL_SECONDS)
            self._caught_up_at = measured_at
            if self.is_fresh and not self._is_used:
                self._is_used = True
                log.info("content is read from the replica")
            await asyncio.sleep(REPLICA_POLL_SECONDS)

    async def _primary_lsn(self) -> int:
        """Return the primary's LSN; wait while the primary is unreachable, since nothing is written then."""
        while True:
            try:
                return _lsn(await self._primary.read(lambda session: session.first(_PRIMARY_LSN, {})))
            except ConnectionLost:
                await self._primary.replace_dead()
            except StoreError:
                await asyncio.sleep(REPLICA_POLL_SECONDS)

    async def _replay_lsn(self, connection: "AsyncConnection[Row]") -> int:
        async with asyncio.timeout(MAX_LAG_SECONDS):
            return _lsn(await (await connection.execute(_REPLAY_LSN)).fetchone())

    def _log_fallback(self, reason: str) -> None:
        if self._is_used:
            self._is_used = False
            fields = {"reason": reason.partition("\n")[0]}
            log.warning(
                "content is read from the primary until the replica can be used again", extra={"fields": fields}
            )


def wait_for_replica(primary: "Connection[Row]", url: str, **connect_options: Any) -> None:
    """Wait until the replica has what was written so far, or is so late that no process reads from it."""
    deadline = time.monotonic() + MAX_LAG_SECONDS
    lsn = _lsn(primary.execute(_PRIMARY_LSN).fetchone())
    primary.rollback()
    while time.monotonic() < deadline:
        try:
            with psycopg.connect(url, autocommit=True, **connect_options) as replica:
                while time.monotonic() < deadline:
                    if has_reached(_lsn(replica.execute(_REPLAY_LSN).fetchone()), lsn):
                        return
                    time.sleep(0.02)
        except (psycopg.Error, _NotAReplica):
            time.sleep(REPLICA_POLL_SECONDS)
    log.warning(
        "the replica is %g seconds behind, or away; until it has caught up servers read from the primary",
        MAX_LAG_SECONDS,
    )
