"""An endpoint that shows each caller the tools that its token opens, as if there were no others."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic_core import from_json
from starlette.types import Message, Receive, Scope, Send

from carrel.doors.access import Access, access_of
from carrel.mcp.description import acting_for
from carrel.mcp.door import Door, Place
from carrel.mcp.http import Endpoint

LONGEST_STREAM_SECONDS = 3600.0
"""After which who listens has to show its token again, as it may have been revoked."""

Build = Callable[[frozenset[str]], Endpoint]


class ScopedEndpoint:
    """Keeps an endpoint for each set of scopes that somebody has come with."""

    def __init__(self, path: str, scopes: frozenset[str], build: Build, door: Door) -> None:
        self._path = path
        self._scopes = scopes
        self._build = build
        self._door = door
        self._endpoints: dict[frozenset[str], Endpoint] = {}
        self._opening = asyncio.Lock()
        self._tasks: TaskGroup | None = None

    @property
    def place(self) -> Place:
        return Place(self, self._scopes)

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

        if endpoint.withheld and (tool := _called(scope, first)) in endpoint.withheld:
            refusal = self._door.refuse_scope(scope, self._path, endpoint.withheld[tool], tool)
            await refusal(scope, receive_again, send)
            return
        with acting_for(access.subject), anyio.move_on_after(_longest(scope, access)):
            await endpoint(scope, receive_again, send)

    async def _endpoint(self, scopes: frozenset[str]) -> Endpoint:
        found = self._endpoints.get(scopes)
        if found is not None:
            return found
        async with self._opening:
            if scopes not in self._endpoints:
                if self._tasks is None:
                    raise RuntimeError("the endpoint does not run")
                endpoint = self._build(scopes)
                await self._tasks.start(_keep, endpoint)
                self._endpoints[scopes] = endpoint
            return self._endpoints[scopes]


async def _keep(endpoint: Endpoint, *, task_status: TaskStatus[None]) -> None:
    async with endpoint.run():
        task_status.started()
        await anyio.sleep_forever()


def _called(scope: Scope, first: Message) -> str:
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


def _longest(scope: Scope, access: Access) -> float | None:
    """Seconds that a stream to who listens may last."""
    if dict(scope["headers"]).get(b"mcp-method") != b"subscriptions/listen":
        return None
    left = LONGEST_STREAM_SECONDS if access.expires_at is None else access.expires_at - time.time()
    return min(max(left, 0.0), LONGEST_STREAM_SECONDS)
