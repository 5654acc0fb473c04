"""A rate store in Redis: calls of the last minute, and leases on calls in flight.

The `limits` package's moving window is exact too, but uses the clock of the calling server, cannot check two limits
at once, and needs a second round trip for the time to wait. This script needs one, and uses Redis's own clock.
"""

from collections.abc import Awaitable
from typing import Any

from carrel.errors import MissingExtra, SettingsError, StoreUnavailable

try:
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.exceptions import RedisError
except ImportError as error:
    raise MissingExtra("redis", "limits.storage = redis") from error

MAX_CONNECTIONS = 8
"""Round trips are short: more connections would only open in bursts, when Redis is busy enough."""
REDIS_TIMEOUT_SECONDS = 2.0
IN_FLIGHT = "under way"
"""The suffix of the key with a client's leases; other keys of the client end in the name of a tool."""

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
# The key is a sorted set of leases by when they run out; each has behind its id how many microseconds it lasts.
_ACQUIRE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lasts = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local ahead = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + lasts), '+inf', 'WITHSCORES')
for i = 1, #ahead, 2 do -- those that are longer than ours; or the clock was put back, and they count as taken now
    local latest = now + tonumber(string.match(ahead[i], '%d+$'))
    if tonumber(ahead[i + 1]) > latest then
        redis.call('ZADD', KEYS[1], string.format('%.0f', latest), ahead[i])
    end
end
local is_free = redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2])
if is_free then
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + lasts), ARGV[1])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((last - now) / 1000) + 1000))
return is_free and 1 or 0
"""


class RedisRateStore:
    """Rate limits shared through Redis."""

    def __init__(self, url: str, *, lease_seconds: float = 0) -> None:
        """Set up the store without connecting: without Redis, each process enforces limits alone."""
        try:
            pool: Any = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - redis leaves its options untyped
                url,
                max_connections=MAX_CONNECTIONS,
                timeout=REDIS_TIMEOUT_SECONDS,
                socket_timeout=REDIS_TIMEOUT_SECONDS,
                socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            )
        except ValueError as error:  # its text may hold a part of the URL
            raise SettingsError("limits.redis_url cannot be used") from error
        self._redis: Any = Redis.from_pool(pool)
        self._lease_us = int(lease_seconds * 1e6)
        self._admit: Any = self._redis.register_script(_ADMIT)
        self._acquire: Any = self._redis.register_script(_ACQUIRE)

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        start = _key_prefix(client)
        wait = await _result(self._admit(keys=[start + tool, start], args=[of_tool, of_client]))
        return wait / 1e6 if wait else None

    async def acquire(self, client: str, lease: str, *, most: int) -> bool:
        args = [f"{lease} {self._lease_us}", most, self._lease_us]
        return bool(await _result(self._acquire(keys=[_key_prefix(client) + IN_FLIGHT], args=args)))

    async def release(self, client: str, lease: str) -> None:
        await _result(self._redis.zrem(_key_prefix(client) + IN_FLIGHT, f"{lease} {self._lease_us}"))

    async def close(self) -> None:
        await self._redis.aclose()


async def _result(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except (RedisError, OSError) as error:
        raise StoreUnavailable(f"Redis: {error}") from error


def _key_prefix(client: str) -> str:
    """Return the prefix of a client's keys. Braces choose the cluster slot, so those in its name are escaped."""
    return f"carrel:limits:{{{client.replace('{', '%7B').replace('}', '%7D')}}}:"
