"""Rate limits over a true sliding minute, in this process or shared by several servers."""

import asyncio
import hashlib
import logging
import math
import re
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from carrel.errors import SettingsError, StoreError

WINDOW_SECONDS = 60.0
SWEEP_INTERVAL_CALLS = 4096
ALL_TOOLS = ""
"""Stands for the tool where a client's calls are counted over all of them."""


class RateLimiter:
    """`by_tool` holds the tools that have a limit of their own, `of_client` is for all calls together; 0 is none."""

    def __init__(
        self,
        calls_a_minute: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        by_tool: Mapping[str, int] | None = None,
        of_client: int = 0,
    ) -> None:
        self.of_client = of_client
        self._limit = calls_a_minute
        self._by_tool = by_tool or {}
        self._clock = clock
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._calls_until_sweep = SWEEP_INTERVAL_CALLS

    def of_tool(self, tool: str) -> int:
        return self._by_tool.get(tool, self._limit)

    def retry_after(self, client: str, tool: str) -> int | None:
        """None, and the call is counted; or in how many whole seconds the next one is allowed."""
        limit = self._by_tool.get(tool, self._limit)
        if not limit and not self.of_client:
            return None
        now = self._clock()
        self._sweep(now)
        here = self._recent_calls(client, tool, now) if limit else None
        everywhere = self._recent_calls(client, ALL_TOOLS, now) if self.of_client else None
        waits: list[float] = []
        if here is not None and len(here) >= limit:
            waits.append(here[0] + WINDOW_SECONDS - now)
        if everywhere is not None and len(everywhere) >= self.of_client:
            waits.append(everywhere[0] + WINDOW_SECONDS - now)
        if waits:
            return whole_seconds(max(waits))
        for calls in (here, everywhere):
            if calls is not None:
                calls.append(now)
        return None

    def _recent_calls(self, client: str, tool: str, now: float) -> deque[float]:
        """The calls of the last minute."""
        calls = self._calls.setdefault((client, tool), deque())
        while calls and calls[0] <= now - WINDOW_SECONDS:
            calls.popleft()
        return calls

    def _sweep(self, now: float) -> None:
        """Forget clients that have been quiet for a whole window, so that memory follows the active ones."""
        self._calls_until_sweep -= 1
        if self._calls_until_sweep == 0:
            self._calls_until_sweep = SWEEP_INTERVAL_CALLS
            oldest = now - WINDOW_SECONDS
            self._calls = {key: calls for key, calls in self._calls.items() if calls and calls[-1] > oldest}


def whole_seconds(wait: float) -> int:
    """Never none, nor by a rounding error more than there is to wait at most."""
    return min(max(1, math.ceil(wait)), int(WINDOW_SECONDS))


def tool_rates(entries: Iterable[str], known: Iterable[str]) -> dict[str, int]:
    """What `limits.tools` says: `grep_codebase=60` is 60 calls a minute of each client."""
    rates: dict[str, int] = {}
    names = set(known)
    for entry in entries:
        match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d{1,9})\s*", entry, re.ASCII)
        if match is None:
            raise SettingsError(f"limits.tools has {entry!r}; each must be TOOL=CALLS_A_MINUTE, such as read_file=100")
        if match[1] not in names:
            raise SettingsError(f"limits.tools names {match[1]!r}, but there is no such tool")
        rates[match[1]] = int(match[2])
    return rates


log = logging.getLogger("carrel.limits")

STORE_RETRY_SECONDS = 5.0
"""After a failure the store is left alone for so long: calls must not wait for what does not answer."""
WARNING_INTERVAL_SECONDS = 60.0
MAX_CLIENT_KEY_LENGTH = 200

T = TypeVar("T")


class RateStore(Protocol):
    """A store that counts the calls of the last minute and those under way, for all who use it and by its own clock.

    Each method raises `StoreError` when it cannot tell.
    """

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        """None, and the call is counted; or after how many seconds the next one is allowed. 0 is no limit.

        Never counts more calls within a minute than a limit allows.
        """
        ...

    async def acquire(self, client: str, lease: str, *, most: int) -> bool:
        """Whether the client had fewer than `most` leases, and now has this one: until it is given back or, where its
        process has died, has run out. A lease lasts longer than any call."""
        ...

    async def release(self, client: str, lease: str) -> None:
        """Also one that the client does not have."""
        ...

    async def close(self) -> None: ...


