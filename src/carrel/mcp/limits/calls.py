"""Whether a call may begin: not too many of a client at once, and not too often."""

from carrel.mcp.limits.rates import RateLimiter
from carrel.mcp.limits.shared import SharedRates

BUSY_RETRY_SECONDS = 1


class CallLimits:
    """One for a process, whatever its endpoints. `begin` first, then the rates, and `end` whatever happened in between.

    `concurrent` is how many calls of one client may be under way, `result_bytes` how large a result may be as JSON;
    0 is no limit.
    """

    def __init__(
        self, rates: RateLimiter, shared: SharedRates | None = None, *, concurrent: int = 0, result_bytes: int = 0
    ) -> None:
        self.rates = rates
        self.shared = shared
        """Set where the rates are kept together with other servers; else `rates` has them."""
        self.result_bytes = result_bytes
        self._concurrent = concurrent
        self._under_way: dict[str, int] = {}

    def begin(self, client: str) -> int | None:
        """None, and the call is under way until `end`; or the seconds after which to try again."""
        if not self._concurrent:
            return None
        under_way = self._under_way.get(client, 0)
        if under_way >= self._concurrent:
            return BUSY_RETRY_SECONDS
        self._under_way[client] = under_way + 1
        return None

    def end(self, client: str) -> None:
        """Once for each `begin` that returned None."""
        if not self._concurrent:
            return
        left = self._under_way[client] - 1
        if left:
            self._under_way[client] = left
        else:
            del self._under_way[client]
