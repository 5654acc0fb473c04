"""What is particular to HTTP: routes, guards, health, metrics, workers, stopping."""

import json
import re
import signal
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import pytest

from carrel.server.http_server import _listen, run_http
from carrel.settings import ServerSettings, Settings
from carrel.workspace import Desk, Workspace
from tests.databases import prepare_desk
from tests.wire import ERAS, LEGACY, MODERN, PLAIN, HttpServer, HttpWire, call, value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("http")
    allowed = {
        "CARREL_SERVER_ALLOWED_HOSTS": "desk.example:8080,other.example",
        "CARREL_SERVER_ALLOWED_ORIGINS": "https://desk.example",
    }
    server = HttpServer(cwd=folder, **allowed)
    yield server
    assert server.stop() == 143


@pytest.fixture
def http(server: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False, verify=PLAIN) as client:
        yield client


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LEGACY}


TASKS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
CODE = ["context_search", "read_file", "grep_codebase"]
TOOLS = {"/mcp": [*TASKS, *CODE], "/tasks/mcp": TASKS}


@pytest.mark.rule("common.toolsets.endpoints")
@pytest.mark.parametrize("path", list(TOOLS))
@pytest.mark.parametrize("era", ERAS)
def test_each_toolset_has_an_endpoint_of_its_own(server: HttpServer, path: str, era: str) -> None:
    wire = HttpWire(era, server.url, path)
    names = [tool["name"] for tool in wire.request("tools/list")["result"]["tools"]]
    assert names == TOOLS[path]
    assert value(call(wire, "list_tasks", {"user_id": "nobody"})) == []
    wire.close()


def test_answers_are_json_and_carry_no_session(server: HttpServer) -> None:
    for era in ERAS:
        wire = HttpWire(era, server.url)
        response = wire.post("tools/list")
        assert response.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in response.headers
        assert "server" not in response.headers
        wire.close()


def test_a_2025_client_may_open_with_initialize(http: httpx.Client) -> None:
    opening = message("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "x", "version": "1"})
    headers = {"Accept": "application/json, text/event-stream"}
    result = http.post("/mcp", json=opening, headers=headers).json()["result"]
    assert (result["protocolVersion"], result["serverInfo"]["name"]) == (LEGACY, "carrel")
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert http.post("/mcp", json=notice, headers=HEADERS).status_code == 202


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_without_sessions_there_is_nothing_to_get_or_delete(http: httpx.Client, method: str) -> None:
    response = http.request(method, "/mcp", headers=HEADERS)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_other_paths_are_not_found(http: httpx.Client) -> None:
    assert http.get("/elsewhere").status_code == 404
    assert http.post("/notes/mcp", json=message("tools/list"), headers=HEADERS).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:99", 200),
        ("[::1]:8765", 200),
        ("desk.example:8080", 200),
        ("other.example:443", 200),
        ("desk.example", 421),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("", 421),
    ],
)
def test_only_allowed_hosts_may_be_asked_for(http: httpx.Client, host: str, status: int) -> None:
    response = http.post("/mcp", json=message("tools/list"), headers={**HEADERS, "Host": host})
    assert response.status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("https://[::1]:1", 200),
        ("https://desk.example", 200),
        ("http://desk.example", 403),
        ("https://desk.example.evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://localhost", 403),
    ],
)
def test_only_allowed_origins_may_ask(http: httpx.Client, origin: str, status: int) -> None:
    response = http.post("/mcp", json=message("tools/list"), headers={**HEADERS, "Origin": origin})
    assert response.status_code == status


def test_metrics_are_guarded_as_well_but_probes_are_not(http: httpx.Client) -> None:
    foreign = {"Host": "10.0.0.7:8765"}
    assert http.get("/metrics", headers=foreign).status_code == 421
    assert http.get("/healthz", headers=foreign).status_code == 200
    assert http.get("/readyz", headers=foreign).status_code == 200


@pytest.mark.parametrize("era", ERAS)
def test_a_body_over_4_megabytes_is_refused(server: HttpServer, era: str) -> None:
    wire = HttpWire(era, server.url)
    arguments = {"user_id": "ana", "title": "x" * (4 * 1024 * 1024)}
    assert wire.post("tools/call", {"name": "add_task", "arguments": arguments}).status_code == 413
    arguments["title"] = "x" * (4 * 1024 * 1024 - 1000)
    assert value(call(wire, "add_task", arguments)) == {"error": "Title must be 200 characters or less"}
    wire.close()


