"""Summaries of sessions: what was done in one, in a few sentences. Every statement names the code base."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from carrel.code.knowledge.code_base import checked_name
from carrel.code.knowledge.discoveries import CONTENT_LIMIT, MODULE_LIMIT, Fault, fault_in
from carrel.common import iso, now
from carrel.storage.database import Session

TITLE_LIMIT = 200

_COLUMNS = "id, title, content, module, date"
_HERE = "code_base = :code_base"
# Constants put together; values are parameters.
_ADD = f"""
    INSERT INTO session_summary (code_base, {_COLUMNS}) VALUES (:code_base, :id, :title, :content, :module, :date)
"""
_NEWEST = f"SELECT {_COLUMNS} FROM session_summary WHERE {{}} ORDER BY date DESC, id LIMIT :limit"
_COUNT = "SELECT count(*) FROM session_summary WHERE {}"
_AFTER = f"SELECT id, date FROM session_summary WHERE {_HERE} AND id > :after ORDER BY id LIMIT :most"
_AMONG = f"SELECT {_COLUMNS} FROM session_summary WHERE {_HERE} AND {{}}"

AT_ONCE = 1000


class SessionSummary(NamedTuple):
    id: str
    title: str | None
    content: str
    module: str | None
    date: int
    """Milliseconds since 1970, UTC."""

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "date": iso(self.date)}


@dataclass(frozen=True, slots=True)
class InvalidSession:
    """Why a summary cannot be kept as given."""

    faults: tuple[Fault, ...]


class Summary(NamedTuple):
    """A summary before it has an id and a time."""

    title: str | None
    content: str
    module: str | None


class Found(NamedTuple):
    sessions: list[SessionSummary]
    total: int


def checked(content: str, title: str | None = None, module: str | None = None) -> Summary | InvalidSession:
    faults = tuple(_faults(content, title, module))
    return InvalidSession(faults) if faults else Summary(title, content, module)


def _faults(content: str, title: str | None, module: str | None) -> Iterator[Fault]:
    limits = (("summary", content, CONTENT_LIMIT), ("title", title, TITLE_LIMIT), ("module", module, MODULE_LIMIT))
    for name, value, limit in limits:
        if value is not None and (must := fault_in(value, limit)) is not None:
            yield Fault(name, must)


class SessionRepository:
    def __init__(self, session: Session, code_base: str) -> None:
        self._session = session
        self._here = {"code_base": checked_name(code_base)}

    async def add(self, summary: Summary, date: int | None = None) -> SessionSummary:
        kept = SessionSummary(str(uuid4()), *summary, now() if date is None else date)
        await self._session.all(_ADD, {**self._here, **kept._asdict()})
        return kept

    async def newest(self, limit: int, *, module: str | None = None) -> Found:
        """The newest first, ties by id."""
        where, values = _HERE, {**self._here, "limit": limit}
        if module is not None:
            where, values = f"{where} AND module = :module", {**values, "module": module}
        rows = await self._session.all(_NEWEST.format(where), values)
        total = await self._session.first(_COUNT.format(where), values)
        return Found([SessionSummary(*row) for row in rows], total[0] if total else 0)

    async def versions_after(self, session_id: str, most: int = AT_ONCE) -> list[tuple[str, str]]:
        """The ids that follow one, each with a version. A summary is never changed: its time will do."""
        rows = await self._session.all(_AFTER, {**self._here, "after": session_id, "most": most})
        return [(row[0], str(row[1])) for row in rows]

    async def among(self, ids: Sequence[str]) -> list[SessionSummary]:
        syntax = self._session.syntax
        values = {**self._here, "ids": syntax.values(ids)}
        rows = await self._session.all(_AMONG.format(syntax.among("id", "ids")), values)
        return [SessionSummary(*row) for row in rows]