class Lease(NamedTuple):
    """A call under way, as the store has it."""

    client: str
    id: str
    """Empty where the store did not answer, and this process alone counts the call."""


class SharedLimits:
    """While the store cannot be reached, each process keeps the same limits alone, and says so once a minute.

    `concurrent` is how many calls of a client may be under way in all servers; 0 is no limit. `CallLimits` counts those
    of this process in any case.
    """

    def __init__(
        self,
        store: RateStore,
        local: RateLimiter,
        clock: Callable[[], float] = time.monotonic,
        *,
        concurrent: int = 0,
    ) -> None:
        self._store = store
        self._local = local
        self._clock = clock
        self._concurrent = concurrent
        self._paused_until = -math.inf
        self._warned_at = -math.inf
        self._requests: set[asyncio.Task[Any]] = set()
        self._unreleased: list[Lease] = []
        """Leases of calls that ended while the store did not answer."""

    async def retry_after(self, client: str, tool: str) -> int | None:
        of_tool, of_client = self._local.of_tool(tool), self._local.of_client
        if not of_tool and not of_client:
            return None
        if self._is_paused:
            return self._local.retry_after(client, tool)
        try:
            response = self._send(self._store.admit(_key(client), tool, of_tool=of_tool, of_client=of_client))
            wait = await asyncio.shield(response)
        except StoreError as error:
            self._pause(error)
            return self._local.retry_after(client, tool)
        return None if wait is None else whole_seconds(wait)

    async def begin(self, client: str) -> Lease | None:
        """None where the client has as many calls under way as it may; else what to `end` the call with."""
        if not self._concurrent or self._is_paused:
            return Lease(client, "")
        lease = Lease(_key(client), uuid4().hex)
        acquisition = self._send(self._store.acquire(*lease, most=self._concurrent))
        try:
            is_acquired = await asyncio.shield(acquisition)
        except StoreError as error:
            self._pause(error)
            return Lease(client, "")
        except asyncio.CancelledError:
            self._send(self._release_cancelled(acquisition, lease))
            raise
        if self._unreleased:
            unreleased, self._unreleased = self._unreleased, []
            for each in unreleased:
                self._send(self._release(each))
        return lease if is_acquired else None

    async def end(self, lease: Lease) -> None:
        """The next call, of whichever server, finds the room that this one leaves."""
        if lease.id:
            await asyncio.shield(self._send(self._release(lease)))

    async def close(self) -> None:
        while self._requests:
            await asyncio.gather(*self._requests, return_exceptions=True)
        await self._store.close()

    @property
    def _is_paused(self) -> bool:
        return self._clock() < self._paused_until

    def _send(self, request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Shielded, it goes to its end, which is near, also when the call is cancelled: connections go back whole."""
        task = asyncio.create_task(request)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)
        return task

    async def _release(self, lease: Lease) -> None:
        if self._is_paused:
            self._unreleased.append(lease)
            return
        try:
            await self._store.release(*lease)
        except StoreError as error:
            self._unreleased.append(lease)
            self._pause(error)

    async def _release_cancelled(self, acquisition: "asyncio.Task[bool]", lease: Lease) -> None:
        """Of a call that was cancelled while its lease was being taken."""
        await asyncio.wait([acquisition])
        if acquisition.exception() is None and acquisition.result():
            await self._release(lease)

    def _pause(self, error: StoreError) -> None:
        now = self._clock()
        self._paused_until = now + STORE_RETRY_SECONDS
        if now - self._warned_at >= WARNING_INTERVAL_SECONDS:
            self._warned_at = now
            log.warning("limits are kept by this process alone, the shared store does not answer: %s", error)


def _key(client: str) -> str:
    """A client as stores can keep it; a subject may be of any length."""
    if len(client) <= MAX_CLIENT_KEY_LENGTH and client.isprintable():
        return client
    return f"sha256:{hashlib.sha256(client.encode('utf-8', 'surrogatepass')).hexdigest()}"
