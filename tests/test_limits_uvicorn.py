"""Why connections are limited by code of ours: what uvicorn does with its own settings alone.

Where one of these tests fails, uvicorn has learned something that `carrel.mcp.limits.connection_limits` can do without.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

KINDS = ("h11", "httptools")
MEGABYTE = 1024 * 1024


@contextmanager
def plain(kind: str) -> Iterator[int]:
    """uvicorn with `limit_concurrency`, and the times and sizes that it has settings for; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            PlainTextResponse("ok"),
            http=kind,  # pyright: ignore[reportArgumentType] - one of those that it knows
            lifespan="off",
            log_config=None,
            limit_concurrency=5,
            timeout_keep_alive=1,
            h11_max_incomplete_event_size=64 * 1024,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(20)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def status(port: int) -> int:
    with connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return int(client.recv(65536).split()[1])


@pytest.mark.rule("limits.connections.own")
@pytest.mark.parametrize("kind", KINDS)
def test_with_uvicorns_settings_alone_silent_connections_lock_everybody_out(kind: str) -> None:
    with plain(kind) as port:
        assert status(port) == 200
        with ExitStack() as stack:
            for _ in range(5):
                stack.enter_context(connect(port))
            time.sleep(3)  # three times what it lets an idle connection have
            assert status(port) == 503
        time.sleep(0.2)
        assert status(port) == 200


@pytest.mark.rule("limits.connections.own")
def test_with_uvicorns_settings_alone_headers_have_no_end() -> None:
    with plain("httptools") as port, connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n")
        for number in range(16):
            client.sendall(b"x-%d: %s\r\n" % (number, bytes(MEGABYTE).replace(b"\0", b"x")))
        client.sendall(b"\r\n")
        assert int(client.recv(65536).split()[1]) == 200
