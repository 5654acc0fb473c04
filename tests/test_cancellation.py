"""A call whose client has cancelled it or closed its connection stops: its process, its statement and its handler."""

import asyncio
import json
import random
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from carrel.mcp.description import ServerDescription
from carrel.mcp.disconnects import CancellationMiddleware, Disconnects
from carrel.mcp.http_app import Endpoint
from carrel.mcp.limits import CallLimits, RateLimiter
from carrel.mcp.limits.request_limits import RateLimitMiddleware
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Arguments, Caller, Tool, Toolset
from carrel.mcp.validation import Validator
from carrel.storage.database import Database
from carrel.storage.sqlite_database import SqliteDatabase
from carrel.toolsets.tasks.dialect import TasksDialect
from tests.code_searches import ENDLESS, write_paths
from tests.databases import prepare_desk
from tests.wire import ERAS, MODERN, HttpServer, HttpWire, StdioWire

WAYS = ("fast", "sdk", "stream")
STOPS_WITHIN = 10
"""Seconds, on a busy machine. A search goes on for 3, but is not logged as cancelled then."""
CANCELLED = '"outcome": "cancelled"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A code base in which `ENDLESS` takes longer than the time limit."""
    chance = random.Random(1)
    text = "".join(chance.choices("abcdefgh" * 200 + "\n", k=4_000_000))
    return prepare_desk(write_paths(tmp_path_factory.mktemp("cancellation"), {"big.txt": text}))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    running = HttpServer("--toolsets", "code", cwd=folder, CARREL_SERVER_LOG_FORMAT="json")
    yield running
    assert running.stop() == 143


def processes(pid: int) -> list[int]:
    """Those that search, and not what lists files for the index."""
    found: list[int] = []
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += [each.pid] if ENDLESS in " ".join(each.cmdline()) else []
    return found


