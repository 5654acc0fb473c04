"""Calls of all processes at a desk, counted in the database: what `carrel status` shows."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from carrel.calls.call_store import BUCKET_COUNT, CallStore, Series, bucket_seconds
from carrel.errors import StoreError
from carrel.storage.database import Database, Session

log = logging.getLogger("carrel.calls")

WRITE_DELAY_SECONDS = 1.0
WRITE_RETRY_SECONDS = 10.0
CLOSE_TIMEOUT_SECONDS = 3.0
MAX_POLLS, POLL_INTERVAL_SECONDS = (
    15,
    0.02,
)  # together less than WRITE_DELAY_SECONDS, so that nothing new is begun meanwhile

_UPSERT = """
    INSERT INTO call_tally (desk, toolset, tool, outcome, duration, calls)
    VALUES (:desk, :toolset, :tool, :outcome, :duration, :calls)
    ON CONFLICT (desk, toolset, tool, outcome, duration) DO UPDATE SET calls = call_tally.calls + excluded.calls
"""
_SELECT_ALL = "SELECT toolset, tool, outcome, duration, calls FROM call_tally WHERE desk = :desk"


class ToolUse(NamedTuple):
    toolset: str
    tool: str
    calls: int
    errors: int
    """Of the server's own making."""
    refused: int
    limited: int
    p50: float
    """Milliseconds; so are the others."""
    p95: float
    p99: float


class CallCounters:
    """Adds what one process has counted to the database, in the background and a second late."""

    def __init__(self, database: Database, desk: str, calls: CallStore) -> None:
        self._database = database
        self._desk = desk
        self._calls = calls
        self._written: dict[Series, list[int]] = {}
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        calls.on_next_call(self._start)

    async def close(self) -> None:
        """Add what is left, unless the database is stuck: that must not hold up the end."""
        if self._task is None:
            return
        if self._unwritten(self._calls.counts()) and not await self._can_write_soon():
            self._task.cancel()
        self._closing.set()
        with suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._task

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write_soon())

    async def _can_write_soon(self) -> bool:
        """Whoever else writes, this process too, is done in a moment, unless it is stuck."""
        for _ in range(MAX_POLLS):
            if await self._database.can_write():
                return True
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
        return False

    async def _write_soon(self) -> None:
        pause = WRITE_DELAY_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            counts = self._calls.counts()
            added = self._unwritten(counts)
            if not added:
                self._calls.on_next_call(self._start)
                return
            try:
                await self._database.write(lambda session, some=added: self._add(session, some))
                self._written = counts
                pause = WRITE_DELAY_SECONDS
            except StoreError as error:
                log.debug("calls are counted in memory until the database takes them: %s", error)
                if self._closing.is_set():
                    return
                pause = WRITE_RETRY_SECONDS

    def _unwritten(self, counts: dict[Series, list[int]]) -> dict[tuple[Series, int], int]:
        """Calls that the database does not know of, by series and bucket of duration."""
        nothing = [0] * BUCKET_COUNT
        return {
            (series, bucket): count - stored
            for series, found in counts.items()
            if series.outcome != "cancelled" and found != (written := self._written.get(series, nothing))
            for bucket, (count, stored) in enumerate(zip(found, written, strict=True))
            if count != stored
        }

    async def _add(self, session: Session, added: dict[tuple[Series, int], int]) -> None:
        for (series, bucket), calls in sorted(added.items()):  # in one order everywhere, against deadlocks
            await session.all(_UPSERT, {"desk": self._desk, **series._asdict(), "duration": bucket, "calls": calls})


async def tool_uses(database: Database, desk: str) -> list[ToolUse]:
    """By toolset and tool."""
    rows = await database.read(lambda session: session.all(_SELECT_ALL, {"desk": desk}))
    by_tool: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for toolset, tool, outcome, duration, calls in rows:
        by_tool.setdefault((toolset, tool), []).append((outcome, duration, calls))
    return [_use(*name, found) for name, found in sorted(by_tool.items())]


def _use(toolset: str, tool: str, found: Iterable[tuple[str, int, int]]) -> ToolUse:
    outcomes: Counter[str] = Counter()
    buckets: Counter[int] = Counter()
    for outcome, bucket, calls in found:
        outcomes[outcome] += calls
        buckets[bucket] += calls
    percentiles = (round(1000 * _percentile(buckets, share), 3) for share in (0.5, 0.95, 0.99))
    return ToolUse(
        toolset, tool, outcomes.total(), outcomes["failed"], outcomes["refused"], outcomes["limited"], *percentiles
    )


def _percentile(buckets: Counter[int], share: float) -> float:
    wanted = math.ceil(share * buckets.total())
    seen = 0
    for bucket, count in sorted(buckets.items()):
        seen += count
        if seen >= wanted:
            return bucket_seconds(bucket)
    return 0.0
