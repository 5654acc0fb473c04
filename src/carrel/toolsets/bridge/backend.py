"""The client side of the backend API, and a backend in this process that needs no socket."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from carrel.concurrency import Deferred

PROJECTS_HEADER = "x-carrel-projects"
"""Limits a request to some projects; a backend that applied the limit echoes the header."""

Parameters = Mapping[str, str]
AsgiApp = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


class Reply(NamedTuple):
    status: int
    body: bytes


class BackendUnavailable(Exception):
    """The backend gave no response; the message says why."""


class Backend(Protocol):
    async def get(self, path: str, parameters: Parameters, headers: Parameters) -> Reply:
        """Send a GET request; raise `BackendUnavailable` if no response comes."""
        ...


class InProcessBackend:
    def __init__(self, app: Deferred[AsgiApp]) -> None:
        self._app = app

    async def get(self, path: str, parameters: Parameters, headers: Parameters) -> Reply:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": urlencode(parameters).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": None,
            "server": None,
        }
        status, body = 500, bytearray()

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                body.extend(message.get("body", b""))

        app = await self._app.get()
        await app(scope, receive, send)
        return Reply(status, bytes(body))
