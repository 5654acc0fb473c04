"""Cancelling requests whose client has closed the connection."""

import asyncio
from types import TracebackType
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CHECK_INTERVAL_SECONDS = 0.05
"""Most requests are answered before the second look: nobody listens to their connections, and one timer serves all."""


class Disconnects:
    """The requests under way whose connections nobody listens to yet."""

    def __init__(self) -> None:
        self.unwatched: dict[DisconnectWatch, None] = {}
        self._seen: set[DisconnectWatch] = set()
        """Those that were there at the last look."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The one that a timer runs on; None while there is no timer."""

    def watch(self, receive: Receive) -> "DisconnectWatch":
        """A context whose body is cancelled, and left, once the client has gone. The request's body must have been
        received: `receive` is asked for what comes after it."""
        return DisconnectWatch(self, receive)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        loop.call_later(CHECK_INTERVAL_SECONDS, self._check)

    def _check(self) -> None:
        for watch in self._seen & self.unwatched.keys():
            del self.unwatched[watch]
            watch.listen()
        self._seen = set(self.unwatched)
        self.loop = None
        if self._seen:
            self.start(asyncio.get_running_loop())


class DisconnectWatch:
    __slots__ = ("_cancelling", "_disconnects", "_is_answered", "_is_disconnected", "_listener", "_receive", "_task")

    _task: asyncio.Task[Any]
    _cancelling: int

    def __init__(self, disconnects: Disconnects, receive: Receive) -> None:
        self._disconnects = disconnects
        self._receive = receive
        self._listener: asyncio.Task[None] | None = None
        self._is_answered = self._is_disconnected = False

    def __enter__(self) -> "DisconnectWatch":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a watch is for use inside a task")
        self._task = task
        self._disconnects.unwatched[self] = None
        if self._disconnects.loop is not (loop := task.get_loop()):
            self._disconnects.start(loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if self._listener is None:
            self._disconnects.unwatched.pop(self, None)
            return False
        self._listener.cancel()
        # A cancellation that was asked for before, or meanwhile by somebody else, goes on.
        is_last = self._is_disconnected and self._task.uncancel() <= self._cancelling
        return is_last and kind is asyncio.CancelledError

    def sending(self, send: Send) -> Send:
        """Sends, and ends the watch with the answer: after that, a server says of every client that it has gone."""

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._is_answered = True
            await send(message)

        return watched

    def listen(self) -> None:
        self._cancelling = self._task.cancelling()
        self._listener = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._is_answered:
            self._is_disconnected = True
            self._task.cancel()


class CancellationMiddleware:
    """In front of an application that reads no body of the requests that it answers, which are all GET or HEAD."""

    def __init__(self, app: ASGIApp, disconnects: Disconnects) -> None:
        self._app = app
        self._disconnects = disconnects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        with self._disconnects.watch(receive) as watch:
            await self._app(scope, receive, watch.sending(send))