def test_a_body_over_4_megabytes_without_a_length_is_refused_too(http: httpx.Client) -> None:
    pieces = (b"x" * 65536 for _ in range(65))
    response = http.post("/mcp", content=pieces, headers={**HEADERS, "Content-Type": "application/json"})
    assert response.status_code == 413


BAD_BODIES = [
    b"garbage",
    b"{",
    b"\xff",
    b"[" * 200_000,
    b"[]",
    b"5",
    b'{"jsonrpc":"2.0","id":1}',
    b"",
    b"1" * 5000,
]


@pytest.mark.rule("common.error.malformed")
@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:12]))
@pytest.mark.parametrize("era", ERAS)
def test_a_body_that_is_no_message_is_a_protocol_error_and_the_next_call_works(
    server: HttpServer, http: httpx.Client, era: str, body: bytes
) -> None:
    headers = {
        **HEADERS,
        "MCP-Protocol-Version": era,
        "Mcp-Method": "tools/list",
        "Content-Type": "application/json",
    }
    response = http.post("/mcp", content=body, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] in (-32700, -32600, -32602)
    wire = HttpWire(era, server.url)
    assert value(call(wire, "list_tasks", {"user_id": "nobody"})) == []
    wire.close()


@pytest.mark.parametrize("field", ["title", "description", "user_id"])
def test_half_of_a_surrogate_pair_is_refused(server: HttpServer, field: str) -> None:
    """Over stdio such a line does not even parse; JSON's escapes bring it here."""
    wire = HttpWire(MODERN, server.url)
    result = call(wire, "add_task", {"user_id": "ana", "title": "x", field: "a\ud800"})
    assert result["isError"] is True
    assert value(result)["error"] in (
        "Bad Request",
        f"{field.capitalize()} must not contain NUL or unpaired surrogates",
    )
    assert value(call(wire, "list_tasks", {"user_id": "ana"})) == []
    wire.close()


@pytest.mark.parametrize("era", ERAS)
def test_deep_nesting_is_harmless(server: HttpServer, era: str) -> None:
    wire = HttpWire(era, server.url)
    for depth in (100, 500, 900):
        deep: Any = 1
        for _ in range(depth):
            deep = {"a": deep}
        response = wire.post("tools/call", {"name": "add_task", "arguments": {"user_id": "ana", "title": deep}}).json()
        if "result" in response:
            assert value(response["result"]) == {"error": "Bad Request", "details": "title must be a string"}
        else:
            assert response["error"]["code"] == -32700
    assert value(call(wire, "list_tasks", {"user_id": "ana"})) == []
    wire.close()


