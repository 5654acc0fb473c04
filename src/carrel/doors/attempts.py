"""How many invalid tokens an address may show."""

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from hashlib import sha256

from carrel.doors.addresses import network_of

WINDOW_SECONDS = 60.0
MAX_KNOWN_TOKENS = 10_000
SWEEP_SIZE = 4096


class Attempts:
    """Counts invalid tokens by address, in this process, over a sliding minute.

    A token that has been valid is still checked when its address has reached the limit: whoever guesses from behind a
    proxy or a shared address locks out nobody who is already in.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`per_minute` 0 sets no limit."""
        self._limit = per_minute
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Digests of tokens that were valid when they were last shown, the least recent first."""

    def retry_after(self, address: str, token: str) -> int | None:
        """None if the token may be checked, else the seconds until the next one may."""
        if not self._limit or (failures := self._failures.get(network_of(address))) is None:
            return None
        now = self._clock()
        while failures and failures[0] <= now - WINDOW_SECONDS:
            failures.popleft()
        if len(failures) < self._limit or _digest(token) in self._known:
            return None
        return max(1, math.ceil(failures[-self._limit] + WINDOW_SECONDS - now))

    def succeeded(self, token: str) -> None:
        if not self._limit:
            return
        digest = _digest(token)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > MAX_KNOWN_TOKENS:
            self._known.popitem(last=False)

    def failed(self, address: str, token: str) -> None:
        if not self._limit:
            return
        self._known.pop(_digest(token), None)
        now = self._clock()
        if len(self._failures) >= SWEEP_SIZE:
            self._failures = {key: each for key, each in self._failures.items() if each[-1] > now - WINDOW_SECONDS}
        self._failures.setdefault(network_of(address), deque(maxlen=self._limit)).append(now)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
