"""Whether a call may begin: not too many of a client at once, and not too often."""

from collections.abc import Mapping

from carrel.mcp.limits.budgets import TimeBudget
from carrel.mcp.limits.rates import RateLimiter
from carrel.mcp.limits.shared import Lease, SharedLimits

BUSY_RETRY_SECONDS = 1


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
        self._under_way: dict[str, int] = {}

    def call(self, client: str, tool: str) -> "CallUnderWay":
        """Wherever its limits are kept."""
        return CallUnderWay(self, client, tool)

    def begin(self, client: str, tool: str) -> int | None:
        """None, and the call is under way until `leave`; or the seconds after which to try again. By what this process
        counts: for where nothing is shared."""
        if not self.enter(client):
            return BUSY_RETRY_SECONDS
        if (seconds := self.rates.retry_after(client, tool)) is not None:
            self.leave(client)
        return seconds

    def enter(self, client: str) -> bool:
        """Whether one more call of a client may be under way in this process, which it then is until `leave`."""
        if not self._concurrent:
            return True
        under_way = self._under_way.get(client, 0)
        if under_way >= self._concurrent:
            return False
        self._under_way[client] = under_way + 1
        return True

    def leave(self, client: str) -> None:
        """Once for each `enter` that was let in."""
        if not self._concurrent:
            return
        left = self._under_way[client] - 1
        if left:
            self._under_way[client] = left
        else:
            del self._under_way[client]


class CallUnderWay:
    """`begin` says whether the call may go on, and `end`, once or more, that it is over: or use it as a context."""

    __slots__ = ("_client", "_has_entered", "_lease", "_limits", "_tool")

    def __init__(self, limits: CallLimits, client: str, tool: str) -> None:
        self._limits = limits
        self._client = client
        self._tool = tool
        self._has_entered = False
        self._lease: Lease | None = None

    async def begin(self) -> int | None:
        """None; or the seconds after which to try again, and the call is not to go on."""
        limits, client, shared = self._limits, self._client, self._limits.shared
        if shared is None:
            seconds = limits.begin(client, self._tool)
            self._has_entered = seconds is None
            return seconds
        if not limits.enter(client):
            return BUSY_RETRY_SECONDS
        self._has_entered = True
        self._lease = await shared.begin(client)
        return BUSY_RETRY_SECONDS if self._lease is None else await shared.retry_after(client, self._tool)

    async def end(self) -> None:
        if self._has_entered:
            self._has_entered = False
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
