"""Deferred opening of resources, and threads that an event loop waits on."""

import asyncio
import logging
import queue
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger("carrel.workspace")

BACKGROUND_DELAY_SECONDS = 0.25
"""In which a client has asked what it asks first."""


def already_open(value: T) -> "Deferred[T]":
    """What is open already."""

    async def opener() -> T:
        return value

    return Deferred(opener, [value])


class Deferred(Generic[T_co]):
    def __init__(self, opener: Callable[[], Awaitable[T_co]], values: Sequence[T_co] = ()) -> None:
        """`already` holds what is open, if it is."""
        self._opener = opener
        self._opening: asyncio.Task[T_co] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._value = list(values)
        self._callbacks: list[Callable[[T_co], None]] = []

    async def get(self) -> T_co:
        """Raises what opening it raises; the next time that is tried again."""
        if self._value:
            return self._value[0]
        return await asyncio.shield(self._start())

    def when_open(self, callback: Callable[[T_co], None]) -> None:
        """Call it with what was opened: now, or as soon as it is."""
        if self._value:
            callback(self._value[0])
        else:
            self._callbacks.append(callback)

    def start_in_background(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(BACKGROUND_DELAY_SECONDS, self._start_and_log)

    async def close(self) -> None:
        """Open nothing any more. Whoever opened it closes what was opened."""
        if self._timer:
            self._timer.cancel()
        if self._opening:
            self._opening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._opening

    def _start(self) -> "asyncio.Task[T_co]":
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._forget_failure)
        return self._opening

    def _forget_failure(self, task: "asyncio.Task[T_co]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._opening = None

    def _start_and_log(self) -> None:
        self._start().add_done_callback(_log_failure)

    async def _open(self) -> T_co:
        value = await self._opener()
        self._value.append(value)
        for callback in self._callbacks:
            callback(value)
        return value


def _log_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("what is served could not be opened; the next call tries again", exc_info=error)


class Threads:
    """They are started with their first job."""

    def __init__(self, name: str, count: int) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(count)]
        self.are_started = False

    def begin(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """What the job will give. A job that nobody waits for any more when its turn comes is left out."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                callback = partial(_succeed, future, job())
            except BaseException as error:
                callback = partial(_fail, future, error)
            with suppress(RuntimeError):  # a loop that is closed
                loop.call_soon_threadsafe(callback)

        if not self.are_started:
            self.are_started = True
            for thread in self._threads:
                thread.start()
        self._jobs.put(run)
        return future

    def close(self) -> None:
        """Wait until the jobs that were begun are done. From a thread that the event loop does not need."""
        if self.are_started:
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _succeed(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