def test_blanks_after_a_header_value_do_not_count(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
        wire = HttpWire(MODERN, server.url)
        sent: list[bytes] = []
        wire.http.event_hooks = {"request": [lambda request: sent.append(request.read())]}
        wire.request("tools/list")
        wire.close()
        headers = {
            **wire.headers("tools/list", None),
            "Host": "localhost",
            "Content-Type": "application/json",
            "Content-Length": str(len(sent[0])),
        }
        lines = "".join(f"{name}: {text}  \r\n" for name, text in headers.items())
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + sent[0])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_small_answers_do_not_wait_for_an_acknowledgement() -> None:
    """asyncio switches that off for sockets of its own making only; without uvloop each call then took 44 ms."""
    with _listen("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_health_and_readiness(http: httpx.Client) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    response = http.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "stores": {"database": "ok"}})


def metric(text: str, name: str, **labels: str) -> float:
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        if match and match[1] == name and dict(re.findall(r'(\w+)="([^"]*)"', match[2])).items() >= labels.items():
            return float(match[3])
    return 0.0


def test_metrics_count_and_time_every_call(server: HttpServer, http: httpx.Client) -> None:
    def numbers() -> tuple[float, float, float]:
        text = http.get("/metrics").text
        return (
            metric(text, "carrel_calls_total", toolset="tasks", tool="delete_task", outcome="refused"),
            metric(text, "carrel_calls_total", toolset="tasks", tool="list_tasks", outcome="ok"),
            metric(text, "carrel_call_seconds_count", toolset="tasks", tool="list_tasks"),
        )

    before = numbers()
    wire = HttpWire(MODERN, server.url)
    call(wire, "delete_task", {"user_id": "ana", "task_id": 99})
    for _ in range(3):
        call(wire, "list_tasks", {"user_id": "ana"})
    wire.close()
    assert [after - first for after, first in zip(numbers(), before, strict=True)] == [1, 3, 3]


def test_many_clients_at_once_get_their_own_answers(server: HttpServer) -> None:
    def run(number: int) -> list[str]:
        wire = HttpWire(ERAS[number % 2], server.url)
        for each in range(10):
            call(wire, "add_task", {"user_id": f"crowd-{number}", "title": f"{number}.{each}"})
        tasks = value(call(wire, "list_tasks", {"user_id": f"crowd-{number}"}))
        wire.close()
        return [task["title"] for task in tasks]

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(run, range(16)))
    assert results == [[f"{number}.{each}" for each in range(10)] for number in range(16)]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_server_with_its_status(tmp_path: Path, number: signal.Signals, status: int) -> None:
    server = HttpServer(cwd=prepare_desk(tmp_path))
    with httpx.Client(base_url=server.url, trust_env=False, verify=PLAIN) as idle:
        idle.get("/healthz")  # a connection that is kept alive must not hold the server up
        started = time.monotonic()
        server.process.send_signal(number)
        assert server.process.wait(10) == status
        assert time.monotonic() - started < 4
    server.stop()


def test_a_limit_counts_a_clients_calls_over_all_endpoints(tmp_path: Path) -> None:
    server = HttpServer(cwd=prepare_desk(tmp_path), CARREL_SERVER_RATE_LIMIT="3")
    outcomes: list[Any] = []
    for number in range(5):
        wire = HttpWire(ERAS[number % 2], server.url, ("/mcp", "/tasks/mcp")[number % 2])
        outcomes.append(value(call(wire, "list_tasks", {"user_id": "ana"})))
        wire.close()
    assert outcomes[:3] == [[], [], []]
    assert [outcome["error"] for outcome in outcomes[3:]] == ["Rate limit exceeded for list_tasks"] * 2
    assert all(0 < outcome["retryAfter"] <= 60 for outcome in outcomes[3:])
    assert server.stop() == 143


def test_a_server_that_cannot_open_its_workspace_has_failed(tmp_path: Path) -> None:
    """It opened a moment before, when it was tried, and does not any more."""

    class Flaky:
        settings = Settings(server=ServerSettings(port=0))
        times = 0

        @asynccontextmanager
        async def open(self, *_observers: Any, is_trial: bool = False) -> AsyncGenerator[Desk]:
            self.times += 1
            if self.times > 1:
                raise RuntimeError("gone")
            yield Desk(tmp_path, self.settings, None, {})

    assert run_http(cast("Workspace", Flaky()), lambda _address, _toolsets: None) == 1


def test_workers_share_the_port_and_their_metrics(tmp_path: Path) -> None:
    server = HttpServer("--workers", "2", cwd=prepare_desk(tmp_path))
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False, verify=PLAIN) as http:
        deadline = time.monotonic() + 30
        while http.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
    for number in range(20):
        wire = HttpWire(ERAS[number % 2], server.url)
        call(wire, "add_task", {"user_id": "ana", "title": str(number)})
        wire.close()
    text = httpx.get(f"{server.url}/metrics", trust_env=False, verify=PLAIN).text
    assert metric(text, "carrel_calls_total", tool="add_task", outcome="ok") == 20
    wire = HttpWire(MODERN, server.url)
    assert len(value(call(wire, "list_tasks", {"user_id": "ana"}))) == 20
    wire.close()
    assert len(psutil.Process(server.process.pid).children()) >= 2
    assert server.stop() == 143


def test_the_log_of_a_server_that_was_used_has_nothing_but_calls(server: HttpServer) -> None:
    levels = {json.loads(line)["level"] for line in server.log if line.startswith("{")}
    assert levels <= {"info"}
