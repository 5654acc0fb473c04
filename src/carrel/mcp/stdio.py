"""MCP over the process's own stdin and stdout.

The SDK's transport drops the calls in flight at the end of input, leaves signals to chance, ignores a line that it
cannot parse and visits a thread three times a message. This one finishes what was begun and answers every line.
"""

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

from pydantic_core import to_json

from carrel.mcp.description import ServerDescription
from carrel.mcp.stdio_session import StdioSession

INVALID_REQUEST = -32600
GRACE_SECONDS = 5.0
MAX_LINE_BYTES = 32 * 1024 * 1024
READ_SIZE_BYTES = 256 * 1024
MAX_QUEUED_LINES = 64
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve_stdio(description: ServerDescription) -> int:
    """Serve until the input ends or a signal asks to stop; return the exit status."""
    with _claimed_streams() as (source, sink):
        connection = _Connection(source, sink)
        with _signals_stop(connection):
            await connection.serve(description)
        return connection.exit_status


class _Connection:
    def __init__(self, source: int, sink: int) -> None:
        self.exit_status = 0
        self._source = source
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queue_slots = threading.Semaphore(MAX_QUEUED_LINES)
        self._outgoing = bytearray()
        self._drained = asyncio.Event()
        self._is_pipe_full = False
        """Whether the pipe has no room, and the loop says when it has."""

    async def serve(self, description: ServerDescription) -> None:
        session = StdioSession(description, self._write)
        threading.Thread(target=self._read_lines, name="carrel-stdin", daemon=True).start()
        while (line := await self._lines.get()) is not None:
            self._queue_slots.release()
            if len(line) > MAX_LINE_BYTES:
                await self._refuse_long_line()
            elif line.strip():
                await session.receive(line)
        await session.finish(GRACE_SECONDS)

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
                self._enqueue(bytes(buffer[:end]))
                del buffer[: end + 1]
                scanned = 0
            scanned = len(buffer)
            if scanned > MAX_LINE_BYTES:  # keep enough to know that it was too long, drop the rest
                del buffer[MAX_LINE_BYTES + 1 :]
                scanned = len(buffer)
        if buffer:
            self._enqueue(bytes(buffer))
        self._enqueue(None)

    def _enqueue(self, line: bytes | None) -> None:
        self._queue_slots.acquire()
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop is closed: the server has stopped, nobody waits for this line
            sys.exit()

    async def _refuse_long_line(self) -> None:
        error = {"code": INVALID_REQUEST, "message": f"Message over {MAX_LINE_BYTES} bytes"}
        await self._write(to_json({"jsonrpc": "2.0", "id": None, "error": error}))

    async def _write(self, message: bytes) -> None:
        """Write one line. A caller that is cancelled while it waits for the client leaves no half of one behind."""
        is_waiting = bool(self._outgoing)
        self._outgoing += message + b"\n"
        if not is_waiting:
            self._flush()
        while self._outgoing:
            self._drained.clear()
            await self._drained.wait()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self._sink, self._outgoing)]
        except BlockingIOError:
            if not self._is_pipe_full:
                self._loop.add_writer(self._sink, self._flush)
            self._is_pipe_full = True
            return
        except BrokenPipeError:  # the client is gone; the end of input follows
            self._outgoing.clear()
        if self._is_pipe_full:
            self._loop.remove_writer(self._sink)
        self._is_pipe_full = False
        self._drained.set()


def _read(source: int) -> bytes:
    try:
        return os.read(source, READ_SIZE_BYTES)
    except OSError:
        return b""


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
