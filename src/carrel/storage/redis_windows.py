"""Calls of the last minute, counted in Redis.

The `limits` package's moving window is exact too, but goes by the clock of whichever server asks, cannot hold two
limits at once, and asks a second time for how long to wait. This script does it in one visit by Redis's own clock.
"""

from typing import Any

from carrel.errors import MissingExtra, SettingsError, StoreUnavailable

try:
    from redis.asyncio import Redis
    from redis.exceptions import RedisError
except ImportError as error:
    raise MissingExtra("redis", "limits.storage = redis") from error

PATIENCE_SECONDS = 2.0

# Each key is a list of the times of calls, the oldest first; both of a client are in one slot of a cluster.
_ADMIT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local wait = 0
for i, key in ipairs(KEYS) do
    local limit = tonumber(ARGV[i])
    if limit > 0 then
        local newest = redis.call('LINDEX', key, -1)
        if newest and tonumber(newest) > now then -- the clock was put back: what lies ahead counts as now
            local calls = redis.call('LLEN', key)
            redis.call('DEL', key)
            for _ = 1, calls do redis.call('RPUSH', key, string.format('%.0f', now)) end
            redis.call('PEXPIRE', key, 60000)
        end
        local oldest = redis.call('LINDEX', key, 0)
        while oldest and tonumber(oldest) <= now - 60000000 do
            redis.call('LPOP', key)
            oldest = redis.call('LINDEX', key, 0)
        end
        if oldest and redis.call('LLEN', key) >= limit then
            wait = math.max(wait, tonumber(oldest) + 60000000 - now)
        end
    end
end
if wait == 0 then
    for i, key in ipairs(KEYS) do
        if tonumber(ARGV[i]) > 0 then
            redis.call('RPUSH', key, string.format('%.0f', now))
            redis.call('PEXPIRE', key, 61000)
        end
    end
end
return wait
"""


class RedisWindows:
    def __init__(self, url: str) -> None:
        """Does not connect yet: without Redis, limits are kept by each process alone."""
        try:
            self._redis: Any = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - redis leaves its options untyped
                url, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS
            )
        except ValueError as error:  # its text may hold a part of the URL
            raise SettingsError("limits.redis_url cannot be used") from error
        self._admit: Any = self._redis.register_script(_ADMIT)

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        # Braces in a client's name would move the slot.
        start = f"carrel:limits:{{{client.replace('{', '%7B').replace('}', '%7D')}}}:"
        try:
            wait = await self._admit(keys=[start + tool, start], args=[of_tool, of_client])
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"Redis: {error}") from error
        return wait / 1e6 if wait else None

    async def close(self) -> None:
        await self._redis.aclose()
