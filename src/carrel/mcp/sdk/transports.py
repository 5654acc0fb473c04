"""The SDK's server behind the fast path: as an ASGI endpoint, and over lines of text."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json
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


class SdkStream:
    """Runs an SDK server that reads lines and writes messages."""

    def __init__(self, server: Server[Any], write: Callable[[bytes], Awaitable[None]]) -> None:
        self._server = server
        self._write = write
        self._to_server, self._from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._unanswered: set[RequestId] = set()
        self._all_answered = asyncio.Event()
        self._muted: set[RequestId] = set()
        """Requests that the client has been answered already."""
        self._running: asyncio.Task[None] | None = None

    async def start(self, opening: Sequence[bytes] = ()) -> None:
        """Start the server, and tell it how the conversation began before it was needed."""
        self._running = asyncio.create_task(self._run())
        for line in opening:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            if isinstance(message, JSONRPCRequest):
                self._muted.add(message.id)
            await self._to_server.send(SessionMessage(message))

    async def receive(self, line: bytes) -> None:
        """Deliver a line to the server, or refuse what is not a message."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._refuse(*_fault(line))
            return
        if isinstance(message, JSONRPCRequest):
            if message.method != "subscriptions/listen":  # which ends with the connection
                self._unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification):
            if "id" in from_json(line):  # a request whose id is invalid, which the SDK takes for a notification
                await self._refuse(None, INVALID_REQUEST, "Invalid Request")
                return
            if message.method == "notifications/cancelled":
                self._settle((message.params or {}).get("requestId"))
        await self._to_server.send(SessionMessage(message))

    async def finish(self, grace: float) -> None:
        """Wait a while for the answers that are due."""
        with anyio.move_on_after(grace):
            while self._unanswered:
                self._all_answered.clear()
                await self._all_answered.wait()

    async def close(self) -> None:
        """Let the server end; what it has not answered it answers with an error."""
        self._to_server.close()
        if self._running:
            await self._running

    async def _run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._answer, self._from_server)
            options = self._server.create_initialization_options()
            await self._server.run(self._from_client, self._to_client, options)

    async def _answer(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for outgoing in from_server:
                message = outgoing.message
                is_response = isinstance(message, JSONRPCResponse | JSONRPCError)
                if is_response and message.id in self._muted:
                    self._muted.discard(message.id)
                    continue
                await self._write(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                if is_response:
                    self._settle(message.id)

    def _settle(self, request: Any) -> None:
        self._unanswered.discard(request)
        if not self._unanswered:
            self._all_answered.set()

    async def _refuse(self, request: RequestId | None, code: int, text: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=text))
        await self._write(error.model_dump_json(by_alias=True, exclude_unset=True).encode())


def _fault(line: bytes) -> tuple[RequestId | None, int, str]:
    """What to answer to a line that is not a message: its id as far as it has one, code and text."""
    try:
        value = from_json(line)
    except ValueError:
        return None, PARSE_ERROR, "Parse error"
    request = cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else None
    is_known = isinstance(request, str | int) and not isinstance(request, bool)
    return request if is_known else None, INVALID_REQUEST, "Invalid Request"
