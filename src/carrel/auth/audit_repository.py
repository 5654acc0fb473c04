"""The audit in the database."""

import asyncio
import logging
from collections import deque
from contextlib import suppress

from carrel.auth.audit import AuditEntry, LogAudit
from carrel.errors import StoreError
from carrel.storage.database import Database, Session

MAX_PENDING_ENTRIES = 10_000
BATCH_SIZE = 500
CLOSE_TIMEOUT_SECONDS = 3.0
_COLUMNS = "at, subject, client, action, target, outcome"
_INSERT_ENTRY = f"INSERT INTO audit_line ({_COLUMNS}) VALUES (:at, :subject, :client, :action, :target, :outcome)"
_DELETE_BEFORE = "DELETE FROM audit_line WHERE at < :before RETURNING at"

log = logging.getLogger("carrel.audit")


class DatabaseAudit:
    """Lines that come together are written together. What the database does not take goes to the log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: deque[tuple[AuditEntry, asyncio.Future[None]]] = deque()
        self._write_task: asyncio.Task[None] | None = None
        self._log = LogAudit()

    def record(self, entry: AuditEntry) -> "asyncio.Future[None] | None":
        if len(self._pending) >= MAX_PENDING_ENTRIES:
            return self._log.record(entry)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._pending.append((entry, written))
        if self._write_task is None or self._write_task.done():
            self._write_task = loop.create_task(self._write())
        return written

    async def close(self) -> None:
        if self._write_task is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._write_task, CLOSE_TIMEOUT_SECONDS)
        while self._pending:
            self._log.record(self._pending.popleft()[0])

    async def _write(self) -> None:
        while self._pending:
            batch = [self._pending.popleft() for _ in range(min(BATCH_SIZE, len(self._pending)))]
            try:
                await self._database.write(lambda session, lines=batch: _insert(session, [each for each, _ in lines]))
            except StoreError as error:
                log.error("audit lines could not be written to the database: %s", error)
                for entry, _ in batch:
                    self._log.record(entry)
            for _, written in batch:
                if not written.done():
                    written.set_result(None)


async def _insert(session: Session, lines: list[AuditEntry]) -> None:
    for each in lines:
        await session.all(_INSERT_ENTRY, each._asdict())


class AuditRepository:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def newest(self, limit: int, *, subject: str | None = None, since: int = 0) -> list[AuditEntry]:
        whose = "" if subject is None else "AND subject = :subject"
        rows = await self._session.all(
            f"SELECT {_COLUMNS} FROM audit_line WHERE at >= :since {whose} ORDER BY at DESC, pk DESC LIMIT :limit",
            {"since": since, "limit": limit, **({} if subject is None else {"subject": subject})},
        )
        return [AuditEntry(*row) for row in rows]

    async def prune(self, before: int) -> int:
        """Forget older lines; how many."""
        return len(await self._session.all(_DELETE_BEFORE, {"before": before}))
