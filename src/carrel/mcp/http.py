"""MCP over HTTP, and what an operator asks a server for."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from carrel.mcp.callers import http_caller
from carrel.mcp.direct import DirectCalls, ordinary_call
from carrel.mcp.door import Door, Place
from carrel.mcp.limits.requests import TooLarge, refuse, whole_body
from carrel.mcp.metrics import page
from carrel.mcp.pipeline import Pipeline

BODY_LIMIT = 4 * 1024 * 1024

Readiness = Callable[[], Awaitable[Mapping[str, str]]]
"""The state of each store: "ok", or what is wrong with it."""


class Endpoint:
    """An MCP server at a path: stateless, so any process may answer any call, and plain JSON, except to those who want
    to be told how far a call is: they get a stream.

    With a pipeline of its own, it answers ordinary calls itself, as `carrel.mcp.direct` describes.
    """

    def __init__(self, server: Server[Any], pipeline: Pipeline | None = None, body_bytes: int = BODY_LIMIT) -> None:
        self._body_bytes = body_bytes
        self.withheld: Mapping[str, str] = pipeline.withheld if pipeline else {}
        """The scopes that the tools would take which this endpoint does not have, by tool."""
        self._direct = DirectCalls(pipeline, server.server_info_stamp) if pipeline else None
        self._plain, self._streaming = (
            StreamableHTTPSessionManager(
                server, json_response=is_plain, stateless=True, max_request_body_size=body_bytes
            )
            for is_plain in (True, False)
        )

    @property
    def place(self) -> Place:
        return Place(self, frozenset())

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        async with self._plain.run(), self._streaming.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # without sessions there is no stream to get and nothing to delete
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        try:
            first = await whole_body(receive, self._body_bytes)
        except TooLarge as error:
            await refuse(scope, receive, send, "body_bytes", self._body_bytes, is_over=error.is_over)
            return
        if first["type"] != "http.request":
            return  # the client has gone
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
        call = ordinary_call(scope["headers"], first["body"])
        return None if call is None else await direct.answer(call, http_caller(scope), scope["headers"])


class Runs(Protocol):
    def run(self) -> AbstractAsyncContextManager[None]: ...


@asynccontextmanager
async def running(endpoints: Mapping[str, Runs]) -> AsyncGenerator[None]:
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

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", _metrics)]


def _metrics(_request: Request) -> Response:
    content, kind = page()
    return Response(content, media_type=kind)


def build_app(lifespan: Callable[[Door], AbstractAsyncContextManager[Readiness]], **door_options: Any) -> Door:
    """The whole HTTP side. `lifespan` opens what is served, puts it into the door and tells its readiness."""

    async def unopened() -> Mapping[str, str]:
        return {"workspace": "not open"}

    state: dict[str, Readiness] = {"readiness": unopened}

    @asynccontextmanager
    async def opened(_app: Starlette) -> AsyncGenerator[None]:
        async with lifespan(door) as state["readiness"]:
            yield

    routes = operator_routes(lambda: state["readiness"]())
    door = Door(Starlette(routes=routes, lifespan=opened), **door_options)
    return door
