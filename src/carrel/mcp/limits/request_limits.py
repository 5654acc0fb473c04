"""Limits of HTTP requests: sizes, rates of what is not a tool call, and the log of refusals."""

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from carrel.mcp.gateway import http_caller
from carrel.mcp.limits.call_limits import CallLimits

log = logging.getLogger("carrel.limits")

Listener = Callable[[str, str], None]
"""Is told the setting that something was refused by, and the client."""

_listeners: list[Listener] = []
"""Of this process: uvicorn makes the protocols that tell them, and gives them nothing of ours."""


def log_refusal(limit: str, client: str, status: int = 0) -> None:
    """`limit` is the setting that it was refused by, `status` what the client was answered; 0 for nothing.

    Calls that are refused by their rate or number are not told here: they are answers, which the pipeline's observers
    see as `limited`.
    """
    log.info("refused", extra={"fields": {"limit": limit, "client": client, "status": status}})
    for listener in _listeners:
        listener(limit, client)


@contextmanager
def refusal_listener(listener: Listener) -> Generator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


LINGER_SECONDS = 2.0
_REASONS = {
    "url_bytes": (414, "URI Too Long"),
    "header_bytes": (431, "Request Header Fields Too Large"),
    "body_bytes": (413, "Content Too Large"),
}


@dataclass(frozen=True, slots=True)
class RequestLimits:
    body_bytes: int = 4 * 1024 * 1024
    header_bytes: int = 32 * 1024
    url_bytes: int = 8 * 1024


class RequestLimitMiddleware:
    """In front of an application: refuses what is too long by what its head says."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (limit := self._exceeded(scope)) is not None:
            await refuse(scope, receive, send, limit, getattr(self._limits, limit))
        else:
            await self._app(scope, receive, send)

    def _exceeded(self, scope: Scope) -> str | None:
        limits = self._limits
        if len(scope["raw_path"]) + len(scope["query_string"]) > limits.url_bytes:
            return "url_bytes"
        size = 0
        length = b"0"
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name == b"content-length":
                length = value
        if size > limits.header_bytes:
            return "header_bytes"
        is_short = len(length) <= 20 and length.strip().isdigit()  # h11 and httptools take no others
        return None if is_short and int(length) <= limits.body_bytes else "body_bytes"


class BodyTooLarge(Exception):
    """A body is. `is_over` says that nothing more of it will come."""

    def __init__(self, *, is_over: bool) -> None:
        super().__init__()
        self.is_over = is_over


async def read_body(receive: Receive, most: int) -> Message:
    """The request's body as one message, counted while it comes in; or that the client has gone."""
    message = await receive()
    if message["type"] != "http.request":
        return message
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts = bytearray(body)
        while message.get("more_body"):
            if len(parts) > most:
                raise BodyTooLarge(is_over=False)
            message = await receive()
            if message["type"] != "http.request":
                return message
            parts += message.get("body", b"")
        body = bytes(parts)
        message = {"type": "http.request", "body": body, "more_body": False}
    if len(body) > most:
        raise BodyTooLarge(is_over=True)
    return message


async def refuse(scope: Scope, receive: Receive, send: Send, limit: str, most: int, *, is_over: bool = False) -> None:
    """`limit` is the setting that the request goes beyond, `most` its value."""
    client = scope.get("client")
    status, reason = _REASONS[limit]
    log_refusal(limit, client[0] if client else "", status)
    body = f"{reason}: more than limits.{limit}, {most}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    expects_continue = any(name == b"expect" for name, _ in scope["headers"])  # to receive would be to say yes
    if not is_over and not expects_continue:
        await _linger(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _linger(receive: Receive) -> None:
    """Take for a moment what still comes: a connection that is closed over it would take the answer with it."""
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


RateLimitResponse = Callable[[Scope, str, int], ASGIApp]
"""Of a request by its name and the seconds to wait: notes it, and says so."""


class RateLimitMiddleware:
    """In front of an application, each request to which is a call of its client.

    `name_of` has what a path is called in `limits.tools`. A request is under way until its answer begins: a client that
    reads slowly is another limit's business.
    """

    def __init__(
        self, app: ASGIApp, limits: CallLimits, *, name_of: Callable[[str], str], refuse: RateLimitResponse
    ) -> None:
        self._app = app
        self._limits = limits
        self._name_of = name_of
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name, client = self._name_of(scope["path"]), http_caller(scope).client
        call = self._limits.call(client, name)

        async def sending(message: Message) -> None:
            await call.end()
            await send(message)

        async with call as seconds:
            if seconds is None:
                await self._app(scope, receive, sending)
                return
        log.info("refused", extra={"fields": {"limit": "calls", "tool": name, "client": client, "status": 429}})
        await self._refuse(scope, name, seconds)(scope, receive, send)
