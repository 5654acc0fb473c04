"""The bridge as a client: backends elsewhere, of which some misbehave."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import psutil
import pytest

from carrel.settings import Settings
from tests.content_seed import ALPHA, FULL, GAMMA, NOWHERE, ROOT
from tests.content_servers import ENGINES, ContentServers, compact, error, ok, text
from tests.program import Script
from tests.wire import MODERN, StdioWire, Wire, call

pytest_plugins = ["tests.content_fixtures"]

PAGE = {"data": [], "pagination": {"page": 1, "limit": 20, "total": 0, "hasMore": False}}


def answer(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


GOOD = answer(json.dumps(PAGE).encode())
Reply = Callable[[int], bytes | None]
"""What to answer to the request of this number; b"" closes the connection, None leaves it open and says nothing."""


def _head(stream: BinaryIO) -> Iterator[str]:
    """The lines of the next request; none at the end of the connection."""
    while (line := stream.readline()) not in (b"\r\n", b""):
        yield line.decode()


class Backend:
    """A backend on a raw socket: what came in, over how many connections, and what it was told to answer."""

    def __init__(self, reply: Reply) -> None:
        self.requests: list[str] = []
        self.connections = 0
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while request := "".join(_head(stream)):
                self.requests.append(request)
                reply = self._reply(len(self.requests))
                if reply is None:
                    continue
                connection.sendall(reply)
                if reply in (b"", CUT):
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    def begin_anew(self, reply: Reply) -> None:
        """As a new one that answers so: nothing has come in, and no connection is open."""
        for connection in self._open:
            with suppress(OSError):  # where the other side has closed it
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()
        self.requests.clear()
        self.connections = 0
        self._reply = reply

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()


CUT = answer(b"{}" * 100)[:-100]


@contextmanager
def bridged(folder: Path, url: str, **env: str) -> Iterator[Wire]:
    wire = StdioWire(MODERN, "--toolsets", "bridge", cwd=folder, CARREL_CONTENT_BACKEND_URL=url, **env)
    try:
        yield wire
    finally:
        wire.close()


@contextmanager
def backed(folder: Path, reply: Reply, **env: str) -> Iterator[tuple[Wire, Backend]]:
    backend = Backend(reply)
    with bridged(folder, backend.url, **env) as wire:
        yield wire, backend
    backend.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Backend]]:
    """One bridge for all tests that need no other settings and no connection that is the first."""
    with backed(tmp_path_factory.mktemp("bridge"), lambda _: GOOD) as both:
        yield both


def failed(wire: Wire, *words: str) -> str:
    found = error(wire, "list_projects")
    assert (list(found), found["code"]) == (["code", "message"], "SERVER_ERROR")
    for word in words:
        assert word in found["message"]
    assert "Traceback" not in found["message"]
    return found["message"]


# --- what is asked for


@pytest.mark.rule("bridge.backend.project_header", "bridge.backend.remote")
def test_arguments_travel_as_header_path_and_query(shared: tuple[Wire, Backend]) -> None:
    wire, backend = shared
    backend.begin_anew(lambda _: GOOD)
    assert ok(wire, "list_projects") == PAGE
    ok(wire, "search_entities", projectId=ALPHA.upper(), search="a&b=ß %", page=2, limit=5.0)
    ok(wire, "get_entity_graph", projectId=ALPHA, entityId=FULL.upper(), depth=2)
    first, second, third = ([*request.split("\r\n")] for request in backend.requests)
    assert first[0] == "GET /api/projects HTTP/1.1"
    assert not any(line.lower().startswith("x-project") for line in first)
    method, target, _ = second[0].split()
    assert (method, target.partition("?")[0]) == ("GET", "/api/entities")
    assert sorted(target.partition("?")[2].split("&")) in (
        ["limit=5", "page=2", "search=a%26b%3D%C3%9F%20%25"],
        ["limit=5", "page=2", "search=a%26b%3D%C3%9F+%25"],
    )
    assert third[0] == f"GET /api/entities/{FULL}/graph?depth=2 HTTP/1.1"
    for lines in (second, third):
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        assert headers["x-project-id"] == ALPHA
        assert {"x-project-slug", "cookie"}.isdisjoint(headers)


@pytest.mark.rule("bridge.backend.remote")
def test_connections_are_kept(shared: tuple[Wire, Backend]) -> None:
    wire, backend = shared
    backend.begin_anew(lambda _: GOOD)
    for _ in range(5):
        ok(wire, "list_projects")
    assert (len(backend.requests), backend.connections) == (5, 1)


@pytest.mark.rule("bridge.backend.remote", "bridge.backend.same_answer")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_backend_elsewhere_answers_as_one_in_the_process(
    content: ContentServers, tmp_path: Path, engine: str
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_projects", {"limit": 3}),
        ("search_entities", {"projectId": ALPHA, "search": "ß&=+%_\\ \"'#?/"}),
        ("search_entities", {"projectId": ALPHA, "search": "STRASSE"}),
        ("search_entities", {"projectId": NOWHERE}),
        ("get_entity", {"projectId": ALPHA, "entityId": FULL}),
        ("get_entity", {"projectId": ALPHA, "entityId": NOWHERE}),
        ("get_entity_graph", {"projectId": GAMMA, "entityId": ROOT, "depth": 2, "relationshipTypes": " , "}),
        ("get_entity_graph", {"projectId": GAMMA, "entityId": ROOT, "depth": 2}),
        ("list_search_performance", {"projectId": ALPHA, "dateStart": "2025-01-02T00:00:00.000Z"}),
        ("list_search_performance", {"projectId": ALPHA, "dateStart": "tomorrow"}),
        ("list_quotable_blocks", {"projectId": ALPHA, "topicTag": "50% off"}),
    ]
    inside = content.wire("bridge", engine, "stdio", MODERN)
    with bridged(tmp_path, content.http(engine).url) as outside:
        for tool, arguments in calls:
            assert text(outside, tool, **arguments) == text(inside, tool, **arguments)
    assert not (tmp_path / ".carrel").exists(), "a bridge to elsewhere needs no database"


# --- what may come back


STATUSES = {
    "BAD_REQUEST": "400 Bad Request",
    "UNAUTHORIZED": "401 Unauthorized",
    "FORBIDDEN": "403 Forbidden",
    "NOT_FOUND": "404 Not Found",
    "CONFLICT": "409 Conflict",
    "SERVER_ERROR": "500 Internal Server Error",
}


@pytest.mark.rule("bridge.error.passed_on")
def test_an_error_of_the_backend_is_passed_on(shared: tuple[Wire, Backend]) -> None:
    bodies = [{"error": {"code": code, "message": "In words of its own: ß"}} for code in STATUSES]
    replies = [answer(json.dumps(body).encode(), STATUSES[body["error"]["code"]]) for body in bodies]
    wire, backend = shared
    backend.begin_anew(lambda number: replies[number - 1])
    for body in bodies:
        result = call(wire, "list_projects", {})
        assert result["content"] == [{"type": "text", "text": compact(body)}]
        assert result["isError"] is True
        assert "structuredContent" not in result


@pytest.mark.rule("bridge.backend.not_json")
def test_an_answer_that_is_no_json_is_a_server_error(shared: tuple[Wire, Backend]) -> None:
    replies = [
        answer(b"<html>hello</html>", kind="text/html"),
        answer(b"<html>Bad gateway</html>", "502 Bad Gateway", "text/html"),
        answer(b""),
        answer(b'{"data": ['),
        answer(b'{"data": "\xff"}'),
    ]
    wire, backend = shared
    backend.begin_anew(lambda number: replies[number - 1])
    for _ in replies:
        assert "html" not in failed(wire, "JSON")


@pytest.mark.rule("bridge.backend.unreachable", "common.error.no_leak")
def test_a_backend_that_cannot_be_reached_is_a_server_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with bridged(tmp_path, f"http://ana:s3cret@127.0.0.1:{port}") as wire:
        message = failed(wire, "reach")
        assert "s3cret" not in message


@pytest.mark.rule("bridge.backend.timed_out")
def test_a_backend_that_does_not_answer_in_time_is_a_server_error(tmp_path: Path) -> None:
    def silent_once(number: int) -> bytes | None:
        return None if number == 1 else GOOD

    with backed(tmp_path, silent_once, CARREL_SERVER_CALL_TIMEOUT="1") as (wire, _):
        failed(wire, "within 1 second")
        assert ok(wire, "list_projects") == PAGE


@pytest.mark.rule("bridge.backend.timed_out")
def test_the_limit_is_30_seconds() -> None:
    assert Settings().server.call_timeout == 30


@pytest.mark.rule("bridge.backend.retry")
def test_a_kept_connection_that_was_closed_is_tried_once_more(tmp_path: Path) -> None:
    with backed(tmp_path, lambda number: b"" if number == 2 else GOOD) as (wire, backend):
        assert ok(wire, "list_projects") == PAGE
        assert ok(wire, "list_projects") == PAGE
        assert (len(backend.requests), backend.connections) == (3, 2)


@pytest.mark.rule("bridge.backend.retry", "bridge.backend.unreachable")
def test_a_backend_that_always_closes_is_tried_twice(tmp_path: Path) -> None:
    with backed(tmp_path, lambda _: b"") as (wire, backend):
        failed(wire, "reach")
        assert len(backend.requests) == 2


@pytest.mark.rule("bridge.backend.retry")
def test_an_answer_that_is_cut_off_is_not_asked_for_again(tmp_path: Path) -> None:
    with backed(tmp_path, lambda _: CUT) as (wire, backend):
        failed(wire)
        assert len(backend.requests) == 1


# --- in the same process


@pytest.mark.rule("bridge.backend.in_process")
def test_in_the_same_process_there_is_no_socket(content: ContentServers) -> None:
    wire = StdioWire(MODERN, "--toolsets", "bridge", "--database", content.urls["sqlite"], cwd=content.folder)
    ok(wire, "list_projects")
    ok(wire, "get_entity_graph", projectId=GAMMA, entityId=ROOT, depth=2)
    assert psutil.Process(wire.process.pid).net_connections("inet") == []
    wire.close()


@pytest.mark.rule("bridge.backend.http_only")
def test_the_handlers_import_no_database(tmp_path: Path) -> None:
    source = """
import sys
import carrel.toolsets.bridge
roots = ("sqlite3", "sqlalchemy", "psycopg", "psycopg_pool", "carrel.storage", "carrel.content", "carrel.api")
print([name for name in sys.modules if name in roots or name.startswith(tuple(root + "." for root in roots))])
"""
    assert Script(source, cwd=tmp_path).finish() == "[]\n"
