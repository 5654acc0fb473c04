"""The limits of a workspace, as its settings have them."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from carrel.errors import SettingsError
from carrel.mcp.limits import CallLimits, RateLimiter, SharedLimits, TimeBudget, Windows, tool_rates
from carrel.mcp.toolset import tool_names
from carrel.storage.location import Location, PostgresLocation
from carrel.workspace.names import TOOLSETS

if TYPE_CHECKING:
    from carrel.mcp.limits.connections import ConnectionLimits
    from carrel.mcp.limits.requests import RequestLimits
    from carrel.settings import LimitsSettings, Settings

OTHER_CALLS = ("api", "page")
"""What is limited as tools are: requests of `/api` that no tool is like, and the page's for data."""
REQUEST_LINE_BYTES = 64
"""The method and the version beside the URL, with some room."""
LEASE_MARGIN_SECONDS = 5.0
"""A call under way is counted for so much longer than it may take, where its server has died and cannot say more."""


async def open_limits(settings: "Settings", location: Location, stack: AsyncExitStack) -> CallLimits:
    """Those of calls. What is opened for it is closed with the stack."""
    limits = settings.limits
    rates = RateLimiter(settings.server.rate_limit, by_tool=_by_tool(settings), of_client=limits.calls_a_minute)
    shared = None
    if (windows := await _windows(limits, location, settings.server.call_timeout + LEASE_MARGIN_SECONDS)) is not None:
        shared = SharedLimits(windows, rates, concurrent=limits.concurrent_calls)
        stack.push_async_callback(shared.close)
    grep_seconds = settings.code_limits.grep_seconds
    return CallLimits(
        rates,
        shared,
        concurrent=limits.concurrent_calls,
        result_bytes=limits.result_bytes,
        budgets={"grep_codebase": TimeBudget(grep_seconds)} if grep_seconds else {},
    )


def request_limits(settings: "Settings") -> "RequestLimits":
    from carrel.mcp.limits.requests import RequestLimits

    limits = settings.limits
    return RequestLimits(limits.body_bytes, limits.header_bytes, limits.url_bytes)


def connection_limits(settings: "Settings") -> "ConnectionLimits":
    from carrel.mcp.limits.connections import ConnectionLimits

    limits = settings.limits
    return ConnectionLimits(
        # A header is four bytes longer on the wire than its name and value, and may be as short as one.
        head_bytes=limits.url_bytes + REQUEST_LINE_BYTES + 4 * limits.header_bytes,
        body_bytes=limits.body_bytes,
        header_timeout=limits.header_timeout,
        body_timeout=limits.body_timeout,
        send_timeout=limits.send_timeout,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
    )


def _by_tool(settings: "Settings") -> dict[str, int]:
    code = settings.code_limits
    by_tool = {
        "context_search": code.context_search,
        "read_file": code.read_file,
        "grep_codebase": code.grep_codebase,
    }
    if settings.limits.tools:
        known = [name for toolset in TOOLSETS for name in tool_names(f"carrel.toolsets.{toolset}")]
        by_tool |= tool_rates(settings.limits.tools, [*known, *OTHER_CALLS])
    return by_tool


async def _windows(limits: "LimitsSettings", location: Location, lease_seconds: float) -> Windows | None:
    match limits.storage:
        case "database":
            if not isinstance(location, PostgresLocation):
                raise SettingsError(
                    "limits.storage: database needs PostgreSQL, and database.url is a SQLite file; "
                    "set limits.storage to memory or redis"
                )
            from carrel.storage.postgres_windows import PostgresWindows

            return await PostgresWindows.open(location.url, lease_seconds=lease_seconds)
        case "redis":
            if not limits.redis_url:
                raise SettingsError("limits.storage: redis needs limits.redis_url, or CARREL_LIMITS_REDIS_URL")
            from carrel.storage.redis_windows import RedisWindows

            return RedisWindows(limits.redis_url, lease_seconds=lease_seconds)
        case _:
            return None
