"""How long a connection may take for what it does, and how many there may be.

uvicorn has a time for idle connections and nothing for those who send or read slowly, who send no end of headers, or
who connect and say nothing; with its `limit_concurrency` the last lock everybody else out (`test_limits_uvicorn.py`).
Here its protocols, h11's and httptools' alike, are watched: checking all connections once a second costs
a call nothing.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any, cast

from carrel.auth.sign_in import is_loopback, network_of
from carrel.mcp.limits.request_limits import log_refusal

READ_SIZE_BYTES = 256 * 1024
"""What asyncio reads at once."""
CHUNKED_BODY_FACTOR = 8
"""A body in chunks of a byte each is six times as long on the wire."""
MAX_LINGERING = 64
"""Refused connections that are still listened to, so that they get to read why."""
MAX_JOINED_BYTES = 64 * 1024
"""Writes over this size are sent at once, so that the event loop's own limits on its buffers hold."""


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
        return self.head_bytes + 2 * READ_SIZE_BYTES


class ProtocolFactory:
    """What uvicorn takes as its `http`: makes its protocols, each one watched. Sent to workers as it is."""

    def __init__(self, limits: ConnectionLimits, kind: str = "auto") -> None:
        self.limits = limits
        self._kind = kind
        self._open: set[LimitedProtocol] = set()
        self._count_by_address = Counter[str]()
        self._lingering: set[LimitedProtocol] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, **options: Any) -> asyncio.Protocol:
        protocol = _protocol_class(self._kind)(**options)
        protocol.factory = self
        return protocol

    def __getstate__(self) -> tuple[ConnectionLimits, str]:
        return self.limits, self._kind

    def __setstate__(self, state: tuple[ConnectionLimits, str]) -> None:
        self.__init__(*state)

    def enter(self, connection: "LimitedProtocol") -> str:
        """Empty, and it is one of those that are open; or the limit that there is no room by."""
        limits = self.limits
        if limits.connections and len(self._open) >= limits.connections:
            return "connections"
        if limits.connections_per_address and (key := address_key(connection.address)):
            if self._count_by_address[key] >= limits.connections_per_address:
                return "connections_per_address"
            self._count_by_address[key] += 1
            connection.address_key = key
        self._open.add(connection)
        if self._timer is None:
            self._schedule_check()
        return ""

    def linger(self, connection: "LimitedProtocol") -> bool:
        """Whether a refused connection may stay until the next check."""
        if len(self._lingering) >= MAX_LINGERING:
            return False
        self._lingering.add(connection)
        if self._timer is None:
            self._schedule_check()
        return True

    def leave(self, connection: "LimitedProtocol") -> None:
        if key := connection.address_key:
            connection.address_key = ""
            self._count_by_address[key] -= 1
            if not self._count_by_address[key]:
                del self._count_by_address[key]
        self._open.discard(connection)
        self._lingering.discard(connection)

    def _schedule_check(self) -> None:
        limits = self.limits
        shortest = min(limits.header_timeout, limits.body_timeout, limits.send_timeout)
        self._timer = asyncio.get_running_loop().call_later(min(1.0, shortest / 4), self._check_all)

    def _check_all(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for connection in [*self._open, *self._lingering]:
            connection.check_timeout(now)
        if self._open or self._lingering:
            self._schedule_check()


class JoinedWrites:
    """A transport that sends together what is written to it during one turn of the event loop.

    uvicorn writes the head of an answer and then its body. Each write is a system call, and a packet too, since small
    answers must not wait (`TCP_NODELAY`): for a short answer, that is a tenth of the call for the server, and the
    client wakes up twice.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        """Delegate everything but writes to the transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if len(self._held) + len(data) > MAX_JOINED_BYTES:
            self._send()
            self._transport.write(data)
            return
        if not self._held:
            self._loop.call_soon(self._send)
        self._held += data

    def write_eof(self) -> None:
        self._send()
        self._transport.write_eof()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        return len(self._held) + self._transport.get_write_buffer_size()

    def _send(self) -> None:
        held, self._held = self._held, b""
        if held and not self.is_closing():
            self._transport.write(held)


class LimitedProtocol(asyncio.Protocol):
    """Mixed into a protocol of uvicorn's, whose attributes these are."""

    cycle: Any
    client: tuple[str, int] | None
    transport: JoinedWrites
    timeout_keep_alive_task: asyncio.TimerHandle | None
    flow: Any

    factory: ProtocolFactory
    address_key = ""
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
        if limit := self.factory.enter(self):
            self._refuse(limit, 503)

    def connection_lost(self, exc: Exception | None) -> None:
        self.factory.leave(self)
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
        limits = self.factory.limits
        if is_head:
            if self._size > limits.head_bytes and not self.transport.is_closing():
                self._refuse("header_bytes", 431)
        elif self._size > limits.body_bytes * CHUNKED_BODY_FACTOR + limits.head_bytes:
            self._refuse("body_bytes", 413)

    def check_timeout(self, now: float) -> None:
        """Cut the connection if it has been at one thing for too long."""
        if self._is_refused and not self.transport.get_write_buffer_size():
            self.transport.close()
            return
        phase = self._current_phase()
        if phase != self._phase:
            self._phase, self._since = phase, now
            return
        limits = self.factory.limits
        match phase[0]:
            case "send_timeout" if now - self._since > limits.send_timeout:
                log_refusal("send_timeout", self.address)
                self.transport.abort()
            case "header_timeout" if now - self._since > limits.header_timeout:
                self._refuse("header_timeout", 408)
            case "body_timeout" if now - self._since > limits.body_timeout:
                self._refuse("body_timeout", 408)
            case _:
                pass

    def _current_phase(self) -> tuple[str, int]:
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
            log_refusal(limit, self.address, status)
            self.transport.write(_refusal_response(status, limit))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._is_refused = True
        if is_answered or not self.transport.can_write_eof() or not self.factory.linger(self):
            self.transport.close()
        else:  # closed over what it is still sending, it would lose the answer
            self.transport.write_eof()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""


class LimitedHttpTools(LimitedProtocol):
    """For httptools, which adds what follows a body in chunks to the headers, past every proxy that looked at those."""

    headers: list[tuple[bytes, bytes]]

    def on_headers_complete(self) -> None:
        # The protocol that this is mixed into has it.
        super().on_headers_complete()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        self.headers = []


def address_key(address: str) -> str:
    """What connections are counted by; empty for loopback, where proxies are."""
    return "" if is_loopback(address) else network_of(address)


@cache
def _refusal_response(status: int, limit: str) -> bytes:
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
def _protocol_class(kind: str) -> type[Any]:
    """httptools' protocol, h11's, or whichever uvicorn would take."""
    if kind == "auto":
        kind = "httptools" if find_spec("httptools") else "h11"
    if kind == "h11":
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return type("WatchedH11", (LimitedProtocol, H11Protocol), {})
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    return type("WatchedHttpTools", (LimitedHttpTools, HttpToolsProtocol), {})
