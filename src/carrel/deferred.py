"""Something that is opened when it is first needed, or a moment after the start: whatever comes first.

A client waits for a server's first answers, and they need little of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger("carrel.workspace")

SOON_SECONDS = 0.25
"""In which a client has asked what it asks first."""


def opened(value: T) -> "Deferred[T]":
    """What is open already."""

    async def opener() -> T:
        return value

    return Deferred(opener, [value])


class Deferred(Generic[T_co]):
    def __init__(self, opener: Callable[[], Awaitable[T_co]], already: Sequence[T_co] = ()) -> None:
        """`already` holds what is open, if it is."""
        self._opener = opener
        self._opening: asyncio.Task[T_co] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._value = list(already)
        self._callbacks: list[Callable[[T_co], None]] = []

    async def get(self) -> T_co:
        """Raises what opening it raises; the next time that is tried again."""
        if self._value:
            return self._value[0]
        return await asyncio.shield(self._begin())

    def when_open(self, callback: Callable[[T_co], None]) -> None:
        """Call it with what was opened: now, or as soon as it is."""
        if self._value:
            callback(self._value[0])
        else:
            self._callbacks.append(callback)

    def begin_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SOON_SECONDS, self._begin_in_background)

    async def close(self) -> None:
        """Open nothing any more. Whoever opened it closes what was opened."""
        if self._timer:
            self._timer.cancel()
        if self._opening:
            self._opening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._opening

    def _begin(self) -> "asyncio.Task[T_co]":
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._ended)
        return self._opening

    def _ended(self, task: "asyncio.Task[T_co]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._opening = None

    def _begin_in_background(self) -> None:
        self._begin().add_done_callback(_log_failure)

    async def _open(self) -> T_co:
        value = await self._opener()
        self._value.append(value)
        for callback in self._callbacks:
            callback(value)
        return value


def _log_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("what is served could not be opened; the next call tries again", exc_info=error)
