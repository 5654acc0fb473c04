"""How long a connection may take for what it does, and how many there may be.

uvicorn has a time for idle connections and nothing for those who send or read slowly, who send no end of headers, or
who connect and say nothing; with its `limit_concurrency` the last lock everybody else out (`test_limits_uvicorn.py`).
Here its protocols, h11's and httptools' alike, are watched: a look once a second at all connections costs a call
nothing.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any, cast

from carrel.auth.sign_in import is_loopback, network_of
from carrel.mcp.joined_writes import JoinedWrites
from carrel.mcp.limits.request_limits import refused

READ_BYTES = 256 * 1024
"""What asyncio reads at once."""
CHUNKED_BYTES = 8
"""A body in chunks of a byte each is six times as long on the wire."""
MOST_LEAVING = 64
"""Refused connections that are still listened to, so that they get to read why."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    head_bytes: int = 40 * 1024
    """The request line and the headers, as they come."""
    body_bytes: int = 4 * 1024 * 1024
    header_timeout: float = 10
    body_timeout: float = 30
    send_timeout: float = 60
    connections: int = 512
    """0 is any number."""
    connections_per_address: int = 0
    """The same; loopback may have any number."""

    @property
    def h11_bytes(self) -> int:
        """uvicorn's own limit for h11, which must not strike first."""
        return self.head_bytes + 2 * READ_BYTES


