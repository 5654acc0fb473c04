"""What several servers count together: rates, and calls under way."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from carrel.errors import StoreError
from carrel.mcp.limits.rates import RateLimiter, whole_seconds

log = logging.getLogger("carrel.limits")

REST_SECONDS = 5.0
"""After a failure the store is left alone for so long: calls must not wait for what does not answer."""
WARN_EVERY_SECONDS = 60.0
LONGEST_KEY = 200

T = TypeVar("T")


class Windows(Protocol):
    """A store that counts the calls of the last minute and those under way, for all who use it and by its own clock.

    Each method raises `StoreError` when it cannot tell.
    """

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        """None, and the call is counted; or after how many seconds the next one is allowed. 0 is no limit.

        Never counts more calls within a minute than a limit allows.
        """
        ...

    async def take(self, client: str, lease: str, *, most: int) -> bool:
        """Whether the client had fewer than `most` leases, and now has this one: until it is given back or, where its
        process has died, has run out. A lease lasts longer than any call."""
        ...

    async def give_back(self, client: str, lease: str) -> None:
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
        windows: Windows,
        alone: RateLimiter,
        clock: Callable[[], float] = time.monotonic,
        *,
        concurrent: int = 0,
    ) -> None:
        self._windows = windows
        self._alone = alone
        self._clock = clock
        self._concurrent = concurrent
        self._rests_until = -math.inf
        self._warned_at = -math.inf
        self._asking: set[asyncio.Task[Any]] = set()
        self._owed: list[Lease] = []
        """Leases of calls that ended while the store did not answer."""

    async def retry_after(self, client: str, tool: str) -> int | None:
        of_tool, of_client = self._alone.of_tool(tool), self._alone.of_client
        if not of_tool and not of_client:
            return None
        if self._is_resting:
            return self._alone.retry_after(client, tool)
        try:
            asked = self._ask(self._windows.admit(_key(client), tool, of_tool=of_tool, of_client=of_client))
            wait = await asyncio.shield(asked)
        except StoreError as error:
            self._rest(error)
            return self._alone.retry_after(client, tool)
        return None if wait is None else whole_seconds(wait)

    async def begin(self, client: str) -> Lease | None:
        """None where the client has as many calls under way as it may; else what to `end` the call with."""
        if not self._concurrent or self._is_resting:
            return Lease(client, "")
        lease = Lease(_key(client), uuid4().hex)
        taking = self._ask(self._windows.take(*lease, most=self._concurrent))
        try:
            is_taken = await asyncio.shield(taking)
        except StoreError as error:
            self._rest(error)
            return Lease(client, "")
        except asyncio.CancelledError:
            self._ask(self._take_back(taking, lease))
            raise
        if self._owed:
            owed, self._owed = self._owed, []
            for each in owed:
                self._ask(self._give_back(each))
        return lease if is_taken else None

    async def end(self, lease: Lease) -> None:
        """The next call, of whichever server, finds the room that this one leaves."""
        if lease.id:
            await asyncio.shield(self._ask(self._give_back(lease)))

    async def close(self) -> None:
        while self._asking:
            await asyncio.gather(*self._asking, return_exceptions=True)
        await self._windows.close()

    @property
    def _is_resting(self) -> bool:
        return self._clock() < self._rests_until

    def _ask(self, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Shielded, it goes to its end, which is near, also when the call is cancelled: connections go back whole."""
        task = asyncio.create_task(question)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    async def _give_back(self, lease: Lease) -> None:
        if self._is_resting:
            self._owed.append(lease)
            return
        try:
            await self._windows.give_back(*lease)
        except StoreError as error:
            self._owed.append(lease)
            self._rest(error)

    async def _take_back(self, taking: "asyncio.Task[bool]", lease: Lease) -> None:
        """Of a call that was cancelled while its lease was being taken."""
        await asyncio.wait([taking])
        if taking.exception() is None and taking.result():
            await self._give_back(lease)

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
