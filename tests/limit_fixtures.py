"""The stores of `limit_stores` as fixtures, one Redis for the whole session.

A test module that needs them says `pytest_plugins = ["tests.limit_fixtures"]`.
"""

import socket
import subprocess
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from carrel.storage.postgres_rate_store import PostgresRateStore
from carrel.storage.redis_rate_store import RedisRateStore
from tests.limit_stores import open_windows
from tests.programs import required

KINDS = ("database", "redis")


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server on a free port."""
    program = required("redis-server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    folder = tmp_path_factory.mktemp("redis")
    with subprocess.Popen([program, *words], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        yield f"redis://127.0.0.1:{port}/0"
        process.terminate()


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest) -> str:
    """Each test that asks for this runs once on each kind of store, with nothing in it."""
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


@pytest.fixture
async def windows(store_url: str) -> AsyncIterator[PostgresRateStore | RedisRateStore]:
    found = await open_windows(store_url)
    yield found
    await found.close()
