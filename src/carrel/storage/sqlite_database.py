"""SQLite: short reads on the event loop, everything else on threads, each with a connection of its own.

A visit to a thread costs more than most reads do, and many times more while the loop is busy, since both need
Python's lock. So a read is tried where it is, without waiting for any lock and for 4 ms at the most; one that needs
more runs on a thread, and the next times is not tried first.
"""

import asyncio
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from carrel.concurrency import Threads
from carrel.errors import StoreError, StoreUnavailable
from carrel.storage.database import Parameters, Row, Work
from carrel.storage.sql_syntax import SqliteSyntax
from carrel.storage.sqlite import (
    FAULTS,
    RETRY_SECONDS,
    STEPS_BETWEEN_LOOKS,
    Connection,
    connect,
    deadline,
    locked,
    roll_back,
    store_error,
)

T = TypeVar("T")

READERS = 4
QUICK_SECONDS = 0.004
MOST_LEFT_OUT = 31  # reads that are not tried on the event loop


def _shielded() -> AbstractContextManager[object]:
    """Holds off a cancellation by anyio, which comes again and again. Where nobody has loaded anyio there is none."""
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)


class _Worker:
    """A thread that owns a connection and does one thing at a time with it."""

    def __init__(self, name: str, path: Path, connection: Connection | None = None) -> None:
        """Without a connection it opens one that only reads, with its first job: few servers need all readers."""
        self._path = path
        self._connection = connection
        self._closed = False
        self._thread = Threads(name, 1)

    async def do(self, job: Callable[[Connection], T]) -> T:
        """The job's result. A cancelled caller interrupts the job and gets its cancellation when it has ended."""
        if self._closed:
            raise StoreUnavailable("SQLite: the database is closed")
        future = self._thread.begin(lambda: job(self._connected()))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            with _shielded():
                while not future.done():  # an interrupt that comes before the statement has begun does nothing
                    if self._connection is not None:
                        self._connection.interrupt()
                    await asyncio.wait([future], timeout=RETRY_SECONDS)
            future.exception()  # marks it as seen; the cancellation is what the caller gets
            raise
        except FAULTS as error:
            raise store_error(error) from error

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._path, reads_only=True)
        return self._connection

    async def close(self) -> None:
        """Finish the jobs that were given before, then end."""
        if not self._closed:
            if self._thread.are_started:
                await self._thread.begin(self._disconnect)
            else:
                self._disconnect()
            self._closed = True
            self._thread.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()


class _ReadSession:
    syntax = SqliteSyntax()

    def __init__(self, worker: _Worker) -> None:
        self._worker = worker

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        return await self._worker.do(lambda connection: connection.execute(sql, parameters).fetchall())

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        return next(iter(await self.all(sql, parameters)), None)

    def expect_slow(self) -> None:
        """It is on a thread as it is."""


class _NotQuick(Exception):
    """The read takes its time, has to wait or fails: a thread does it again, and reports what is wrong."""


class _Slow:
    """A statement that was not quick: the next read with it is not tried, and twice as many if it is not again."""

    def __init__(self) -> None:
        self._times = self._left = 0

    def give_up(self) -> None:
        self._times = self._left = min(MOST_LEFT_OUT, 2 * self._times + 1)

    def is_left_out(self) -> bool:
        self._left -= 1
        return self._left >= 0


class _QuickSession:
    """Reads on the event loop, and gives up rather than hold it up."""

    syntax = SqliteSyntax()

    def __init__(self, path: Path) -> None:
        self._connection = connect(path, reads_only=True)
        self._connection.execute("PRAGMA busy_timeout = 0")
        self._connection.set_progress_handler(lambda: time.perf_counter() > self._deadline, STEPS_BETWEEN_LOOKS)
        self._deadline = 0.0
        self._slow: dict[str, _Slow] = {}

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        slow = self._slow.get(sql)
        if slow is not None and slow.is_left_out():
            raise _NotQuick
        self._deadline = time.perf_counter() + QUICK_SECONDS
        try:
            rows = self._connection.execute(sql, parameters).fetchall()
        except FAULTS:
            self._slow.setdefault(sql, _Slow()).give_up()
            raise _NotQuick from None
        if slow is not None:
            del self._slow[sql]
        return rows

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        return next(iter(await self.all(sql, parameters)), None)

    def expect_slow(self) -> None:
        raise _NotQuick

    async def in_transaction(self, work: Work[T]) -> T:
        if self._connection.in_transaction:  # another piece of work waits for something else than this session
            raise _NotQuick
        self._deadline = math.inf
        self._connection.execute("BEGIN")
        try:
            return await work(self)
        finally:
            self._deadline = math.inf
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class _SnapshotSession(_ReadSession):
    """Begins its transaction with its first statement; ends each that takes too long."""

    def __init__(self, worker: _Worker, seconds: float) -> None:
        super().__init__(worker)
        self._seconds = seconds

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        def job(connection: Connection) -> list[Row]:
            if not connection.in_transaction:
                connection.execute("BEGIN")
            with deadline(connection, self._seconds):
                return connection.execute(sql, parameters).fetchall()

        return await self._worker.do(job)

    async def end(self) -> None:
        await self._worker.do(roll_back)


