"""MCP over HTTP: endpoints, an endpoint for each set of scopes, and the routes for operators."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from carrel.auth.access import Access, access_of
from carrel.mcp.description import ServerDescription, on_behalf_of
from carrel.mcp.disconnects import Disconnects
from carrel.mcp.fast_path import FastPath
from carrel.mcp.gateway import Gateway, Mount, http_caller
from carrel.mcp.limits.request_limits import BodyTooLarge, read_body, refuse
from carrel.mcp.messages import (
    CALL_TOOL,
    HANDSHAKE_VERSIONS,
    INITIALIZE,
    MAX_VALUES,
    MODERN_VERSION,
    Session,
    as_notification,
    as_request,
    envelope,
    handshake,
    has_too_many_values,
    is_enveloped,
    parse,
)
from carrel.mcp.messages import Request as McpRequest
from carrel.mcp.metrics import render_metrics

if TYPE_CHECKING:
    from carrel.mcp.sdk.transports import SdkEndpoint

MAX_BODY_BYTES = 4 * 1024 * 1024
DEFAULT_HANDSHAKE_VERSION = "2025-03-26"
"""What a client speaks that does not say so."""

Readiness = Callable[[], Awaitable[Mapping[str, str]]]
"""The state of each store: "ok", or what is wrong with it."""
Headers = list[tuple[bytes, bytes]]
disconnects = Disconnects()
"""Of this process."""
_TOO_MANY_VALUES = {
    "jsonrpc": "2.0",
    "error": {"code": -32600, "message": f"Invalid Request: it has over {MAX_VALUES:,} values"},
    "id": None,
}
_CHECKED_HEADERS = (b"mcp-", b"content-type", b"accept")
_SDK_HEADERS = (b"mcp-param-", b"mcp-session-")


class Endpoint:
    """An MCP server at a path: stateless, so any process may answer any call.

    Ordinary requests take the fast path; the SDK is loaded for the first one that does not.
    """

    def __init__(
        self, description: ServerDescription, *, body_bytes: int = MAX_BODY_BYTES, has_fast_path: bool = True
    ) -> None:
        self._description = description
        self._body_bytes = body_bytes
        self.withheld = description.pipeline.withheld
        """The scopes that the tools would take which this endpoint does not have, by tool."""
        self._fast = FastPath(description) if has_fast_path else None
        self._sdk: SdkEndpoint | None = None
        self._load_lock = asyncio.Lock()
        self._tasks: TaskGroup | None = None

    @property
    def mount(self) -> Mount:
        return Mount(self, frozenset())

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # without sessions there is no stream to get and nothing to delete
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        try:
            first = await read_body(receive, self._body_bytes)
        except BodyTooLarge as error:
            await refuse(scope, receive, send, "body_bytes", self._body_bytes, is_over=error.is_over)
            return
        if first["type"] != "http.request":
            return  # the client has gone
        if has_too_many_values(first["body"]):
            await JSONResponse(_TOO_MANY_VALUES, status_code=400)(scope, receive, send)
            return
        answer: tuple[int, bytes] | None = None
        with disconnects.watch(receive) as watch:
            if self._fast:
                answer = await self._answer(self._fast, scope, first["body"])
            if answer is None:
                sdk = self._sdk or await self._load_sdk()
                await sdk.answer(scope, first, receive, watch.sending(send))
        if answer is not None:
            status, body = answer
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def _answer(self, fast: FastPath, scope: Scope, body: bytes) -> tuple[int, bytes] | None:
        """Return the status and body of the response to an ordinary message; None if the SDK has to answer."""
        headers = ordinary_headers(scope["headers"])
        if headers is None:
            return None
        message = parse(body)
        if (request := as_request(message)) is None:
            is_legacy = headers.get(b"mcp-protocol-version") != MODERN_VERSION.encode()
            return (202, b"") if is_legacy and as_notification(message) is not None else None
        session = ordinary_session(headers, request)
        if session is None or "progressToken" in request.meta:  # which is reported in a stream
            return None
        if request.method == CALL_TOOL:
            response = await fast.call(request, session, http_caller(scope), scope["headers"])
        else:
            response = fast.answer(request, session)
        return None if response is None else (200, response)

    async def _load_sdk(self) -> "SdkEndpoint":
        async with self._load_lock:
            if self._sdk is None:
                if self._tasks is None:
                    raise RuntimeError("the endpoint does not run")
                sdk = await asyncio.to_thread(_build_sdk, self._description, self._body_bytes)
                await self._tasks.start(_run_sdk, sdk)
                self._sdk = sdk
            return self._sdk


def _build_sdk(description: ServerDescription, body_bytes: int) -> "SdkEndpoint":
    from carrel.mcp.sdk.server import build_server
    from carrel.mcp.sdk.transports import SdkEndpoint

    return SdkEndpoint(build_server(description), body_bytes)


async def _run_sdk(sdk: "SdkEndpoint", *, task_status: TaskStatus[None]) -> None:
    async with sdk.run():
        task_status.started()
        await anyio.sleep_forever()


def ordinary_headers(headers: Headers) -> dict[bytes, bytes] | None:
    """Return the headers of an ordinary request by name; None where the SDK has something to check or refuse."""
    found: dict[bytes, bytes] = {}
    for key, value in headers:
        if key.startswith(_CHECKED_HEADERS):
            if key in found or key.startswith(_SDK_HEADERS):
                return None
            found[key] = value
    if found.get(b"content-type") != b"application/json" or not _accepts_json(found.get(b"accept", b"")):
        return None
    return found


def ordinary_session(headers: Mapping[bytes, bytes], request: McpRequest) -> Session | None:
    """Return what a request was negotiated by, if its headers and its body agree."""
    version = headers.get(b"mcp-protocol-version", DEFAULT_HANDSHAKE_VERSION.encode()).decode("latin-1")
    if version == MODERN_VERSION:
        is_named = request.method != CALL_TOOL or _matches_name(
            headers.get(b"mcp-name", b""), request.params.get("name")
        )
        agrees = headers.get(b"mcp-method", b"").decode("latin-1") == request.method
        return envelope(request) if agrees and is_named else None
    if version not in HANDSHAKE_VERSIONS or is_enveloped(request):
        return None
    return handshake(request.params, remembers_client=False) if request.method == INITIALIZE else Session(version)


def _matches_name(header: bytes, name: Any) -> bool:
    return header.isascii() and not header.startswith(b"=?") and header.decode() == name


@lru_cache
def _accepts_json(accept: bytes) -> bool:
    return any(kind.partition(b";")[0].strip() == b"application/json" for kind in accept.split(b","))


class Runnable(Protocol):
    def run(self) -> AbstractAsyncContextManager[None]: ...


@asynccontextmanager
async def run_endpoints(endpoints: Mapping[str, Runnable]) -> AsyncGenerator[None]:
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
        body: dict[str, Any] = {"status": "ready" if ready else "unavailable", "stores": stores}
        return JSONResponse(body, status_code=200 if ready else 503)

    return [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", _metrics),
        Route("/metrics/", _metrics),
    ]


def _metrics(_request: Request) -> Response:
    content, kind = render_metrics()
    return Response(content, media_type=kind)


def build_app(lifespan: Callable[[Gateway], AbstractAsyncContextManager[Readiness]], **gateway_options: Any) -> Gateway:
    """The whole HTTP side. `lifespan` opens what is served, puts it into the gateway and tells its readiness."""

    async def unopened() -> Mapping[str, str]:
        return {"workspace": "not open"}

    state: dict[str, Readiness] = {"readiness": unopened}

    @asynccontextmanager
    async def opened(_app: Starlette) -> AsyncGenerator[None]:
        async with lifespan(gateway) as state["readiness"]:
            yield

    app = Starlette(routes=operator_routes(lambda: state["readiness"]()), lifespan=opened)
    app.router.redirect_slashes = False  # a redirect would tell of a path before its scopes are asked about
    gateway = Gateway(app, **gateway_options)
    return gateway


MAX_STREAM_SECONDS = 3600.0
"""After which who listens has to show its token again, as it may have been revoked."""

BuildEndpoint = Callable[[frozenset[str]], Endpoint]


class ScopedEndpoint:
    """Keeps an endpoint for each set of scopes that somebody has come with."""

    def __init__(self, path: str, scopes: frozenset[str], build: BuildEndpoint, gateway: Gateway) -> None:
        self._path = path
        self._scopes = scopes
        self._build = build
        self._gateway = gateway
        self._endpoints: dict[frozenset[str], Endpoint] = {}
        self._build_lock = asyncio.Lock()
        self._tasks: TaskGroup | None = None

    @property
    def mount(self) -> Mount:
        return Mount(self, self._scopes)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        access = access_of(scope)
        if access is None:
            raise RuntimeError("nobody comes here without a token")
        endpoint = await self._endpoint(frozenset(filter(access.has, self._scopes)))
        first = await receive()
        unread = [first]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        if endpoint.withheld and (tool := _called_tool(scope, first)) in endpoint.withheld:
            refusal = self._gateway.refuse_scope(scope, self._path, endpoint.withheld[tool], tool)
            await refusal(scope, receive_again, send)
            return
        with on_behalf_of(access.subject), anyio.move_on_after(_stream_seconds(scope, access)):
            await endpoint(scope, receive_again, send)

    async def _endpoint(self, scopes: frozenset[str]) -> Endpoint:
        found = self._endpoints.get(scopes)
        if found is not None:
            return found
        async with self._build_lock:
            if scopes not in self._endpoints:
                if self._tasks is None:
                    raise RuntimeError("the endpoint does not run")
                endpoint = self._build(scopes)
                await self._tasks.start(_run_endpoint, endpoint)
                self._endpoints[scopes] = endpoint
            return self._endpoints[scopes]


async def _run_endpoint(endpoint: Endpoint, *, task_status: TaskStatus[None]) -> None:
    async with endpoint.run():
        task_status.started()
        await anyio.sleep_forever()


def _called_tool(scope: Scope, first: Message) -> str:
    """The tool that a request calls, if it is plain to see; one that is not is still none of the endpoint's."""
    headers = dict(scope["headers"])
    if headers.get(b"mcp-method") == b"tools/call":
        return headers.get(b"mcp-name", b"").decode("latin-1")
    if first.get("more_body"):
        return ""
    try:
        message: Any = from_json(first.get("body", b""))
        return str(message["params"]["name"]) if message["method"] == "tools/call" else ""
    except (ValueError, KeyError, TypeError):
        return ""


def _stream_seconds(scope: Scope, access: Access) -> float | None:
    """Seconds that a stream to who listens may last."""
    if dict(scope["headers"]).get(b"mcp-method") != b"subscriptions/listen":
        return None
    left = MAX_STREAM_SECONDS if access.expires_at is None else access.expires_at - time.time()
    return min(max(left, 0.0), MAX_STREAM_SECONDS)
