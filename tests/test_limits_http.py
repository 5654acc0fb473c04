"""The limits as a whole server keeps them, from its settings."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import SettingsError
from carrel.mcp.limits import CallLimits, RateLimiter
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Arguments, Caller, Tool, Toolset
from carrel.mcp.validation import Validator
from carrel.toolsets.bridge.dialect import BridgeDialect
from carrel.toolsets.catalog.dialect import CatalogDialect
from carrel.toolsets.code.dialect import CodeDialect
from carrel.toolsets.notes.dialect import NotesDialect
from carrel.toolsets.tasks.dialect import TasksDialect
from carrel.workspace import find_workspace
from tests.databases import prepare_desk
from tests.wire import MODERN, HttpServer, HttpWire, call, value

ANA = Caller("ana")


# --- calls


def line(handler: Any, limits: CallLimits, *, reads: bool = True) -> Pipeline:
    schema = {"type": "object", "properties": {"limit": {"type": "integer"}, "depth": {"type": "integer"}}}
    definition = {"name": "list_tasks", "inputSchema": schema, "annotations": {"readOnlyHint": reads}}
    tool = Tool(definition, handler, Validator(schema))
    return Pipeline([Toolset("tasks", "", (tool,), TasksDialect())], timeout=5, limits=limits)


@pytest.mark.anyio
@pytest.mark.rule("limits.calls.concurrent")
@pytest.mark.parametrize("ending", ["answer", "error", "cancel"])
async def test_a_call_that_ends_makes_room_however_it_ends(ending: str) -> None:
    go = asyncio.Event()

    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        await go.wait()
        if ending == "error":
            raise RuntimeError
        return []

    limits = CallLimits(RateLimiter(0), concurrent=2)
    pipeline = line(handler, limits)
    calls = [asyncio.create_task(pipeline.call("list_tasks", {}, ANA)) for _ in range(2)]
    await asyncio.sleep(0)
    refused = await pipeline.call("list_tasks", {}, ANA)
    assert refused.value == {"error": "Rate limit exceeded for list_tasks", "retryAfter": 1}
    if ending == "cancel":
        for each in calls:
            each.cancel()
    go.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert limits._in_flight == {}
    assert limits.begin("ana", "list_tasks") is None


@pytest.mark.anyio
@pytest.mark.rule("limits.calls.result")
async def test_a_result_that_is_too_large_becomes_an_error_that_says_how_to_ask_for_less() -> None:
    async def handler(arguments: Arguments, _caller: Caller) -> Any:
        return "é" * arguments.get("limit", 100)

    limits = CallLimits(RateLimiter(0), result_bytes=100)
    pipeline = line(handler, limits)
    assert not (await pipeline.call("list_tasks", {"limit": 49}, ANA)).is_error
    answer = await pipeline.call("list_tasks", {"limit": 50}, ANA)
    message = (
        "list_tasks: the result has 102 bytes, more than the 100 that limits.result_bytes allows; "
        "ask for less, with a smaller limit or a smaller depth"
    )
    assert (answer.is_error, answer.value) == (True, {"error": "Result too large", "details": message})
    assert json.loads(answer.text) == answer.value
    wrote = await line(handler, limits, reads=False).call("list_tasks", {}, ANA)
    assert not wrote.is_error, "what was written is told"
    unlimited = line(handler, CallLimits(RateLimiter(0)))
    assert not (await unlimited.call("list_tasks", {}, ANA)).is_error


@pytest.mark.rule("limits.calls.result")
def test_every_contract_has_words_for_a_result_that_is_too_large() -> None:
    assert CatalogDialect(()).too_large("x", "why")["error"] == {
        "code": "INTERNAL_ERROR",
        "message": "why",
        "details": {},
    }
    assert BridgeDialect(()).too_large("x", "why") == {"error": {"code": "SERVER_ERROR", "message": "why"}}
    assert NotesDialect(()).too_large("x", "why") == {"error": {"code": "PROVIDER_ERROR", "message": "why"}}
    assert CodeDialect((), {}).too_large("x", "why") == {"error": "why", "tool": "x"}


@pytest.mark.anyio
@pytest.mark.rule("limits.rates.tools", "limits.shared.extra")
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tools": ["read_files=1"]}, "no such tool"),
        ({"storage": "redis"}, "needs limits.redis_url"),
        ({"storage": "redis", "redis_url": "redis://h:port"}, "limits.redis_url cannot be used"),
        ({"storage": "database"}, "needs PostgreSQL"),
    ],
)
async def test_what_is_wrong_with_the_limits_is_told_at_the_start(
    tmp_path: Path, limits: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        async with find_workspace(prepare_desk(tmp_path), {"limits": limits}, environment={}).open(is_trial=True):
            pass


@pytest.mark.anyio
@pytest.mark.rule("limits.rates.tools", "limits.rates.client")
async def test_limits_of_the_settings_are_kept(tmp_path: Path) -> None:
    given = {"limits": {"tools": ["list_tasks=2", "read_file=0"], "calls_a_minute": 4}, "server": {"rate_limit": 3}}
    async with find_workspace(prepare_desk(tmp_path), given, environment={}).open(is_trial=True) as desk:
        pipeline = desk.pipeline()

        async def outcomes(tool: str, times: int, **arguments: Any) -> list[bool]:
            answers = [await pipeline.call(tool, arguments, ANA) for _ in range(times)]
            return ["Rate limit exceeded" not in each.text for each in answers]

        assert await outcomes("list_tasks", 3, user_id="ana") == [True, True, False]
        assert await outcomes("complete_task", 1, user_id="ana", task_id=1) == [True]
        assert await outcomes("read_file", 2, path="gone") == [True, False], "of all together there are four"


# --- over HTTP


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    limits = {
        "BODY_BYTES": "100000",
        "HEADER_BYTES": "4096",
        "URL_BYTES": "1024",
        "HEADER_TIMEOUT": "1",
        "BODY_TIMEOUT": "1",
        "KEEP_ALIVE": "2",
        "RESULT_BYTES": "2000",
        "TOOLS": "update_task=3",
    }
    env = {f"CARREL_LIMITS_{name}": text for name, text in limits.items()}
    folder = prepare_desk(tmp_path_factory.mktemp("limits"))
    server = HttpServer("--toolsets", "tasks", cwd=folder, **env)
    yield server
    assert server.stop() == 143


def raw(server: HttpServer, *pieces: bytes) -> bytes:
    """Everything that the server sends until it closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        for piece in pieces:
            client.sendall(piece)
        found = b""
        while more := client.recv(65536):
            found += more
    return found