def until(is_so: Callable[[], Any], seconds: float) -> float:
    """How long it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() < began + seconds, "it goes on"
        time.sleep(0.01)
    return time.monotonic() - began


def begin(url: str, era: str, way: str, tool: str, arguments: Any) -> socket.socket:
    """Send a call; the connection that its answer would come on."""
    place = urlsplit(url)
    wire = HttpWire(era, url)
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    message = wire.message("tools/call", params)
    if way == "stream":
        message["params"].setdefault("_meta", {})["progressToken"] = 1
    if way == "sdk":
        message["params"]["more"] = 1
    body = json.dumps(message).encode()
    headers = wire.headers("tools/call", params) | {"Content-Type": "application/json", "Host": place.netloc}
    wire.close()
    lines = [
        "POST /mcp HTTP/1.1",
        *(f"{name}: {text}" for name, text in headers.items()),
        f"Content-Length: {len(body)}",
    ]
    connection = socket.create_connection((place.hostname or "", place.port or 0))
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


@pytest.mark.rule("common.cancellation.closed")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", WAYS)
def test_a_closed_connection_ends_the_search_and_its_process(server: HttpServer, era: str, way: str) -> None:
    cancelled = sum(CANCELLED in line for line in server.log)
    with begin(server.url, era, way, "grep_codebase", {"pattern": ENDLESS}):
        until(lambda: processes(server.process.pid), 10)
    until(lambda: not processes(server.process.pid), STOPS_WITHIN)
    until(lambda: sum(CANCELLED in line for line in server.log) == cancelled + 1, STOPS_WITHIN)


@pytest.mark.rule("common.cancellation.closed")
def test_a_client_that_waits_gets_its_answer(server: HttpServer) -> None:
    with begin(server.url, MODERN, "fast", "grep_codebase", {"pattern": ENDLESS}) as connection:
        connection.settimeout(20)
        found = b""
        while b"Search timed out" not in found and (more := connection.recv(65536)):
            found += more
        assert found.startswith(b"HTTP/1.1 200 OK")
        assert b"Search timed out" in found


@pytest.mark.rule("common.cancellation.told")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ["fast", "sdk"])
def test_a_cancelled_call_over_stdio_ends_the_search_and_its_process(
    folder: Path, tmp_path: Path, era: str, way: str
) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        wire = StdioWire(era, "--toolsets", "code", cwd=folder, stderr=stderr, CARREL_SERVER_LOG_FORMAT="json")
    params: dict[str, Any] = {"name": "grep_codebase", "arguments": {"pattern": ENDLESS}}
    number = wire.begin("tools/call", params | ({"more": 1} if way == "sdk" else {}))
    until(lambda: processes(wire.process.pid), 20)
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    until(lambda: not processes(wire.process.pid), STOPS_WITHIN)
    until(lambda: CANCELLED in log.read_text(), STOPS_WITHIN)
    assert wire.close() == 0


# --- statements

ENDLESS_STATEMENT = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "postgres": "SELECT pg_sleep(60)",
}
TOOL: dict[str, Any] = {
    "name": "wait",
    "description": "Runs a statement without end.",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True},
}


class Slow:
    """A handler and an application whose statement has no end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statement = ENDLESS_STATEMENT["sqlite" if isinstance(database, SqliteDatabase) else "postgres"]
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def handler(self, _arguments: Arguments, _caller: Caller) -> Any:
        self.begun.set()
        try:
            await self._database.snapshot(lambda session: session.all(self._statement, {}), seconds=60)
        finally:
            self.ended.set()

    async def app(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        await self.handler({}, Caller(""))


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncGenerator[str]:
    """A real uvicorn in this loop; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


async def is_closed_in_time(slow: Slow, connect: Callable[[], socket.socket]) -> None:
    connection = await asyncio.to_thread(connect)
    await asyncio.wait_for(slow.begun.wait(), 10)
    await asyncio.sleep(0.2)
    assert not slow.ended.is_set()
    connection.close()
    await asyncio.wait_for(slow.ended.wait(), STOPS_WITHIN)


@pytest.mark.anyio
@pytest.mark.rule("common.cancellation.closed")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_closed_connection_ends_the_statement_of_its_call(database: Database, era: str, way: str) -> None:
    slow = Slow(database)
    tool = Tool(TOOL, slow.handler, Validator(TOOL["inputSchema"]))
    pipeline = Pipeline([Toolset("slow", "Slow.", (tool,), TasksDialect())], timeout=60)
    endpoint = Endpoint(ServerDescription(pipeline, "1", ""))
    async with endpoint.run(), served(endpoint) as url:
        await is_closed_in_time(slow, lambda: begin(url, era, way, "wait", {}))
    assert await running_statements(database) == 0


@pytest.mark.anyio
@pytest.mark.rule("common.cancellation.closed")
async def test_a_closed_connection_ends_the_statement_of_its_request_and_its_place_among_those_under_way(
    database: Database,
) -> None:
    slow = Slow(database)
    limits = CallLimits(RateLimiter(0), concurrent=1)
    limited = RateLimitMiddleware(slow.app, limits, name_of=lambda _: "api", refuse=lambda *_: slow.app)
    async with served(CancellationMiddleware(limited, Disconnects())) as url:
        await is_closed_in_time(slow, lambda: get(url))
    assert await running_statements(database) == 0
    assert limits.enter("127.0.0.1")


async def running_statements(database: Database) -> int:
    """Of ours. SQLite's is over when its caller gets the cancellation."""
    if isinstance(database, SqliteDatabase):
        return 0
    sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active'"
    row = await database.read(lambda session: session.first(sql, {}))
    assert row is not None
    return row[0]


def get(url: str) -> socket.socket:
    place = urlsplit(url)
    connection = socket.create_connection((place.hostname or "", place.port or 0))
    connection.sendall(b"GET /api/projects HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


@pytest.mark.rule("common.cancellation.closed")
def test_a_closed_connection_ends_the_statement_of_a_request_to_the_api(postgres_url: str, tmp_path: Path) -> None:
    """With the whole server, and another session that holds the table."""
    server = HttpServer("--database", postgres_url, cwd=tmp_path)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(postgres_url) as blocker:
        blocker.execute("LOCK TABLE project IN ACCESS EXCLUSIVE MODE")
        with get(server.url):
            until(lambda: blocker.execute(waiting).fetchone() == (1,), 10)
        until(lambda: blocker.execute(waiting).fetchone() == (0,), STOPS_WITHIN)
    assert server.stop() == 143