class _WriteSession(_ReadSession):
    """Begins its transaction with its first statement, in the same visit to the thread."""

    _begun = False

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        def job(connection: Connection) -> list[Row]:
            if not self._begun:
                connection.execute("BEGIN IMMEDIATE")
                self._begun = True
            elif not connection.in_transaction:
                raise StoreError("SQLite: a statement before this one failed and ended the transaction")
            try:
                return connection.execute(sql, parameters).fetchall()
            except BaseException:
                roll_back(connection)
                raise

        return await self._worker.do(job)

    async def commit(self) -> None:
        if self._begun:
            await self._worker.do(_commit)

    async def roll_back(self) -> None:
        await self._worker.do(roll_back)


def _commit(connection: Connection) -> None:
    connection.execute("COMMIT")  # fails where a failed statement has ended the transaction


def _empty_log(connection: Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another one that has taken its place; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteDatabase:
    def __init__(self, path: Path, connection: Connection) -> None:
        """`connection` is what it writes with, and its to close."""
        self._path = path
        self._name = str(path)  # looked at with every read: a Path would be converted each time
        self._file = _identity(self._name)
        self._writer = _Worker("carrel-sqlite-writer", path, connection)
        self._writing = asyncio.Lock()
        self._quick = _QuickSession(path)
        self._readers = [_Worker(f"carrel-sqlite-reader-{number}", path) for number in range(READERS)]
        self._idle = list(self._readers)
        self._free = asyncio.Semaphore(READERS)

    async def read(self, work: Work[T]) -> T:
        if not self._is_in_place():
            await self._refuse()
        try:
            return await work(self._quick)
        except _NotQuick:
            pass
        async with self._reader() as reader:
            return await work(_ReadSession(reader))

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        if not self._is_in_place():
            await self._refuse()
        with suppress(_NotQuick):
            return await self._quick.in_transaction(work)
        async with self._reader() as reader:
            session = _SnapshotSession(reader, seconds)
            try:
                return await work(session)
            finally:
                with _shielded():
                    await session.end()

    async def write(self, work: Work[T]) -> T:
        async with self._writing:
            if not self._is_in_place():
                await self._refuse()
            session = _WriteSession(self._writer)
            try:
                result = await work(session)
                with _shielded():  # once it commits, it is not given up any more
                    await session.commit()
            except BaseException:
                with _shielded():
                    await session.roll_back()
                raise
            return result

    async def ping(self) -> None:
        try:
            await self.read(lambda session: session.first("SELECT 1 FROM sqlite_master", {}))
        except StoreError as error:
            raise StoreUnavailable(str(error)) from error

    async def can_write(self) -> bool:
        if self._writing.locked() or not self._is_in_place():
            return False
        with suppress(StoreError), locked(self._path, "IMMEDIATE") as is_ours:
            return is_ours
        return False

    async def close(self) -> None:
        with _shielded():
            self._quick.close()
            for worker in (*self._readers, self._writer):
                await worker.close()

    def _is_in_place(self) -> bool:
        return _identity(self._name) == self._file

    async def _refuse(self) -> NoReturn:
        """What is written to a file that was removed is gone with it, though SQLite itself would go on. What is still
        in the write-ahead log belongs there too, and would be played into whatever has taken the file's place."""
        with suppress(StoreError):
            await self._writer.do(_empty_log)
        raise StoreUnavailable(
            f"SQLite: {self._path} was removed or replaced while it was in use (put it back, or restart the server to "
            "use what is there now)"
        )

    @asynccontextmanager
    async def _reader(self) -> AsyncGenerator[_Worker]:
        async with self._free:
            reader = self._idle.pop()
            try:
                yield reader
            finally:
                self._idle.append(reader)
