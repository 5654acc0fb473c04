"""MCP over the process's own stdin and stdout.

The SDK's transport drops the calls in flight at the end of input, leaves signals to chance, says nothing to a
line that it cannot parse and visits a thread three times a message. This one finishes what was begun and
answers every line.
"""

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
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

GRACE_SECONDS = 5.0
LINE_LIMIT = 32 * 1024 * 1024
READ_SIZE = 256 * 1024
READ_AHEAD = 64
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve_stdio(server: Server[Any]) -> int:
    """Serve until the input ends or a signal asks to stop; the exit status."""
    with _claimed_streams() as (source, sink):
        connection = _Connection(source, sink)
        with _signals_stop(connection):
            await connection.serve(server)
        return connection.exit_status


class _Connection:
    def __init__(self, source: int, sink: int) -> None:
        self.exit_status = 0
        self._source = source
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(READ_AHEAD)
        self._unanswered: set[RequestId] = set()
        self._all_answered = asyncio.Event()

    async def serve(self, server: Server[Any]) -> None:
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        threading.Thread(target=self._read_lines, name="carrel-stdin", daemon=True).start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deliver, to_server)
            tasks.start_soon(self._answer, from_server)
            await server.run(from_client, to_client, server.create_initialization_options())

    def stop(self, number: int) -> None:
        """Take nothing more in and finish what is in flight; a second signal does not wait."""
        if self.exit_status:
            os._exit(self.exit_status)
        self.exit_status = 128 + number
        self._lines.put_nowait(None)

    def _read_lines(self) -> None:
        """On a thread of its own, for stdin may be a pipe, a terminal or a file, on any system."""
        buffer = bytearray()
        scanned = 0
        while chunk := _read(self._source):
            buffer += chunk
            while (end := buffer.find(b"\n", scanned)) >= 0:
                self._hand_over(bytes(buffer[:end]))
                del buffer[: end + 1]
                scanned = 0
            scanned = len(buffer)
            if scanned > LINE_LIMIT:  # keep enough to know that it was too long, drop the rest
                del buffer[LINE_LIMIT + 1 :]
                scanned = len(buffer)
        if buffer:
            self._hand_over(bytes(buffer))
        self._hand_over(None)

    def _hand_over(self, line: bytes | None) -> None:
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop is closed: the server has stopped, nobody waits for this line
            sys.exit()

    async def _deliver(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with to_server:
            while (line := await self._lines.get()) is not None:
                self._room.release()
                if line.strip():
                    await self._deliver_line(line, to_server)
            with anyio.move_on_after(GRACE_SECONDS):
                while self._unanswered:
                    self._all_answered.clear()
                    await self._all_answered.wait()

    async def _deliver_line(self, line: bytes, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        if len(line) > LINE_LIMIT:
            await self._refuse(None, INVALID_REQUEST, f"Message over {LINE_LIMIT} bytes")
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._refuse(*_fault(line))
            return
        if isinstance(message, JSONRPCRequest):
            if message.method != "subscriptions/listen":  # which ends with the connection
                self._unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification):
            if "id" in from_json(line):  # a request whose id is no id, which the SDK takes for a notification
                await self._refuse(None, INVALID_REQUEST, "Invalid Request")
                return
            if message.method == "notifications/cancelled":
                self._settle((message.params or {}).get("requestId"))
        await to_server.send(SessionMessage(message))

    async def _answer(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for outgoing in from_server:
                message = outgoing.message
                await self._write(message.model_dump_json(by_alias=True, exclude_unset=True))
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._settle(message.id)

    def _settle(self, request: Any) -> None:
        self._unanswered.discard(request)
        if not self._unanswered:
            self._all_answered.set()

    async def _refuse(self, request: RequestId | None, code: int, text: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=text))
        await self._write(error.model_dump_json(by_alias=True, exclude_unset=True))

    async def _write(self, text: str) -> None:
        """All of the line at once where the pipe has room, so that lines of two tasks never mix."""
        left = memoryview((text + "\n").encode())
        while left:
            try:
                left = left[os.write(self._sink, left) :]
            except BlockingIOError:
                await self._writable()
            except BrokenPipeError:  # the client is gone; the end of input follows
                return

    async def _writable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(self._sink, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._sink)


def _read(source: int) -> bytes:
    try:
        return os.read(source, READ_SIZE)
    except OSError:
        return b""


def _fault(line: bytes) -> tuple[RequestId | None, int, str]:
    """What to answer to a line that is no message: whose it is as far as it says, code and text."""
    try:
        value = from_json(line)
    except ValueError:
        return None, PARSE_ERROR, "Parse error"
    request = cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else None
    known = isinstance(request, str | int) and not isinstance(request, bool)
    return request if known else None, INVALID_REQUEST, "Invalid Request"


@contextmanager
def _claimed_streams() -> Generator[tuple[int, int]]:
    """Descriptors of our own for the protocol; whatever else reads fd 0 or prints to fd 1 misses the wire."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    can_wait = stat.S_ISFIFO(os.fstat(sink).st_mode) or stat.S_ISSOCK(os.fstat(sink).st_mode)
    if can_wait and sys.platform != "win32":
        os.set_blocking(sink, False)
    try:
        yield source, sink
    finally:
        os.dup2(sink, 1)


@contextmanager
def _signals_stop(connection: _Connection) -> Generator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in STOP_SIGNALS:
        signal.signal(number, lambda caught, _frame: loop.call_soon_threadsafe(connection.stop, caught))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
