"""Rate limits: a true sliding minute for each client and tool."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping

WINDOW_SECONDS = 60.0
SWEEP_EVERY = 4096


class RateLimiter:
    """`by_tool` holds the tools that have a limit of their own; 0 is none."""

    def __init__(
        self,
        calls_a_minute: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        by_tool: Mapping[str, int] | None = None,
    ) -> None:
        self._limit = calls_a_minute
        self._by_tool = by_tool or {}
        self._clock = clock
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._until_sweep = SWEEP_EVERY

    def retry_after(self, client: str, tool: str) -> int | None:
        """None, and the call is counted; or in how many whole seconds the next one is allowed."""
        limit = self._by_tool.get(tool, self._limit)
        if not limit:
            return None
        now = self._clock()
        self._sweep(now)
        calls = self._calls.setdefault((client, tool), deque())
        while calls and calls[0] <= now - WINDOW_SECONDS:
            calls.popleft()
        if len(calls) < limit:
            calls.append(now)
            return None
        return max(1, math.ceil(calls[0] + WINDOW_SECONDS - now))

    def _sweep(self, now: float) -> None:
        """Forget clients that have been quiet for a whole window, so that memory follows the active ones."""
        self._until_sweep -= 1
        if self._until_sweep == 0:
            self._until_sweep = SWEEP_EVERY
            self._calls = {key: calls for key, calls in self._calls.items() if calls[-1] > now - WINDOW_SECONDS}