class Protocols:
    """What uvicorn takes as its `http`: makes its protocols, each one watched. Sent to workers as it is."""

    def __init__(self, limits: ConnectionLimits, kind: str = "auto") -> None:
        self.limits = limits
        self._kind = kind
        self._open: set[Watched] = set()
        self._of_place = Counter[str]()
        self._leaving: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, **given: Any) -> asyncio.Protocol:
        protocol = _watched(self._kind)(**given)
        protocol.watch = self
        return protocol

    def __getstate__(self) -> tuple[ConnectionLimits, str]:
        return self.limits, self._kind

    def __setstate__(self, state: tuple[ConnectionLimits, str]) -> None:
        self.__init__(*state)

    def enter(self, connection: "Watched") -> str:
        """Empty, and it is one of those that are open; or the limit that there is no room by."""
        limits = self.limits
        if limits.connections and len(self._open) >= limits.connections:
            return "connections"
        if limits.connections_per_address and (place := place_of(connection.address)):
            if self._of_place[place] >= limits.connections_per_address:
                return "connections_per_address"
            self._of_place[place] += 1
            connection.place = place
        self._open.add(connection)
        if self._timer is None:
            self._look_later()
        return ""

    def linger(self, connection: "Watched") -> bool:
        """Whether a refused connection may stay until the next look."""
        if len(self._leaving) >= MOST_LEAVING:
            return False
        self._leaving.add(connection)
        if self._timer is None:
            self._look_later()
        return True

    def leave(self, connection: "Watched") -> None:
        if place := connection.place:
            connection.place = ""
            self._of_place[place] -= 1
            if not self._of_place[place]:
                del self._of_place[place]
        self._open.discard(connection)
        self._leaving.discard(connection)

    def _look_later(self) -> None:
        limits = self.limits
        shortest = min(limits.header_timeout, limits.body_timeout, limits.send_timeout)
        self._timer = asyncio.get_running_loop().call_later(min(1.0, shortest / 4), self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in [*self._open, *self._leaving]:
            connection.look(now)
        if self._open or self._leaving:
            self._look_later()


class Watched(asyncio.Protocol):
    """Mixed into a protocol of uvicorn's, whose attributes these are."""

    cycle: Any
    client: tuple[str, int] | None
    transport: JoinedWrites
    timeout_keep_alive_task: asyncio.TimerHandle | None
    flow: Any

    watch: Protocols
    place = ""
    """Where it is counted as coming from; empty for one that is not."""
    _phase: tuple[str, int] = ("", 0)
    _since = 0.0
    _requests = 0
    _is_refused = False
    _is_head = True
    _size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = JoinedWrites(cast("asyncio.Transport", transport))
        if limit := self.watch.enter(self):
            self._refuse(limit, 503)

    def connection_lost(self, exc: Exception | None) -> None:
        self.watch.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        before = self.cycle
        is_head = before is None or (before.response_complete and not before.more_body)
        super().data_received(data)
        if self.cycle is not before:  # the head of a request is complete
            self._requests += 1
            self._size = 0
            return
        if is_head is not self._is_head:
            self._is_head = is_head
            self._size = 0
        self._size += len(data)
        limits = self.watch.limits
        if is_head:
            if self._size > limits.head_bytes and not self.transport.is_closing():
                self._refuse("header_bytes", 431)
        elif self._size > limits.body_bytes * CHUNKED_BYTES + limits.head_bytes:
            self._refuse("body_bytes", 413)

    def look(self, now: float) -> None:
        """Cut the connection if it has been at one thing for too long."""
        if self._is_refused and not self.transport.get_write_buffer_size():
            self.transport.close()
            return
        phase = self._doing()
        if phase != self._phase:
            self._phase, self._since = phase, now
            return
        limits = self.watch.limits
        match phase[0]:
            case "send_timeout" if now - self._since > limits.send_timeout:
                refused("send_timeout", self.address)
                self.transport.abort()
            case "header_timeout" if now - self._since > limits.header_timeout:
                self._refuse("header_timeout", 408)
            case "body_timeout" if now - self._since > limits.body_timeout:
                self._refuse("body_timeout", 408)
            case _:
                pass

    def _doing(self) -> tuple[str, int]:
        """What the other side is waited for, by the name of its limit, and at which request."""
        cycle, number = self.cycle, self._requests
        if self.transport.get_write_buffer_size():
            return "send_timeout", number
        if self.transport.is_closing() or self.flow.read_paused:  # it is us who are waited for
            return "", number
        if cycle is None or cycle.response_complete:
            is_idle = self.timeout_keep_alive_task is not None  # uvicorn sees to that
            return ("" if is_idle else "header_timeout"), number
        return ("body_timeout" if cycle.more_body else ""), number

    def _refuse(self, limit: str, status: int) -> None:
        """Say why, where no answer has begun, and close. Whoever is at the request sees that the client has gone."""
        cycle = self.cycle
        is_answered = cycle is not None and cycle.response_started and (cycle.more_body or not cycle.response_complete)
        if not is_answered:  # else it was refused already, and sends its body nevertheless
            refused(limit, self.address, status)
            self.transport.write(_answer(status, limit))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._is_refused = True
        if is_answered or not self.transport.can_write_eof() or not self.watch.linger(self):
            self.transport.close()
        else:  # closed over what it is still sending, it would lose the answer
            self.transport.write_eof()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""


class WithoutTrailers(Watched):
    """For httptools, which adds what follows a body in chunks to the headers, past every proxy that looked at those."""

    headers: list[tuple[bytes, bytes]]

    def on_headers_complete(self) -> None:
        # The protocol that this is mixed into has it.
        super().on_headers_complete()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        self.headers = []


def place_of(address: str) -> str:
    """What connections are counted by; empty for loopback, where proxies are."""
    return "" if is_loopback(address) else network_of(address)


@cache
def _answer(status: int, limit: str) -> bytes:
    reason = HTTPStatus(status).phrase
    body = f"{reason}: see limits.{limit}\n"
    lines = (
        f"HTTP/1.1 {status} {reason}",
        "content-type: text/plain; charset=utf-8",
        f"content-length: {len(body)}",
        "connection: close",
        *(["retry-after: 1"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []),
    )
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@cache
def _watched(kind: str) -> type[Any]:
    """httptools' protocol, h11's, or whichever uvicorn would take."""
    if kind == "auto":
        kind = "httptools" if find_spec("httptools") else "h11"
    if kind == "h11":
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return type("WatchedH11", (Watched, H11Protocol), {})
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    return type("WatchedHttpTools", (WithoutTrailers, HttpToolsProtocol), {})
