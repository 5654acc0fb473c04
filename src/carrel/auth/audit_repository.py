"""The audit in the database."""

import asyncio
import logging
from collections import deque
from contextlib import suppress

from carrel.auth.audit import Line, LogAudit
from carrel.errors import StoreError
from carrel.storage.database import Database, Session

MOST_WAITING = 10_000
BATCH = 500
CLOSE_SECONDS = 3.0
_COLUMNS = "at, subject, client, action, target, outcome"
_ADD = f"INSERT INTO audit_line ({_COLUMNS}) VALUES (:at, :subject, :client, :action, :target, :outcome)"
_PRUNE = "DELETE FROM audit_line WHERE at < :before RETURNING at"

log = logging.getLogger("carrel.audit")


class DatabaseAudit:
    """Lines that come together are kept together. What the database does not take goes to the log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[tuple[Line, asyncio.Future[None]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._log = LogAudit()

    def note(self, entry: Line) -> "asyncio.Future[None] | None":
        if len(self._waiting) >= MOST_WAITING:
            return self._log.note(entry)
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[None] = loop.create_future()
        self._waiting.append((entry, kept))
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write())
        return kept

    async def close(self) -> None:
        if self._writing is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._writing, CLOSE_SECONDS)
        while self._waiting:
            self._log.note(self._waiting.popleft()[0])

    async def _write(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                await self._database.write(lambda session, lines=batch: _add(session, [each for each, _ in lines]))
            except StoreError as error:
                log.error("audit lines could not be written to the database: %s", error)
                for entry, _ in batch:
                    self._log.note(entry)
            for _, kept in batch:
                if not kept.done():
                    kept.set_result(None)


async def _add(session: Session, lines: list[Line]) -> None:
    for each in lines:
        await session.all(_ADD, each._asdict())


class AuditRepository:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def newest(self, limit: int, *, subject: str | None = None, since: int = 0) -> list[Line]:
        whose = "" if subject is None else "AND subject = :subject"
        rows = await self._session.all(
            f"SELECT {_COLUMNS} FROM audit_line WHERE at >= :since {whose} ORDER BY at DESC, pk DESC LIMIT :limit",
            {"since": since, "limit": limit, **({} if subject is None else {"subject": subject})},
        )
        return [Line(*row) for row in rows]

    async def prune(self, before: int) -> int:
        """Forget older lines; how many."""
        return len(await self._session.all(_PRUNE, {"before": before}))
