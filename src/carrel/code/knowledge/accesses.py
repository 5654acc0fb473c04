"""How often each file was read, and when last, and how much it gains from that in a search.

Reads are counted in memory and added to the database in the background.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple
from uuid import uuid4

from carrel.code.knowledge.code_base import validated_name
from carrel.common import is_storable, now
from carrel.errors import StoreError
from carrel.storage.database import Database, Session

log = logging.getLogger("carrel.code.accesses")

WRITE_DELAY_SECONDS = 0.5
"""That a read waits for others to be written with it."""
MAX_RETRY_SECONDS = 5.0
"""The longest pause between attempts while the database is away."""
CLOSE_TIMEOUT_SECONDS = 3.0
"""That a database which is away may keep an ending process waiting."""
WRITE_BATCH_SIZE = 500
MAX_BUFFERED_PATHS = 100_000
"""Different files that are remembered while the database is away."""
MAX_PATH_BYTES = 2000  # PostgreSQL's indexes take no longer key
WRITER_RETENTION_MS = 24 * 60 * 60 * 1000
MAX_BOOST = 0.05
"""No file gains more: what answers the query goes before what is read often."""
SATURATION_READS = 100
"""Reads from which more make no difference."""
HALF_LIFE_MS = 14 * 24 * 60 * 60 * 1000
"""Milliseconds after which a file that is not read any more gains half as much."""

_IN_CODE_BASE = "code_base = :code_base"
_COLUMNS = "path, reads, last_read_at"
_BEGIN_BATCH = """
    INSERT INTO file_access_writer (code_base, writer, batch, written_at)
    VALUES (:code_base, :writer, :batch, :now)
    ON CONFLICT (code_base, writer) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at
    WHERE file_access_writer.batch < excluded.batch RETURNING batch
"""
_ADD_READS = """
    INSERT INTO file_access (code_base, path, reads, last_read_at) VALUES (:code_base, :path, :reads, :last)
    ON CONFLICT (code_base, path) DO UPDATE SET
        reads = file_access.reads + excluded.reads,
        last_read_at = CASE WHEN excluded.last_read_at > file_access.last_read_at
            THEN excluded.last_read_at ELSE file_access.last_read_at END
"""
_FORGET_WRITERS = "DELETE FROM file_access_writer WHERE code_base = :code_base AND written_at < :before"
_MOST_READ = f"""
    SELECT {_COLUMNS} FROM file_access WHERE {_IN_CODE_BASE} ORDER BY reads DESC, last_read_at DESC, path LIMIT :limit
