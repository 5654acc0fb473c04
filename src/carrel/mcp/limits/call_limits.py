"""Limits of calls: how many at once, how long each and all of a client's together, and how large a result."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from carrel.mcp.limits.rate_limits import (
    SWEEP_INTERVAL_CALLS,
    WINDOW_SECONDS,
    Lease,
    RateLimiter,
    SharedLimits,
    whole_seconds,
)
from carrel.mcp.toolset import Tool

_NARROWING_ARGUMENTS = {
    "limit": "a smaller limit",
    "depth": "a smaller depth",
    "relationshipTypes": "fewer relationshipTypes",
    "maxDepth": "a smaller maxDepth",
    "includeDeps": "includeDeps false",
    "status": "one status",
}
"""Arguments with which one gets less, and how."""
MAX_UTF8_BYTES = 4


def too_large(tool: Tool, text: str, most: int) -> str | None:
    """None for a result that fits; 0 is no limit, and a tool that has written always gets to say so."""
    if not most or len(text) * MAX_UTF8_BYTES <= most or tool.writes or (size := len(text.encode())) <= most:
        return None
    message = f"{tool.name}: the result has {size} bytes, more than the {most} that limits.result_bytes allows"
    properties = tool.definition["inputSchema"].get("properties", {})
    ways = [way for argument, way in _NARROWING_ARGUMENTS.items() if argument in properties]
    return f"{message}; ask for less, with {' or '.join(ways)}" if ways else message


class TimeBudget:
    """Seconds that calls of one tool may take within a sliding minute, for each client, in this process.

    A call counts once it has ended, however it ended. One that begins within the budget may exceed it.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._spent: dict[str, deque[tuple[float, float]]] = {}
        """When each call ended and how long it took, by client."""

    def retry_after(self, client: str) -> int | None:
        """None if a call may begin, else the seconds after which one may."""
        now = self._clock()
        calls = self._recent_calls(client, now)
        left = sum(taken for _, taken in calls) - self._seconds
        if left < 0:
            return None
        for ended, taken in calls:
            left -= taken
            if left < 0:
                return whole_seconds(ended + WINDOW_SECONDS - now)
        return int(WINDOW_SECONDS)

    def spend(self, client: str, seconds: float) -> None:
        now = self._clock()
        if len(self._spent) >= SWEEP_INTERVAL_CALLS:
            self._spent = {key: calls for key, calls in self._spent.items() if calls[-1][0] > now - WINDOW_SECONDS}
        self._spent.setdefault(client, deque()).append((now, seconds))

    def _recent_calls(self, client: str, now: float) -> deque[tuple[float, float]]:
        calls = self._spent.get(client, deque())
        while calls and calls[0][0] <= now - WINDOW_SECONDS:
            calls.popleft()
        if not calls:
            self._spent.pop(client, None)
        return calls


class Deadlines:
    """All last equally long, so the call that began first is always the next to run out."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[Deadline, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one that a timer runs on; None while there is no timer."""

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that there is a timer."""
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self.seconds, self._expire)

    def _expire(self) -> None:
        now = time.monotonic()
        for deadline in list(self.running):
            if deadline.at > now:
                asyncio.get_running_loop().call_later(deadline.at - now, self._expire)
                return
            del self.running[deadline]
            deadline.expire()
        self._loop = None


class Deadline:
    """A context whose body is cancelled when time is up: then it raises `TimeoutError`, like `asyncio.timeout`."""

    __slots__ = ("_cancelling", "_deadlines", "_task", "at", "is_expired")

    _task: asyncio.Task[Any]

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self.is_expired = False

    def __enter__(self) -> "Deadline":
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a deadline is for use inside a task")
        self._task = task
        self._cancelling = task.cancelling()
        self.at = time.monotonic() + self._deadlines.seconds
        self._deadlines.running[self] = None
        self._deadlines.watch(loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if not self.is_expired:
            self.lift()
        # A cancellation that was asked for before, or meanwhile by somebody else, goes on.
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def lift(self) -> None:
        """The body may take as long as it needs: what it has begun is better finished than given up."""
        self._deadlines.running.pop(self, None)

    def expire(self) -> None:
        self.is_expired = True
        self._task.cancel()


CONCURRENCY_RETRY_SECONDS = 1


class CallLimits:
    """One for a process, whatever its endpoints.

    `concurrent` is how many calls of one client may be under way, `result_bytes` how large a result may be as JSON;
    0 is no limit.
    """

    def __init__(
        self,
        rates: RateLimiter,
        shared: SharedLimits | None = None,
        *,
        concurrent: int = 0,
        result_bytes: int = 0,
        budgets: Mapping[str, TimeBudget] | None = None,
    ) -> None:
        self.rates = rates
        self.budgets = budgets or {}
        """By tool, for those that have one."""
        self.shared = shared
        """Set where limits are kept together with other servers: rates then there and not in `rates`, and calls under
        way there as well as here."""
        self.result_bytes = result_bytes
        self._concurrent = concurrent
        self._in_flight: dict[str, int] = {}

    def call(self, client: str, tool: str) -> "CallAdmission":
        """Wherever its limits are kept."""
        return CallAdmission(self, client, tool)

    def begin(self, client: str, tool: str) -> int | None:
        """None, and the call is under way until `leave`; or the seconds after which to try again. By what this process
        counts: for where nothing is shared."""
        if not self.enter(client):
            return CONCURRENCY_RETRY_SECONDS
        if (seconds := self.rates.retry_after(client, tool)) is not None:
            self.leave(client)
        return seconds

    def enter(self, client: str) -> bool:
        """Whether one more call of a client may be under way in this process, which it then is until `leave`."""
        if not self._concurrent:
            return True
        in_flight = self._in_flight.get(client, 0)
        if in_flight >= self._concurrent:
            return False
        self._in_flight[client] = in_flight + 1
        return True

    def leave(self, client: str) -> None:
        """Once for each `enter` that was let in."""
        if not self._concurrent:
            return
        left = self._in_flight[client] - 1
        if left:
            self._in_flight[client] = left
        else:
            del self._in_flight[client]


class CallAdmission:
    """`begin` says whether the call may go on, and `end`, once or more, that it is over: or use it as a context."""

    __slots__ = ("_client", "_is_counted", "_lease", "_limits", "_tool")

    def __init__(self, limits: CallLimits, client: str, tool: str) -> None:
        self._limits = limits
        self._client = client
        self._tool = tool
        self._is_counted = False
        self._lease: Lease | None = None

    async def begin(self) -> int | None:
        """None; or the seconds after which to try again, and the call is not to go on."""
        limits, client, shared = self._limits, self._client, self._limits.shared
        if shared is None:
            seconds = limits.begin(client, self._tool)
            self._is_counted = seconds is None
            return seconds
        if not limits.enter(client):
            return CONCURRENCY_RETRY_SECONDS
        self._is_counted = True
        self._lease = await shared.begin(client)
        return CONCURRENCY_RETRY_SECONDS if self._lease is None else await shared.retry_after(client, self._tool)

    async def end(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._limits.leave(self._client)
        if self._lease is not None and self._limits.shared is not None:
            lease, self._lease = self._lease, None
            await self._limits.shared.end(lease)

    async def __aenter__(self) -> int | None:
        try:
            return await self.begin()
        except BaseException:
            await self.end()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.end()
