"""Many keep-alive connections on one epoll: a client light enough not to be what is measured."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import messages

RESPONSE_TIMEOUT_SECONDS = 60.0
READ_SIZE = 256 * 1024
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class HttpClient:
    """A number of clients that each send the same request again as soon as they have the answer."""

    def __init__(self, connections: list[socket.socket], request: bytes) -> None:
        self._request = request
        self._sockets = {connection.fileno(): connection for connection in connections}
        self._buffers = dict.fromkeys(self._sockets, b"")
        self._poll = select.epoll()
        for number in self._sockets:
            self._poll.register(number, select.EPOLLIN)

    def close(self) -> None:
        self._poll.close()

    def drive(self, calls: int) -> list[float]:
        """The seconds that each call took."""
        clock = time.perf_counter
        waiting = min(calls, len(self._sockets))
        to_send = calls - waiting
        started: dict[int, float] = {}
        for number in list(self._sockets)[:waiting]:
            started[number] = clock()
            self._sockets[number].sendall(self._request)
        taken: list[float] = []
        while len(taken) < calls:
            ready = self._poll.poll(RESPONSE_TIMEOUT_SECONDS)
            if not ready:
                raise RuntimeError(f"no answer within {RESPONSE_TIMEOUT_SECONDS} s")
            for number, _ in ready:
                if self._read(number) is None:
                    continue
                taken.append(clock() - started[number])
                if to_send:
                    to_send -= 1
                    started[number] = clock()
                    self._sockets[number].sendall(self._request)
        return taken

    def ask(self) -> bytes:
        """One call; the body of its answer."""
        number, connection = next(iter(self._sockets.items()))
        connection.sendall(self._request)
        while self._poll.poll(RESPONSE_TIMEOUT_SECONDS):
            if (body := self._read(number)) is not None:
                return body
        raise RuntimeError(f"no answer within {RESPONSE_TIMEOUT_SECONDS} s")

    def _read(self, number: int) -> bytes | None:
        """The body, once all of it is there."""
        chunk = self._sockets[number].recv(READ_SIZE)
        answer = self._buffers[number] + chunk
        end = answer.find(b"\r\n\r\n") + 4
        length = LENGTH.search(answer, 0, end)
        if length is None or len(answer) < end + int(length[1]):
            if not chunk:
                raise RuntimeError(f"the server closed the connection after {answer[:500]!r}")
            self._buffers[number] = answer
            return None
        self._buffers[number] = b""
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"refused: {answer[:500]!r}")
        messages.check(answer)
        return answer[end:]


@contextmanager
def connected(address: tuple[str, int], request: bytes, clients: int = 1) -> Iterator[HttpClient]:
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, 10)) for _ in range(clients)]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = HttpClient(connections, request)
        stack.callback(client.close)
        yield client
