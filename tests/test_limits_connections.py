"""How large requests may be and how long connections may take, under uvicorn with h11 and with httptools."""

import asyncio
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from carrel.mcp.limits import connection_limits, request_limits
from carrel.mcp.limits.connection_limits import ConnectionLimits, ProtocolFactory
from carrel.mcp.limits.request_limits import BodyTooLarge, RequestLimitMiddleware, RequestLimits, read_body, refuse

KINDS = ("h11", "httptools")
BRIEF = 0.4
REQUEST_LIMITS = RequestLimits(body_bytes=100_000, header_bytes=4096, url_bytes=1024)
LARGE = 64 * 1024 * 1024


async def answer(send: Send, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class App:
    """`/unread` leaves the body alone, `/large` answers more than sockets hold, `/slow` takes its time, `/stream` does
    in the middle; others tell how they were given the body."""

    def __init__(self) -> None:
        self.bodies: list[Message] = []
        self.scopes: list[Scope] = []
        self.large_done = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["path"] == "/unread":
            await answer(send, b"unread")
        elif scope["path"] == "/large":
            await answer(send, bytes(LARGE))
            self.large_done.set()
        elif scope["path"] == "/slow":
            await asyncio.sleep(3 * BRIEF)
            await answer(send, b"slow")
        elif scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await asyncio.sleep(3 * BRIEF)
            await send({"type": "http.response.body", "body": b"two"})
        else:
            try:
                message = await read_body(receive, REQUEST_LIMITS.body_bytes)
            except BodyTooLarge as error:
                await refuse(scope, receive, send, "body_bytes", REQUEST_LIMITS.body_bytes, is_over=error.is_over)
                return
            if message["type"] == "http.request":
                self.bodies.append(message)
                await answer(send, b"%d" % len(message["body"]))


class Server:
    def __init__(self, kind: str, limits: ConnectionLimits) -> None:
        self.app = App()
        self.told: list[tuple[str, str, int]] = []
        protocols = pickle.loads(pickle.dumps(ProtocolFactory(limits, kind)))  # noqa: S301 - as workers get it
        config = uvicorn.Config(
            RequestLimitMiddleware(self.app, REQUEST_LIMITS),
            http=protocols,
            lifespan="off",
            log_config=None,
            timeout_keep_alive=1,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=limits.h11_bytes,
        )
        self.server = uvicorn.Server(config)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=lambda: self.server.run(sockets=[self.listener]))
        self.thread.start()

    def connect(self, receive_buffer: int = 0, source: str = "") -> socket.socket:
        found = socket.socket()
        if source:
            found.bind((source, 0))
        if receive_buffer:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        found.settimeout(20)
        found.connect(("127.0.0.1", self.port))
        return found

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.listener.close()


