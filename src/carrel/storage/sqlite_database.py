"""The SQLite database of a server: short reads on the event loop, everything else on threads with own connections.

Handing a read to a thread costs more than most reads do, and many times more while the loop is busy, since both need
the GIL. So a read is first tried on the event loop, without waiting for any lock and for at most 4 ms. A statement that
needs more runs on a reader thread, and the next executions skip the attempt. Writes run on one writer thread, in
`BEGIN IMMEDIATE`. A cancelled call interrupts its statement, and has rolled back before the connection is used again.
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
    DRIVER_ERRORS,
    LOCK_RETRY_SECONDS,
    PROGRESS_HANDLER_STEPS,
    Connection,
    connect,
    roll_back,
    statement_deadline,
    store_error,
    try_lock,
)

T = TypeVar("T")

READER_COUNT = 4
LOOP_READ_SECONDS = 0.004
MAX_SKIPPED_READS = 31  # reads that are not tried on the event loop


def _shielded() -> AbstractContextManager[object]:
    """Shield a cleanup from anyio, which repeats its cancellations; a no-op if anyio is not loaded."""
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)


class _Worker:
    """A thread that owns a connection and runs one job at a time on it."""

    def __init__(self, name: str, path: Path, connection: Connection | None = None) -> None:
        """Take a connection, or open a read-only one with the first job: few servers need all readers."""
        self._path = path
        self._connection = connection
        self._closed = False
        self._thread = Threads(name, 1)

    async def do(self, job: Callable[[Connection], T]) -> T:
        """Run a job and return its result. A cancelled caller interrupts the job, and is released when it has ended."""
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
                    await asyncio.wait([future], timeout=LOCK_RETRY_SECONDS)
            future.exception()  # marks it as seen; the cancellation is what the caller gets
            raise
        except DRIVER_ERRORS as error:
            raise store_error(error) from error

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._path, reads_only=True)
        return self._connection

    async def close(self) -> None:
        """Finish the queued jobs, then end the thread."""
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
        """Do nothing: the statement already runs on a thread."""


class _NeedsThread(Exception):
    """The read is slow, blocked or failing: a thread repeats it and reports any error."""


class _SlowStatement:
    """Exponential backoff for a slow statement: each failure on the event loop doubles the number of skipped
    attempts."""

    def __init__(self) -> None:
        self._skips = self._skips_left = 0

    def back_off(self) -> None:
        self._skips = self._skips_left = min(MAX_SKIPPED_READS, 2 * self._skips + 1)

    def is_skipped(self) -> bool:
        self._skips_left -= 1
        return self._skips_left >= 0


class _LoopSession:
    """A session on the event loop, which gives up rather than block it."""

    syntax = SqliteSyntax()

    def __init__(self, path: Path) -> None:
        self._connection = connect(path, reads_only=True)
        self._connection.execute("PRAGMA busy_timeout = 0")
        self._connection.set_progress_handler(lambda: time.perf_counter() > self._deadline, PROGRESS_HANDLER_STEPS)
        self._deadline = 0.0
        self._slow: dict[str, _SlowStatement] = {}

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        slow = self._slow.get(sql)
        if slow is not None and slow.is_skipped():
            raise _NeedsThread
        self._deadline = time.perf_counter() + LOOP_READ_SECONDS
        try:
            rows = self._connection.execute(sql, parameters).fetchall()
        except DRIVER_ERRORS:
            self._slow.setdefault(sql, _SlowStatement()).back_off()
            raise _NeedsThread from None
        if slow is not None:
            del self._slow[sql]
        return rows

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        return next(iter(await self.all(sql, parameters)), None)

    def expect_slow(self) -> None:
        raise _NeedsThread

    async def in_transaction(self, work: Work[T]) -> T:
        if self._connection.in_transaction:  # another piece of work waits for something else than this session
            raise _NeedsThread
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
    """A read transaction that begins with its first statement and ends slow statements."""

    def __init__(self, worker: _Worker, seconds: float) -> None:
        super().__init__(worker)
        self._seconds = seconds

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        def job(connection: Connection) -> list[Row]:
            if not connection.in_transaction:
                connection.execute("BEGIN")
            with statement_deadline(connection, self._seconds):
                return connection.execute(sql, parameters).fetchall()

        return await self._worker.do(job)

    async def end(self) -> None:
        await self._worker.do(roll_back)


class _WriteSession(_ReadSession):
    """A write transaction that begins with its first statement, in the same job on the thread."""

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


def _truncate_wal(connection: Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _file_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode, which distinguish a file from its replacement; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteDatabase:
    """A `Database` on a SQLite file."""

    def __init__(self, path: Path, connection: Connection) -> None:
        """Take over `connection` for writing; it is closed with the database."""
        self._path = path
        self._name = str(path)  # looked at with every read: a Path would be converted each time
        self._file = _file_identity(self._name)
        self._writer = _Worker("carrel-sqlite-writer", path, connection)
        self._write_lock = asyncio.Lock()
        self._loop_session = _LoopSession(path)
        self._readers = [_Worker(f"carrel-sqlite-reader-{number}", path) for number in range(READER_COUNT)]
        self._idle_readers = list(self._readers)
        self._reader_slots = asyncio.Semaphore(READER_COUNT)

    async def read(self, work: Work[T]) -> T:
        if not self._is_same_file():
            await self._raise_replaced()
        try:
            return await work(self._loop_session)
        except _NeedsThread:
            pass
        async with self._reader() as reader:
            return await work(_ReadSession(reader))

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        if not self._is_same_file():
            await self._raise_replaced()
        with suppress(_NeedsThread):
            return await self._loop_session.in_transaction(work)
        async with self._reader() as reader:
            session = _SnapshotSession(reader, seconds)
            try:
                return await work(session)
            finally:
                with _shielded():
                    await session.end()

    async def write(self, work: Work[T]) -> T:
        async with self._write_lock:
            if not self._is_same_file():
                await self._raise_replaced()
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
        if self._write_lock.locked() or not self._is_same_file():
            return False
        with suppress(StoreError), try_lock(self._path, "IMMEDIATE") as is_ours:
            return is_ours
        return False

    async def close(self) -> None:
        with _shielded():
            self._loop_session.close()
            for worker in (*self._readers, self._writer):
                await worker.close()

    def _is_same_file(self) -> bool:
        return _file_identity(self._name) == self._file

    async def _raise_replaced(self) -> NoReturn:
        """Raise `StoreUnavailable`: the file was removed or replaced, and SQLite would go on writing to the removed
        one.

        The write-ahead log is emptied first, or it would be replayed into the file that has taken its place.
        """
        with suppress(StoreError):
            await self._writer.do(_truncate_wal)
        raise StoreUnavailable(
            f"SQLite: {self._path} was removed or replaced while it was in use (put it back, or restart the server to "
            "use what is there now)"
        )

    @asynccontextmanager
    async def _reader(self) -> AsyncGenerator[_Worker]:
        async with self._reader_slots:
            reader = self._idle_readers.pop()
            try:
                yield reader
            finally:
                self._idle_readers.append(reader)
