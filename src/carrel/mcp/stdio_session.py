"""One client's conversation over stdio: ordinary messages take the fast path, all others the SDK's.

The SDK is loaded when the first message comes that only it can answer. It is then brought to the state that the
conversation is in, by the request that opened it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from carrel.common import AsyncProgress
from carrel.mcp.description import ServerDescription
from carrel.mcp.fast_path import FastPath
from carrel.mcp.messages import (
    CALL_TOOL,
    DISCOVER,
    INITIALIZE,
    Request,
    Session,
    as_notification,
    as_request,
    envelope,
    handshake,
    is_enveloped,
    parse,
)
from carrel.mcp.toolset import Caller

if TYPE_CHECKING:
    from carrel.mcp.sdk.transports import SdkStream

CONNECTION_CLOSED = -32000
OPENING_ID = "carrel/opening"

Write = Callable[[bytes], Awaitable[None]]
"""Writes one message to the client."""


class StdioSession:
    """Answers the lines of one client."""

    def __init__(self, description: ServerDescription, write: Write, *, has_fast_path: bool = True) -> None:
        self._description = description
        self._fast = FastPath(description)
        self._write = write
        self._session: Session | None = None
        self._opening: list[bytes] = []
        """What the SDK has to be told to be where the conversation is."""
        self._is_fast = has_fast_path
        """Until the SDK alone knows what was negotiated."""
        self._calls: dict[int | str, asyncio.Task[None]] = {}
        """Tool calls under way, by id, as long as they can be cancelled."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._sdk: SdkStream | None = None
        self._needs_sdk = False
        self._sdk_lock = asyncio.Lock()
        self._is_closing = False

    async def receive(self, line: bytes) -> None:
        """Answer a line, or begin to."""
        if self._is_fast and await self._try_fast_path(line):
            return
        self._needs_sdk = True
        if self._sdk is None:  # whatever is ordinary is answered while the SDK is loaded
            self._spawn(self._delegate(line))
        else:
            await self._delegate(line)

    async def finish(self, grace: float) -> None:
        """Wait a while for the answers that are due, then cancel the rest."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        if self._sdk:
            await self._sdk.finish(max(deadline - loop.time(), 0.0))
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sdk:
            await self._sdk.close()

    async def _try_fast_path(self, line: bytes) -> bool:
        """Begin to answer an ordinary message; return whether it is one."""
        message = parse(line)
        if (request := as_request(message)) is not None:
            return await self._try_request(request, line)
        notification = as_notification(message)
        if notification is None or self._session is None:
            self._is_fast = self._session is not None  # the SDK decides about a conversation that begins otherwise
            return False
        return self._try_notification(notification, line)

    async def _try_request(self, request: Request, line: bytes) -> bool:
        session = self._open(request, line) if self._session is None else self._resume(request, self._session)
        if session is None:
            # A second handshake, or an opening that is not ordinary: only the SDK knows what comes of it.
            self._is_fast = self._session is not None and request.method != INITIALIZE
            return False
        if request.method == CALL_TOOL:
            self._calls[_id_key(request.id)] = self._spawn(self._call(request, session, line))
            return True
        response = self._fast.answer(request, session)
        if response is None:
            return False
        await self._write(response)
        return True

    def _open(self, request: Request, line: bytes) -> Session | None:
        """Begin the conversation in the era of its first request."""
        if request.method == INITIALIZE:
            session, opening = handshake(request.params, remembers_client=self._description.has_channel), line
        else:
            probe = {"jsonrpc": "2.0", "id": OPENING_ID, "method": DISCOVER, "params": {"_meta": request.meta}}
            session, opening = envelope(request), to_json(probe)
        if session is not None:
            self._session, self._opening = session, [opening]
        return session

    def _resume(self, request: Request, session: Session) -> Session | None:
        if session.is_modern:
            return None if request.method == INITIALIZE else envelope(request)
        return None if request.method == INITIALIZE or is_enveloped(request) else session

    def _try_notification(self, notification: dict[str, Any], line: bytes) -> bool:
        """The SDK has no handlers of notifications either, but keeps track of its own session by them."""
        method, params = notification["method"], notification.get("params", {})
        if method == "notifications/initialized" and not self._needs_sdk:
            self._opening.append(line)
        if method == "notifications/cancelled" and (call := self._calls.get(_id_key(params.get("requestId")))):
            call.cancel()
            return True
        return not self._needs_sdk

    async def _call(self, request: Request, session: Session, line: bytes) -> None:
        caller = Caller(client="", progress=self._progress(request))
        try:
            response = await self._fast.call(request, session, caller)
        except asyncio.CancelledError:
            if self._is_closing:  # else the client has cancelled the call, and must not be answered
                error = {"code": CONNECTION_CLOSED, "message": "Connection closed"}
                await self._write(to_json({"jsonrpc": "2.0", "id": request.id, "error": error}))
            raise
        finally:
            if self._calls.get(key := _id_key(request.id)) is asyncio.current_task():
                del self._calls[key]
        if response is None:
            await self._delegate(line)
        else:
            await self._write(response)

    def _progress(self, request: Request) -> AsyncProgress | None:
        token = request.meta.get("progressToken")
        if token is None:
            return None

        async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            present = {name: value for name, value in params.items() if value is not None}
            await self._write(to_json({"jsonrpc": "2.0", "method": "notifications/progress", "params": present}))

        return report

    def _spawn(self, answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(answering)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _delegate(self, line: bytes) -> None:
        """Let the SDK answer, in the order of the lines."""
        self._needs_sdk = True
        async with self._sdk_lock:
            if self._sdk is None:
                # Off the event loop: calls are under way.
                sdk = await asyncio.to_thread(_load_sdk, self._description, self._write)
                await sdk.start(self._opening)
                self._sdk = sdk
            await self._sdk.receive(line)


def _load_sdk(description: ServerDescription, write: Write) -> "SdkStream":
    from carrel.mcp.sdk.server import build_server
    from carrel.mcp.sdk.transports import SdkStream

    return SdkStream(build_server(description), write)


def _id_key(number: Any) -> int | str:
    """The ids 7 and "7" are one: some clients cancel by the other."""
    try:
        return int(number) if isinstance(number, str) else number
    except ValueError:
        return number