@pytest.mark.rule("limits.requests.url", "limits.requests.headers", "limits.requests.body", "limits.connections.told")
def test_a_server_refuses_what_is_too_large(server: HttpServer) -> None:
    head = b"POST /mcp%s HTTP/1.1\r\nhost: localhost\r\n%s\r\n\r\n"
    chunks = (b"2710\r\n" + bytes(10_000) + b"\r\n") * 11 + b"0\r\n\r\n"
    requests = {
        414: [head % (b"?" + b"x" * 1024, b"content-length: 0")],
        431: [head % (b"", b"x: " + b"x" * 4096)],
        413: [head % (b"", b"content-length: 100001"), bytes(100_001)],
    }
    for status, pieces in requests.items():
        assert raw(server, *pieces).startswith(b"HTTP/1.1 %d " % status)
    assert raw(server, head % (b"", b"transfer-encoding: chunked"), chunks).startswith(b"HTTP/1.1 413 ")
    deadline = time.monotonic() + 10
    while len(told := [json.loads(each) for each in server.log if '"carrel.limits"' in each]) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [each["limit"] for each in told] == ["url_bytes", "header_bytes", "body_bytes", "body_bytes"]
    assert all(each["client"] == "127.0.0.1" for each in told)


@pytest.mark.rule("limits.connections.silent", "limits.connections.body", "limits.connections.idle")
def test_a_server_does_not_wait_for_slow_clients(server: HttpServer) -> None:
    def idle(_: None) -> bytes:
        return raw(server, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")

    slow = [
        (b"",),
        (b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n",),
        (b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n", b"one"),
    ]
    with ThreadPoolExecutor(4) as pool:
        waiting = pool.submit(idle, None)
        found = list(pool.map(lambda pieces: raw(server, *pieces), slow))
    assert all(each.startswith(b"HTTP/1.1 408 ") for each in found)
    assert waiting.result().startswith(b"HTTP/1.1 200 ")


@pytest.mark.rule("limits.calls.result", "limits.rates.tools")
@pytest.mark.parametrize("era", [MODERN, "2025-11-25"])
def test_a_server_limits_calls_and_results(server: HttpServer, era: str) -> None:
    wire = HttpWire(era, server.url)
    results: list[dict[str, Any]] = []
    for _ in range(2):
        call(wire, "add_task", {"user_id": era, "title": "t", "description": "d" * 1000})
        results.append(call(wire, "list_tasks", {"user_id": era}))
    assert [each.get("isError", False) for each in results] == [False, True]
    assert "one status" in value(results[1])["details"]
    wrong = {"user_id": era, "task_id": 10**9, "title": "x"}
    answers = [value(call(wire, "update_task", wrong)) for _ in range(4)]
    assert answers[-1]["error"] == "Rate limit exceeded for update_task"
    assert 50 <= answers[-1]["retryAfter"] <= 60
    wire.close()
