"""How long a call may take, by one timer for all calls instead of one for each."""

import asyncio
import time
from types import TracebackType
from typing import Any


class Deadlines:
    """All last equally long, so the call that began first is always the next to run out."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[Deadline, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one that a timer runs on; None while there is no timer."""

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that there is a timer."""
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self.seconds, self._expire)

    def _expire(self) -> None:
        now = time.monotonic()
        for deadline in list(self.running):
            if deadline.at > now:
                asyncio.get_running_loop().call_later(deadline.at - now, self._expire)
                return
            del self.running[deadline]
            deadline.expire()
        self._loop = None


class Deadline:
    """A context whose body is cancelled when time is up: then it raises `TimeoutError`, like `asyncio.timeout`."""

    __slots__ = ("_all", "_cancelling", "_task", "at", "is_expired")

    _task: asyncio.Task[Any]

    def __init__(self, deadlines: Deadlines) -> None:
        self._all = deadlines
        self.is_expired = False

    def __enter__(self) -> "Deadline":
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a deadline is for use inside a task")
        self._task = task
        self._cancelling = task.cancelling()
        self.at = time.monotonic() + self._all.seconds
        self._all.running[self] = None
        self._all.watch(loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if not self.is_expired:
            self.lift()
        # A cancellation that was asked for before, or meanwhile by somebody else, goes on.
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def lift(self) -> None:
        """The body may take as long as it needs: what it has begun is better finished than given up."""
        self._all.running.pop(self, None)

    def expire(self) -> None:
        self.is_expired = True
        self._task.cancel()
