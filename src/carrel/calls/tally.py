"""Calls are counted in memory by how long they took, and added to the database in the background."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from carrel.errors import StoreError
from carrel.storage.database import Database, Session

log = logging.getLogger("carrel.calls")

LATE_SECONDS = 1.0
RETRY_SECONDS = 10.0
CLOSE_SECONDS = 3.0
LOOKS, LOOK_SECONDS = 15, 0.02  # together less than LATE_SECONDS, so that nothing new is begun meanwhile
STEPS = 8
"""Sizes of durations between one and twice as long: a percentile is at most 5 % off."""
SHORTEST = 1e-6

_ADD = """
    INSERT INTO call_tally (desk, toolset, tool, outcome, duration, calls)
    VALUES (:desk, :toolset, :tool, :outcome, :duration, :calls)
    ON CONFLICT (desk, toolset, tool, outcome, duration) DO UPDATE SET calls = call_tally.calls + excluded.calls
"""
_ALL = "SELECT toolset, tool, outcome, duration, calls FROM call_tally WHERE desk = :desk"


class Kind(NamedTuple):
    toolset: str
    tool: str
    outcome: str
    duration: int
    """The number of its size, see `size_of`."""


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


def size_of(seconds: float) -> int:
    return max(0, math.floor(math.log2(max(seconds, SHORTEST) / SHORTEST) * STEPS))


def seconds_of(size: int) -> float:
    """The middle of a size."""
    return SHORTEST * 2 ** ((size + 0.5) / STEPS)


class CallTally:
    """The calls of one process at one desk."""

    def __init__(self, database: Database, desk: str) -> None:
        self._database = database
        self._desk = desk
        self._waiting: Counter[Kind] = Counter()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def note(self, toolset: str, tool: str, outcome: str, seconds: float) -> None:
        """To be called on the event loop."""
        self._waiting[Kind(toolset, tool, outcome, size_of(seconds))] += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_soon())

    async def close(self) -> None:
        """Add what is left, unless the database is stuck: that must not hold up the end."""
        if self._task is None:
            return
        if self._waiting and not await self._can_write_soon():
            self._task.cancel()
        self._closing.set()
        with suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._task

    async def _can_write_soon(self) -> bool:
        """Whoever else writes, this process too, is done in a moment, unless it is stuck."""
        for _ in range(LOOKS):
            if await self._database.can_write():
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    async def _write_soon(self) -> None:
        pause = LATE_SECONDS
        while self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            waiting, self._waiting = self._waiting, Counter[Kind]()
            try:
                await self._database.write(lambda session, some=waiting: self._add(session, some))
                pause = LATE_SECONDS
            except StoreError as error:
                self._waiting.update(waiting)
                log.debug("calls are counted in memory until the database takes them: %s", error)
                if self._closing.is_set():
                    return
                pause = RETRY_SECONDS

    async def _add(self, session: Session, calls: Counter[Kind]) -> None:
        for kind, count in sorted(calls.items()):  # in one order everywhere, so that no two wait for each other
            await session.all(_ADD, {"desk": self._desk, **kind._asdict(), "calls": count})


async def tool_uses(database: Database, desk: str) -> list[ToolUse]:
    """By toolset and tool."""
    rows = await database.read(lambda session: session.all(_ALL, {"desk": desk}))
    by_tool: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for toolset, tool, outcome, duration, calls in rows:
        by_tool.setdefault((toolset, tool), []).append((outcome, duration, calls))
    return [_use(*name, found) for name, found in sorted(by_tool.items())]


def _use(toolset: str, tool: str, found: Iterable[tuple[str, int, int]]) -> ToolUse:
    outcomes: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    for outcome, size, calls in found:
        outcomes[outcome] += calls
        sizes[size] += calls
    percentiles = (round(1000 * _percentile(sizes, share), 3) for share in (0.5, 0.95, 0.99))
    return ToolUse(
        toolset, tool, outcomes.total(), outcomes["failed"], outcomes["refused"], outcomes["limited"], *percentiles
    )


def _percentile(sizes: Counter[int], share: float) -> float:
    wanted = math.ceil(share * sizes.total())
    seen = 0
    for size, count in sorted(sizes.items()):
        seen += count
        if seen >= wanted:
            return seconds_of(size)
    return 0.0
