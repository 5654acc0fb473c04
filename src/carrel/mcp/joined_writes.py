"""Answers of an HTTP server in one piece."""

import asyncio
from typing import Any

MAX_JOINED = 64 * 1024
"""Bytes; more go out at once, so that the event loop's own limits on what is buffered hold."""


class JoinedWrites:
    """A transport that sends together what is written to it during one turn of the event loop.

    uvicorn writes the head of an answer and then its body. Each write is a system call, and a packet too, since small
    answers must not wait (`TCP_NODELAY`): for a short answer, that is a tenth of the call for the server, and the
    client wakes up twice.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        """All that does not write is as it was."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if len(self._held) + len(data) > MAX_JOINED:
            self._send()
            self._transport.write(data)
            return
        if not self._held:
            self._loop.call_soon(self._send)
        self._held += data

    def write_eof(self) -> None:
        self._send()
        self._transport.write_eof()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        return len(self._held) + self._transport.get_write_buffer_size()

    def _send(self) -> None:
        held, self._held = self._held, b""
        if held and not self.is_closing():
            self._transport.write(held)
