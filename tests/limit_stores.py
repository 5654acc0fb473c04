"""Where limits are kept together: PostgreSQL, and a real Redis."""

import json

import psycopg

from carrel.storage.postgres_rate_store import PostgresRateStore
from carrel.storage.redis_rate_store import RedisRateStore


async def open_windows(url: str, lease_seconds: float = 60) -> PostgresRateStore | RedisRateStore:
    if url.startswith("redis"):
        return RedisRateStore(url, lease_seconds=lease_seconds)
    return await PostgresRateStore.open(url, lease_seconds=lease_seconds)


async def shift(url: str, seconds: float) -> None:
    """Make every call in the store older, or lie ahead."""
    micro = int(seconds * 1e6)
    if url.startswith("redis"):
        from redis.asyncio import Redis

        redis = Redis.from_url(url, decode_responses=True)
        for key in await redis.keys("carrel:limits:*"):
            if await redis.type(key) == "zset":
                for member in await redis.zrange(key, 0, -1):
                    await redis.zincrby(key, -micro, str(member))
                continue
            times = [str(int(each) - micro) for each in await redis.lrange(key, 0, -1)]
            await redis.delete(key)
            await redis.rpush(key, *times)
        await redis.aclose()
        return
    with psycopg.connect(url, autocommit=True) as connection:
        for client, calls in connection.execute("SELECT client, calls FROM rate_window").fetchall():
            moved = json.dumps([[at - micro, *rest] for at, *rest in json.loads(calls)])
            connection.execute(
                "UPDATE rate_window SET calls = %s, seen_at = seen_at - %s WHERE client = %s", (moved, micro, client)
            )