@contextmanager
def serving(kind: str, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> Iterator[Server]:
    times = {"header_timeout": BRIEF, "body_timeout": BRIEF, "send_timeout": BRIEF, "connections": 40}
    server = Server(kind, ConnectionLimits(**{"head_bytes": 8192, "body_bytes": 100_000, **times, **limits}))

    def refused(limit: str, client: str, status: int = 0) -> None:
        server.told.append((limit, client, status))

    monkeypatch.setattr(connection_limits, "log_refusal", refused)
    monkeypatch.setattr(request_limits, "log_refusal", refused)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(params=KINDS)
def patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Where size is what matters, and no time."""
    with serving(request.param, monkeypatch, header_timeout=30, body_timeout=30, send_timeout=30) as found:
        yield found


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(request.param, monkeypatch) as found:
        yield found


def everything(client: socket.socket) -> bytes:
    """Until the server closes; a connection that it cut off ends too."""
    data = b""
    try:
        while more := client.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


def status(response: bytes) -> int:
    assert response.startswith(b"HTTP/1.1 "), response[:80]
    return int(response.split()[1])


def exchange(server: Server, *pieces: bytes) -> bytes:
    with server.connect() as client:
        for piece in pieces:
            try:
                client.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
        return everything(client)


def post(*headers: str, path: str = "/", end: str = "\r\n") -> bytes:
    lines = (f"POST {path} HTTP/1.1", "host: x", "connection: close", *headers)
    return ("\r\n".join(lines) + "\r\n" + end).encode()


# --- sizes


@pytest.mark.rule("limits.requests.url", "limits.connections.told")
def test_a_url_that_is_too_long_is_refused(patient: Server) -> None:
    fits = f"/{'x' * 1000}?{'y' * 23}"
    assert status(exchange(patient, post("content-length: 0", path=fits))) == 200
    found = exchange(patient, post("content-length: 0", path=f"{fits}y"))
    assert status(found) == 414
    assert found.endswith(b"URI Too Long: more than limits.url_bytes, 1024\n")
    assert patient.told == [("url_bytes", "127.0.0.1", 414)]


@pytest.mark.rule("limits.requests.headers", "limits.connections.told")
def test_headers_that_are_too_long_are_refused_also_without_an_end(patient: Server) -> None:
    assert status(exchange(patient, post("content-length: 0", f"x: {'x' * 3900}"))) == 200
    assert status(exchange(patient, post("content-length: 0", f"x: {'x' * 4096}"))) == 431
    endless = exchange(patient, post(end=""), *(b"x-%d: %s\r\n" % (number, b"x" * 500) for number in range(2000)))
    assert status(endless) == 431
    assert status(exchange(patient, b"GET /" + b"x" * 1_000_000)) == 431
    assert patient.told == [("header_bytes", "127.0.0.1", 431)] * 3


@pytest.mark.rule("limits.requests.body", "limits.connections.told")
def test_a_body_that_is_too_large_is_refused_before_it_is_read(patient: Server) -> None:
    assert status(exchange(patient, post("content-length: 100000"), bytes(100_000))) == 200
    with patient.connect() as client:  # nothing of it is waited for
        client.sendall(post("content-length: 100001"))
        assert client.recv(12) == b"HTTP/1.1 413"
    asking = exchange(patient, post("content-length: 100001", "expect: 100-continue"))
    assert status(asking) == 413
    assert b"100 Continue" not in asking
    chunk = b"2710\r\n" + bytes(10_000) + b"\r\n"
    head = post("transfer-encoding: chunked")
    assert status(exchange(patient, head, chunk * 10, b"0\r\n\r\n")) == 200
    assert status(exchange(patient, head, *[chunk] * 11, b"0\r\n\r\n")) == 413
    with patient.connect() as client:  # nor is its end
        client.sendall(head + chunk * 11)
        assert client.recv(12) == b"HTTP/1.1 413"
    endless = exchange(patient, head, *[chunk] * 500)
    assert status(endless) == 413
    assert len(patient.app.bodies) == 2
    assert patient.told == [("body_bytes", "127.0.0.1", 413)] * 5


@pytest.mark.rule("limits.requests.body")
def test_what_comes_between_chunks_has_an_end_too(patient: Server) -> None:
    extended = b"1;%s\r\nx\r\n" % (b"e" * 4000)
    assert exchange(patient, post("transfer-encoding: chunked"), *[extended] * 1000)[9:12] in (b"413", b"400")
    trailer = b"x: %s\r\n" % (b"t" * 4000)
    assert exchange(patient, post("transfer-encoding: chunked"), b"0\r\n", *[trailer] * 1000)[9:12] in (b"413", b"400")
    assert patient.app.bodies == []


@pytest.mark.rule("limits.requests.headers")
def test_what_follows_a_body_is_no_header(patient: Server) -> None:
    body = b"1\r\nx\r\n0\r\nauthorization: Bearer x\r\n\r\n"
    assert status(exchange(patient, post("transfer-encoding: chunked") + body)) == 200
    (scope,) = patient.app.scopes
    assert [name for name, _ in scope["headers"]] == [b"host", b"connection", b"transfer-encoding"]


@pytest.mark.rule("limits.requests.whole")
def test_a_body_in_pieces_is_handed_on_whole(patient: Server) -> None:
    with patient.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (post("content-length: 9"), b"one", b"two", b"six"):
            client.sendall(piece)
            time.sleep(0.02)  # so that each is read by itself
        assert everything(client).endswith(b"\r\n9")
    assert patient.app.bodies == [{"type": "http.request", "body": b"onetwosix", "more_body": False}]


@pytest.mark.rule("limits.requests.body")
def test_a_body_that_nobody_reads_brings_one_answer_and_no_second(patient: Server) -> None:
    ask = b"POST /unread HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    with patient.connect() as client:
        client.sendall(ask % 90_000)
        assert status(client.recv(65536)) == 200
        client.sendall(bytes(90_000))
        client.sendall(ask % 0)
        assert status(client.recv(65536)) == 200, "the connection goes on after it"
    with patient.connect() as client:
        client.sendall(b"POST /unread HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        found = client.recv(65536)
        with suppress(ConnectionError):
            for _ in range(20_000):
                client.sendall(b"2710\r\n" + bytes(10_000) + b"\r\n")
            pytest.fail("it takes no end of it")
        found += everything(client)
    assert found.count(b"HTTP/1.1") == 1


# --- time


@pytest.mark.rule("limits.connections.silent", "limits.connections.told")
def test_a_head_that_does_not_come_in_time_is_408(server: Server) -> None:
    assert status(exchange(server)) == 408
    with server.connect() as client:
        trickle(client, post(end=""))
        assert status(everything(client)) == 408
    assert server.told == [("header_timeout", "127.0.0.1", 408)] * 2


@pytest.mark.rule("limits.connections.body", "limits.connections.told")
def test_a_body_that_does_not_come_in_time_is_408(server: Server) -> None:
    with server.connect() as client:
        client.sendall(post("content-length: 1000"))
        trickle(client, bytes(1000))
        found = everything(client)
    assert status(found) == 408
    assert found.endswith(b"Request Timeout: see limits.body_timeout\n")
    assert server.app.bodies == []
    assert server.told == [("body_timeout", "127.0.0.1", 408)]


def trickle(client: socket.socket, data: bytes) -> None:
    """A byte now and then, until the other side has had enough."""
    started = time.monotonic()
    client.setblocking(False)
    for number in range(len(data)):
        assert time.monotonic() - started < 10, "it may go on for ever"
        try:
            client.send(data[number : number + 1])
            if client.recv(1, socket.MSG_PEEK):
                break
        except BlockingIOError:
            time.sleep(0.05)
        except (BrokenPipeError, ConnectionResetError):
            break
    client.settimeout(20)


@pytest.mark.rule("limits.connections.idle")
def test_an_idle_connection_is_closed_and_one_that_asks_again_is_not(server: Server) -> None:
    ask = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    with server.connect() as client:
        for _ in range(3):
            client.sendall(ask)
            assert status(client.recv(65536)) == 200
            time.sleep(1.5 * BRIEF)  # longer than a head may take, less than the server waits for a request
        assert everything(client) == b""
        client.close()
    assert server.told == []
    with server.connect() as client:  # and then a head that has no end
        client.sendall(ask)
        assert status(client.recv(65536)) == 200
        client.sendall(ask[:-2])
        assert status(everything(client)) == 408


@pytest.mark.rule("limits.connections.reading", "limits.connections.told")
def test_a_client_that_does_not_read_is_cut_off(server: Server) -> None:
    with server.connect(receive_buffer=4096) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        assert server.app.large_done.wait(10), "the application is not held up for ever"
        wait_for(lambda: bool(server.told))
        assert len(everything(client)) < LARGE
    assert server.told == [("send_timeout", "127.0.0.1", 0)]


@pytest.mark.rule("limits.connections.slow_call")
@pytest.mark.parametrize("path", ["/slow", "/stream"])
def test_what_takes_long_on_our_side_is_not_cut_off(server: Server, path: str) -> None:
    found = exchange(server, f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert status(found) == 200
    assert b"slow" in found or b"two" in found
    assert server.told == []


def wait_for(is_so: Any) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.rule("limits.connections.many", "limits.connections.told")
@pytest.mark.parametrize("kind", KINDS)
def test_more_connections_than_allowed_are_turned_away(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    with serving(kind, monkeypatch, connections=2, header_timeout=30) as server:
        with server.connect() as first, server.connect() as second:
            first.sendall(ask)
            assert status(first.recv(65536)) == 200
            second.sendall(ask)
            assert status(second.recv(65536)) == 200
            refusal = exchange(server, ask)
            assert status(refusal) == 503
            assert b"retry-after: 1\r\n" in refusal
            first.sendall(ask)
            assert status(first.recv(65536)) == 200, "those that are open go on"
            assert server.told == [("connections", "127.0.0.1", 503)]
        wait_for(lambda: exchange(server, post("content-length: 0"))[9:12] == b"200")


@pytest.mark.rule("limits.connections.address", "limits.connections.told")
@pytest.mark.parametrize("kind", KINDS)
def test_one_address_may_not_have_all_connections(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

    def answer_to(client: socket.socket) -> bytes:
        client.sendall(ask)
        return client.recv(65536)

    with serving(kind, monkeypatch, connections=5, connections_per_address=2, header_timeout=30) as server:
        with ExitStack() as stack:
            unlimited = [stack.enter_context(server.connect()) for _ in range(3)]
            assert [status(answer_to(each)) for each in unlimited] == [200] * 3, "loopback is where proxies are"
        with monkeypatch.context() as patch, ExitStack() as stack:
            patch.setattr(connection_limits, "address_key", lambda address: address)  # as if these were not loopback
            held = [stack.enter_context(server.connect(source="127.0.0.2")) for _ in range(2)]
            assert [status(answer_to(each)) for each in held] == [200] * 2
            with server.connect(source="127.0.0.2") as one_more:
                refusal = everything(one_more)
            assert status(refusal) == 503
            assert b"see limits.connections_per_address\n" in refusal
            assert server.told == [("connections_per_address", "127.0.0.2", 503)]
            other = stack.enter_context(server.connect(source="127.0.0.3"))
            assert [status(answer_to(each)) for each in (other, *held)] == [200] * 3, "others, and those open, go on"
            held[0].close()

            def is_let_in() -> bool:
                with server.connect(source="127.0.0.2") as again:
                    again.sendall(ask)
                    return again.recv(65536)[9:12] == b"200"

            wait_for(is_let_in)


@pytest.mark.rule("limits.connections.address")
@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("127.0.0.9", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("", ""),
    ],
)
def test_an_address_of_version_6_counts_by_its_network(address: str, place: str) -> None:
    assert connection_limits.address_key(address) == place