"""
_GET_MANY = f"SELECT {_COLUMNS} FROM file_access WHERE {_IN_CODE_BASE} AND {{}}"


class Access(NamedTuple):
    path: str
    reads: int
    last: int
    """Milliseconds since 1970, UTC."""


class AccessRepository:
    def __init__(self, session: Session, code_base: str) -> None:
        self._session = session
        self._scope = {"code_base": validated_name(code_base)}

    async def most_read(self, limit: int) -> list[Access]:
        rows = await self._session.all(_MOST_READ, {**self._scope, "limit": limit})
        return [Access(*row) for row in rows]

    async def get_many(self, paths: Sequence[str]) -> dict[str, Access]:
        """Those of these files that were ever read."""
        syntax = self._session.syntax
        values = {**self._scope, "paths": syntax.values([path for path in paths if is_storable(path)])}
        rows = await self._session.all(_GET_MANY.format(syntax.among("path", "paths")), values)
        return {row[0]: Access(*row) for row in rows}

    async def add(self, writer: str, batch: int, accesses: Sequence[Access]) -> bool:
        """Add a batch; whether it was not there yet. `writer` numbers its batches upwards from 1."""
        here, moment = self._scope, now()
        begun = await self._session.first(_BEGIN_BATCH, {**here, "writer": writer, "batch": batch, "now": moment})
        if begun is None:
            return False
        for path, reads, last in sorted(accesses):  # in one order everywhere, so that no two wait for each other
            await self._session.all(_ADD_READS, {**here, "path": path, "reads": reads, "last": last})
        if batch == 1:
            await self._session.all(_FORGET_WRITERS, {**here, "before": moment - WRITER_RETENTION_MS})
        return True


class AccessCounter:
    """A write-behind buffer of one process's reads.

    `record_read` only updates memory; a background task writes within a second, and `close` writes the rest. A batch
    whose outcome is unknown is sent again under the same number, which the database recognizes.
    """

    def __init__(self, database: Database, code_base: str, *, clock: Callable[[], int] = now) -> None:
        self._database = database
        self._code_base = validated_name(code_base)
        self._clock = clock
        self._writer = str(uuid4())
        self._number = 1
        self._batch: list[Access] = []
        self._buffer: dict[str, tuple[int, int]] = {}
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._dropped = 0

    def record_read(self, path: str) -> None:
        """A file was read. To be called on the event loop; takes about a microsecond."""
        buffered = self._buffer.get(path)
        if buffered is None and not self._can_buffer(path):
            return
        self._buffer[path] = (buffered[0] + 1 if buffered else 1, self._clock())
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_in_background())

    async def most_read(self, limit: int) -> list[Access]:
        return await self._database.read(lambda session: AccessRepository(session, self._code_base).most_read(limit))

    async def get_many(self, paths: Sequence[str]) -> Mapping[str, Access]:
        return await self._database.read(lambda session: AccessRepository(session, self._code_base).get_many(paths))

    async def close(self) -> None:
        """Add what is left."""
        self._closing.set()
        if self._task is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._task
        except TimeoutError:
            lost = sum(reads for reads, _ in self._buffer.values()) + sum(each.reads for each in self._batch)
            log.error("%s file accesses were not counted: the database did not take them", lost)

    def _can_buffer(self, path: str) -> bool:
        if len(self._buffer) >= MAX_BUFFERED_PATHS:
            self._dropped += 1
            return False
        return is_storable(path) and 0 < len(path.encode()) <= MAX_PATH_BYTES

    async def _write_in_background(self) -> None:
        pause, has_failed = WRITE_DELAY_SECONDS, False
        while self._buffer or self._batch:
            await self._wait(pause)
            try:
                await self._write_batch()
                pause, has_failed = (0.0 if len(self._buffer) >= WRITE_BATCH_SIZE else WRITE_DELAY_SECONDS), False
            except StoreError as error:
                if not has_failed:
                    log.warning("file accesses are kept in memory until the database takes them: %s", error)
                pause, has_failed = min(MAX_RETRY_SECONDS, max(pause, WRITE_DELAY_SECONDS) * 2), True
                await asyncio.sleep(WRITE_DELAY_SECONDS / 10)  # also when closing, which waits for nothing else
        if self._dropped:
            log.warning("%s file accesses were not counted: too many files while the database was away", self._dropped)
            self._dropped = 0

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _write_batch(self) -> None:
        if not self._batch:
            paths = list(islice(self._buffer, WRITE_BATCH_SIZE))
            self._batch = [Access(path, *self._buffer.pop(path)) for path in paths]
        batch, number = self._batch, self._number
        await self._database.write(
            lambda session: AccessRepository(session, self._code_base).add(self._writer, number, batch)
        )
        self._batch, self._number = [], number + 1


def boost(count: int, last: int, now: int) -> float:
    """Return the boost of a file that was read `count` times, from 0 to `MAX_BOOST`.

    It grows with the count and halves with every `HALF_LIFE_MS` since the last read. Times are in milliseconds.
    """
    if count <= 0:
        return 0.0
    often = min(1.0, math.log1p(count) / math.log1p(SATURATION_READS))
    return MAX_BOOST * often * 0.5 ** (max(0, now - last) / HALF_LIFE_MS)


def boosted(score: float, gain: float) -> float:
    """A score from 0 to 1 with its gain: still within 1, and in the same order as the scores of others that gain as
    much."""
    return score + (1.0 - score) * gain
