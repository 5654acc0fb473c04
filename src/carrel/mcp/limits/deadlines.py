"""How long a call may take, by one timer for all calls instead of one for each."""

import asyncio
import time
from types import TracebackType
from typing import Any


class Deadlines:
    """All last equally long, so the call that began first is always the next to run out."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: dict[Deadline, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one that a timer runs on; None while there is no timer."""

    def deadline(self) -> "Deadline":
        """A context whose body is cancelled when time is up: then it raises `TimeoutError`, like `asyncio.timeout`."""
        return Deadline(self, time.monotonic() + self._seconds)

    def begin(self, deadline: "Deadline", loop: asyncio.AbstractEventLoop) -> None:
        self._running[deadline] = None
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self._seconds, self._expire)

    def end(self, deadline: "Deadline") -> None:
        self._running.pop(deadline, None)

    def _expire(self) -> None:
        now = time.monotonic()
        for deadline in list(self._running):
            if deadline.at > now:
                asyncio.get_running_loop().call_later(deadline.at - now, self._expire)
                return
            self.end(deadline)
            deadline.expire()
        self._loop = None


class Deadline:
    __slots__ = ("_all", "_cancelling", "_task", "at", "is_expired")

    _task: asyncio.Task[Any]

    def __init__(self, all_of_them: Deadlines, at: float) -> None:
        self._all = all_of_them
        self.at = at
        self.is_expired = False

    def __enter__(self) -> "Deadline":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline is for use inside a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._all.begin(self, task.get_loop())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._all.end(self)
        # A cancellation that was asked for before, or meanwhile by somebody else, goes on.
        if self.is_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self.is_expired = True
        self._task.cancel()
