"""Where limits are kept together: PostgreSQL, and a real Redis."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from carrel.storage.postgres_windows import PostgresWindows
from carrel.storage.redis_windows import RedisWindows

REDIS_SERVER = shutil.which("redis-server")
KINDS = ("database", "redis")


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A real server on a free port; `redis-server` is Debian's package of that name."""
    if REDIS_SERVER is None:
        assert "CI" not in os.environ, "apt-get install redis-server"
        pytest.skip("there is no redis-server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    with subprocess.Popen([REDIS_SERVER, *words], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        yield f"redis://127.0.0.1:{port}/0"
        process.terminate()


def store_url(request: pytest.FixtureRequest) -> str:
    """Of the kind that the fixture is asked for, with nothing in it."""
    if request.param == "redis":
        redis_url: str = request.getfixturevalue("redis_url")
        host, port = redis_url.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            assert connection.recv(5) == b"+OK\r\n"
        return redis_url
    url: str = request.getfixturevalue("postgres_url")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM rate_window")
    return url


async def open_windows(url: str, lease_seconds: float = 60) -> PostgresWindows | RedisWindows:
    if url.startswith("redis"):
        return RedisWindows(url, lease_seconds=lease_seconds)
    return await PostgresWindows.open(url, lease_seconds=lease_seconds)


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
