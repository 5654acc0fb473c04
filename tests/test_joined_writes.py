"""The head and the body of an answer over HTTP go out together, and nothing waits for what comes later."""

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from carrel.mcp.limits.connection_limits import MAX_JOINED_BYTES, JoinedWrites
from tests.wire import HttpServer

DATA_SEGMENTS_AT = 152
"""The field tcpi_data_segs_in of Linux's struct tcp_info."""
BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PING = (
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json, text/event-stream\r\n"
    b"content-type: application/json\r\nmcp-protocol-version: 2025-11-25\r\ncontent-length: %d\r\n\r\n%b"
) % (len(BODY), BODY)
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="uvloop is POSIX's")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for packets as Linux tells them")


@pytest.fixture(params=[False, pytest.param(True, marks=on_posix)], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Each loop that uvicorn may run on."""
    return "asyncio", {"use_uvloop": request.param}


def packets(client: socket.socket) -> int:
    """Those with data that have come in."""
    told = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("<I", told, DATA_SEGMENTS_AT)[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    found = HttpServer("--toolsets", "tasks", cwd=tmp_path_factory.mktemp("desk"))
    yield found
    found.stop()


@on_linux
def test_an_answer_is_one_packet(server: HttpServer) -> None:
    host, port = server.url.removeprefix("http://").partition("/")[0].split(":")
    with socket.create_connection((host, int(port)), 20) as client:
        for number in range(1, 21):
            client.sendall(PING)
            answer = b""
            while not answer.endswith(b'"result":{}}'):
                answer += client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            assert packets(client) == number


class Connection(asyncio.Protocol):
    """The server's side of one connection, and the client's."""

    def __init__(self) -> None:
        self.client = socket.socket()
        self.client.settimeout(20)
        self.is_made = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = JoinedWrites(cast("asyncio.Transport", transport))
        self.is_made.set()

    async def received(self, size: int) -> bytes:
        """Some bytes, which the client waits for."""
        return await asyncio.to_thread(self.client.recv, size)

    async def everything(self) -> bytes:
        found = b""
        while more := await self.received(2**20):
            found += more
        return found


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    found = Connection()
    faults: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: faults.append(context))
    async with await loop.create_server(lambda: found, "127.0.0.1", 0) as server:
        with found.client:
            await asyncio.to_thread(found.client.connect, server.sockets[0].getsockname())
            await found.is_made.wait()
            yield found
            found.transport.abort()
        await asyncio.sleep(0.05)
    assert faults == []


@on_linux
@pytest.mark.anyio
async def test_what_is_written_in_one_turn_of_the_loop_is_one_packet(connection: Connection) -> None:
    for piece in (b"head ", b"body ", b"end"):
        connection.transport.write(piece)
    assert connection.transport.get_write_buffer_size() == len(b"head body end")
    assert await connection.received(100) == b"head body end"
    assert connection.transport.get_write_buffer_size() == 0
    assert packets(connection.client) == 1


@pytest.mark.anyio
async def test_a_head_waits_for_no_body_of_a_later_turn(connection: Connection) -> None:
    connection.transport.write(b"head")
    assert await connection.received(100) == b"head"
    connection.transport.write(b"body")
    assert await connection.received(100) == b"body"


@pytest.mark.anyio
async def test_large_pieces_keep_their_order(connection: Connection) -> None:
    pieces = [
        b"a",
        b"b" * MAX_JOINED_BYTES,
        b"c",
        b"d" * (8 * MAX_JOINED_BYTES),
        *[b"e" * (MAX_JOINED_BYTES // 3)] * 10,
        b"f",
    ]
    for piece in pieces:
        connection.transport.write(piece)
    connection.transport.close()
    assert await connection.everything() == b"".join(pieces)


@pytest.mark.anyio
async def test_what_does_not_fit_is_not_held(connection: Connection) -> None:
    """So that the loop's own limits hold on what is buffered for a client that does not read."""
    paused = asyncio.Event()
    cast("Any", connection).pause_writing = paused.set
    for _ in range(1000):
        connection.transport.write(bytes(MAX_JOINED_BYTES // 2))
    assert paused.is_set()


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["close", "write_eof"])
async def test_nothing_is_lost_at_the_end(connection: Connection, end: str) -> None:
    connection.transport.write(b"head")
    connection.transport.write(b"body")
    getattr(connection.transport, end)()
    assert await connection.everything() == b"headbody"


@pytest.mark.anyio
async def test_a_connection_that_is_cut_off_gets_nothing_more(connection: Connection) -> None:
    connection.transport.write(b"head")
    connection.transport.abort()
    assert await connection.everything() == b""
    connection.transport.write(b"body")
    await asyncio.sleep(0)
