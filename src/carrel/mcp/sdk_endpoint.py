"""The SDK's server at a path: whatever the fast path of an endpoint does not answer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send


class SdkEndpoint:
    """Answers with plain JSON, or with a stream where a client asks for the progress of a call."""

    def __init__(self, server: Server[Any], body_bytes: int) -> None:
        self._plain, self._streaming = (
            StreamableHTTPSessionManager(
                server, json_response=is_plain, stateless=True, max_request_body_size=body_bytes
            )
            for is_plain in (True, False)
        )

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        async with self._plain.run(), self._streaming.run():
            yield

    async def answer(self, scope: Scope, first: Message, receive: Receive, send: Send) -> None:
        """Answer a request whose body, `first`, has been received."""
        unread = [first]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        wants_progress = b'"progressToken"' in first.get("body", b"")
        await (self._streaming if wants_progress else self._plain).asgi_app(scope, receive_again, send)
