"""Rates that several servers keep together."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from carrel.errors import StoreError
from carrel.mcp.limits.rates import RateLimiter, whole_seconds

log = logging.getLogger("carrel.limits")

REST_SECONDS = 5.0
"""After a failure the store is left alone for so long: calls must not wait for what does not answer."""
WARN_EVERY_SECONDS = 60.0
LONGEST_KEY = 200


class Windows(Protocol):
    """A store that counts the calls of the last minute, for all who use it and by its own clock."""

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        """None, and the call is counted; or after how many seconds the next one is allowed. 0 is no limit.

        Never counts more calls within a minute than a limit allows. Raises `StoreError` when it cannot tell.
        """
        ...

    async def close(self) -> None: ...


class SharedRates:
    """While the store cannot be reached, each process keeps the same limits alone, and says so once a minute."""

    def __init__(self, windows: Windows, alone: RateLimiter, clock: Callable[[], float] = time.monotonic) -> None:
        self._windows = windows
        self._alone = alone
        self._clock = clock
        self._rests_until = -math.inf
        self._warned_at = -math.inf
        self._asking: set[asyncio.Task[float | None]] = set()

    async def retry_after(self, client: str, tool: str) -> int | None:
        of_tool, of_client = self._alone.of_tool(tool), self._alone.of_client
        if not of_tool and not of_client:
            return None
        if self._clock() < self._rests_until:
            return self._alone.retry_after(client, tool)
        try:
            wait = await self._ask(self._windows.admit(_key(client), tool, of_tool=of_tool, of_client=of_client))
        except StoreError as error:
            self._rest(error)
            return self._alone.retry_after(client, tool)
        return None if wait is None else whole_seconds(wait)

    async def close(self) -> None:
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._windows.close()

    async def _ask(self, question: Coroutine[Any, Any, float | None]) -> float | None:
        """To its end, which is near, also when the call is cancelled: connections go back whole."""
        task = asyncio.create_task(question)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return await asyncio.shield(task)

    def _rest(self, error: StoreError) -> None:
        now = self._clock()
        self._rests_until = now + REST_SECONDS
        if now - self._warned_at >= WARN_EVERY_SECONDS:
            self._warned_at = now
            log.warning("limits are kept by this process alone, the shared store does not answer: %s", error)


def _key(client: str) -> str:
    """A client as stores can keep it; a subject may be of any length."""
    if len(client) <= LONGEST_KEY and client.isprintable():
        return client
    return f"sha256:{hashlib.sha256(client.encode('utf-8', 'surrogatepass')).hexdigest()}"
