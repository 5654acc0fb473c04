"""How often an address may fail to sign in."""

import math
import time
from collections import deque
from collections.abc import Callable

from carrel.doors.addresses import network_of

WINDOW_SECONDS = 60.0
SWEEP_SIZE = 4096


class Attempts:
    """Counts failed sign-ins by address, in this process, over a sliding minute.

    Requests with a token in their header are not counted: a token has 256 random bits or a signature, and a client
    whose token has expired needs its 401 to fetch another, also behind an address that many share.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`per_minute` 0 sets no limit."""
        self._limit = per_minute
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def retry_after(self, address: str) -> int | None:
        """None if the address may try to sign in, else the seconds until it may."""
        if not self._limit or (failures := self._failures.get(network_of(address))) is None:
            return None
        now = self._clock()
        while failures and failures[0] <= now - WINDOW_SECONDS:
            failures.popleft()
        if len(failures) < self._limit:
            return None
        return max(1, math.ceil(failures[-self._limit] + WINDOW_SECONDS - now))

    def failed(self, address: str) -> None:
        if not self._limit:
            return
        now = self._clock()
        if len(self._failures) >= SWEEP_SIZE:
            self._failures = {key: each for key, each in self._failures.items() if each[-1] > now - WINDOW_SECONDS}
        self._failures.setdefault(network_of(address), deque(maxlen=self._limit)).append(now)
