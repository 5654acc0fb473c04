"""SQLite: a few threads, each with a connection of its own, so that the event loop never waits for the disk."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio

from carrel.errors import StoreError, StoreUnavailable
from carrel.storage.database import Parameters, Row, Work

T = TypeVar("T")

READERS = 4
BUSY_TIMEOUT_SECONDS = 5.0
OLDEST_SQLITE = (3, 35, 0)  # RETURNING


def connect(path: Path) -> sqlite3.Connection:
    """A connection as Carrel wants it: write-ahead log, explicit transactions, foreign keys on."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"this Python's SQLite is {sqlite3.sqlite_version}; Carrel needs 3.35 or later: use a newer Python build"
        )
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        raise StoreUnavailable(f"cannot open the database {path.name}: {error}") from error
    return connection


class _Worker:
    """A thread that owns a connection and does one thing at a time with it."""

    def __init__(self, path: Path, name: str) -> None:
        self._connection = connect(path)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def do(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """The job's result. If the caller is cancelled, the job is interrupted and has ended before this raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = job(self._connection)
            except BaseException as error:
                loop.call_soon_threadsafe(_fail, future, error)
            else:
                loop.call_soon_threadsafe(_succeed, future, result)

        self._jobs.put(run)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._connection.interrupt()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([future])
            future.exception()  # marks it as seen; the cancellation is what the caller gets
            raise
        except sqlite3.Error as error:
            raise StoreError(f"SQLite: {error}") from error

    async def close(self) -> None:
        await self.do(sqlite3.Connection.close)
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _succeed(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class _ReadSession:
    def __init__(self, worker: _Worker) -> None:
        self._worker = worker

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        return await self._worker.do(lambda connection: connection.execute(sql, parameters).fetchall())

    async def first(self, sql: str, parameters: Parameters) -> Row | None:
        return next(iter(await self.all(sql, parameters)), None)


class _WriteSession(_ReadSession):
    """Begins its transaction with its first statement, in the same visit to the thread."""

    async def all(self, sql: str, parameters: Parameters) -> list[Row]:
        def job(connection: sqlite3.Connection) -> list[Row]:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            return connection.execute(sql, parameters).fetchall()

        return await self._worker.do(job)


def _commit(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("COMMIT")


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self._writer = _Worker(path, "carrel-sqlite-writer")
        self._writing = asyncio.Lock()
        self._readers = [_Worker(path, f"carrel-sqlite-reader-{number}") for number in range(READERS)]
        self._idle = list(self._readers)
        self._free = asyncio.Semaphore(READERS)

    async def read(self, work: Work[T]) -> T:
        async with self._reader() as reader:
            return await work(_ReadSession(reader))

    async def write(self, work: Work[T]) -> T:
        async with self._writing:
            try:
                result = await work(_WriteSession(self._writer))
                await self._writer.do(_commit)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._writer.do(_roll_back)
                raise
            return result

    async def ping(self) -> None:
        try:
            await self.read(lambda session: session.first("SELECT 1 FROM sqlite_master", {}))
        except StoreError as error:
            raise StoreUnavailable(str(error)) from error

    async def close(self) -> None:
        for worker in (*self._readers, self._writer):
            await worker.close()

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[_Worker]:
        async with self._free:
            reader = self._idle.pop()
            try:
                yield reader
            finally:
                self._idle.append(reader)
