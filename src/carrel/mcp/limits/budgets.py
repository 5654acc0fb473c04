"""How long the calls of one client may take together: for tools whose calls can cost very different amounts of work."""

import time
from collections import deque
from collections.abc import Callable

from carrel.mcp.limits.rates import SWEEP_EVERY, WINDOW_SECONDS, whole_seconds


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
        calls = self._live(client, now)
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
        if len(self._spent) >= SWEEP_EVERY:
            self._spent = {key: calls for key, calls in self._spent.items() if calls[-1][0] > now - WINDOW_SECONDS}
        self._spent.setdefault(client, deque()).append((now, seconds))

    def _live(self, client: str, now: float) -> deque[tuple[float, float]]:
        calls = self._spent.get(client, deque())
        while calls and calls[0][0] <= now - WINDOW_SECONDS:
            calls.popleft()
        if not calls:
            self._spent.pop(client, None)
        return calls
