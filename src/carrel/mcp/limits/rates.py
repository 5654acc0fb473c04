"""Rate limits: a true sliding minute for each client and tool, and for each client over all its tools."""

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from carrel.errors import SettingsError

WINDOW_SECONDS = 60.0
SWEEP_EVERY = 4096
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
        self._until_sweep = SWEEP_EVERY

    def of_tool(self, tool: str) -> int:
        return self._by_tool.get(tool, self._limit)

    def retry_after(self, client: str, tool: str) -> int | None:
        """None, and the call is counted; or in how many whole seconds the next one is allowed."""
        limit = self._by_tool.get(tool, self._limit)
        if not limit and not self.of_client:
            return None
        now = self._clock()
        self._sweep(now)
        here = self._live(client, tool, now) if limit else None
        everywhere = self._live(client, ALL_TOOLS, now) if self.of_client else None
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

    def _live(self, client: str, tool: str, now: float) -> deque[float]:
        """The calls of the last minute."""
        calls = self._calls.setdefault((client, tool), deque())
        while calls and calls[0] <= now - WINDOW_SECONDS:
            calls.popleft()
        return calls

    def _sweep(self, now: float) -> None:
        """Forget clients that have been quiet for a whole window, so that memory follows the active ones."""
        self._until_sweep -= 1
        if self._until_sweep == 0:
            self._until_sweep = SWEEP_EVERY
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
