"""MCP over HTTP, and what an operator asks a server for."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from carrel.mcp.direct import DirectCalls, ordinary_call
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Caller

BODY_LIMIT = 4 * 1024 * 1024
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
API_PREFIX = "/api/"
PROBES = frozenset({"/healthz", "/readyz"})

Readiness = Callable[[], Awaitable[Mapping[str, str]]]
"""The state of each store: "ok", or what is wrong with it."""


class Endpoint:
    """An MCP server at a path: stateless, so any process may answer any call, and plain JSON, except to those who want
    to be told how far a call is: they get a stream.

    With a pipeline of its own, it answers ordinary calls itself, as `carrel.mcp.direct` describes.
    """

    def __init__(self, server: Server[Any], pipeline: Pipeline | None = None) -> None:
        self._direct = DirectCalls(pipeline, server.server_info_stamp) if pipeline else None
        self._plain, self._streaming = (
            StreamableHTTPSessionManager(
                server, json_response=is_plain, stateless=True, max_request_body_size=BODY_LIMIT
            )
            for is_plain in (True, False)
        )

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        async with self._plain.run(), self._streaming.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # without sessions there is no stream to get and nothing to delete
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        first = await receive()
        if self._direct and (body := await self._direct_answer(self._direct, scope, first)) is not None:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        unread = [first]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        wants_progress = b'"progressToken"' in first.get("body", b"")
        await (self._streaming if wants_progress else self._plain).asgi_app(scope, receive_again, send)

    async def _direct_answer(self, direct: DirectCalls, scope: Scope, first: Message) -> bytes | None:
        if first["type"] != "http.request" or first.get("more_body") or len(first["body"]) > BODY_LIMIT:
            return None
        call = ordinary_call(scope["headers"], first["body"])
        return None if call is None else await direct.answer(call, Caller(client=_client(scope)))


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


class Door:
    """In front of everything: who may knock, then to the MCP endpoints and the API by path, else to other routes."""

    def __init__(self, other: ASGIApp, allowed_hosts: tuple[str, ...], allowed_origins: tuple[str, ...]) -> None:
        self.endpoints: dict[str, ASGIApp] = {}
        self.api: ASGIApp | None = None
        self._other = other
        self._hosts = LOOPBACK | {host.lower() for host in allowed_hosts}
        self._origins = frozenset(origin.lower() for origin in allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        path = scope["path"]
        # httptools leaves blanks at the end of header values, which h11 strips; the SDK compares them as they come.
        scope["headers"] = [(name, value.rstrip(b" \t")) for name, value in scope["headers"]]
        is_api = f"{path}/".startswith(API_PREFIX)
        if path not in PROBES and (refusal := self._refusal(scope["headers"])) is not None:
            await _refusing(*refusal, is_api)(scope, receive, send)
            return
        app = self.endpoints.get(path) or (self.api if is_api and self.api else self._other)
        await app(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """A page of another site, or a name that was made to point here, must not reach a desk through a browser."""
        host = origin = None
        for name, value in headers:
            if name == b"host":
                host = value.decode("latin-1").lower()
            elif name == b"origin":
                origin = value.decode("latin-1").lower()
        if host is None or not (host in self._hosts or _without_port(host) in self._hosts):
            return 421, "Host is not allowed; add it to server.allowed_hosts"
        if origin is not None and not self._is_allowed(origin):
            return 403, "Origin is not allowed; add it to server.allowed_origins"
        return None

    def _is_allowed(self, origin: str) -> bool:
        scheme, _, host = origin.partition("://")
        return origin in self._origins or (scheme in ("http", "https") and _without_port(host) in LOOPBACK)


def _refusing(status: int, message: str, is_api: bool) -> Response:
    if is_api:
        return JSONResponse({"error": {"code": "FORBIDDEN", "message": message}}, status_code=status)
    return PlainTextResponse(message, status_code=status)


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdecimal() else host


@asynccontextmanager
async def running(endpoints: Mapping[str, Endpoint]) -> AsyncGenerator[None]:
    async with AsyncExitStack() as stack:
        for endpoint in endpoints.values():
            await stack.enter_async_context(endpoint.run())
        yield


def operator_routes(readiness: Readiness) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        stores = dict(await readiness())
        ready = all(state == "ok" for state in stores.values())
        body = {"status": "ready" if ready else "unavailable", "stores": stores}
        return JSONResponse(body, status_code=200 if ready else 503)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", _metrics)]


def _metrics(_request: Request) -> Response:
    """This process's numbers, or those of all workers together where several share the port."""
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest, values

    registry = REGISTRY
    if values.ValueClass is not values.MutexValue:
        from prometheus_client import multiprocess

        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def build_app(
    lifespan: Callable[[Door], AbstractAsyncContextManager[Readiness]],
    *,
    allowed_hosts: tuple[str, ...] = (),
    allowed_origins: tuple[str, ...] = (),
) -> Door:
    """The whole HTTP side. `lifespan` opens what is served, puts endpoints into the door and tells their readiness."""

    async def unopened() -> Mapping[str, str]:
        return {"workspace": "not open"}

    state: dict[str, Readiness] = {"readiness": unopened}

    @asynccontextmanager
    async def opened(_app: Starlette) -> AsyncGenerator[None]:
        async with lifespan(door) as state["readiness"]:
            yield

    routes = operator_routes(lambda: state["readiness"]())
    door = Door(Starlette(routes=routes, lifespan=opened), allowed_hosts, allowed_origins)
    return door
