"""Summaries of sessions: what was done in one, in a few sentences. Every statement names the code base."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from carrel.code.knowledge.code_base import validated_name
from carrel.code.knowledge.discoveries import MAX_CONTENT_CHARACTERS, MAX_MODULE_CHARACTERS, FieldError, text_error
from carrel.common import iso, now
from carrel.storage.database import Session

MAX_TITLE_CHARACTERS = 200

_COLUMNS = "id, title, content, module, date"
_IN_CODE_BASE = "code_base = :code_base"
# Constants put together; values are parameters.
_INSERT = f"""
    INSERT INTO session_summary (code_base, {_COLUMNS}) VALUES (:code_base, :id, :title, :content, :module, :date)
"""
_NEWEST = f"SELECT {_COLUMNS} FROM session_summary WHERE {{}} ORDER BY date DESC, id LIMIT :limit"
_COUNT = "SELECT count(*) FROM session_summary WHERE {}"
_AFTER = f"SELECT id, date FROM session_summary WHERE {_IN_CODE_BASE} AND id > :after ORDER BY id LIMIT :most"
_GET_MANY = f"SELECT {_COLUMNS} FROM session_summary WHERE {_IN_CODE_BASE} AND {{}}"

PAGE_SIZE = 1000


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

    errors: tuple[FieldError, ...]


class NewSummary(NamedTuple):
    """A summary before it has an id and a time."""

    title: str | None
    content: str
    module: str | None


class SessionPage(NamedTuple):
    sessions: list[SessionSummary]
    total: int


def validated(content: str, title: str | None = None, module: str | None = None) -> NewSummary | InvalidSession:
    errors = tuple(_field_errors(content, title, module))
    return InvalidSession(errors) if errors else NewSummary(title, content, module)


def _field_errors(content: str, title: str | None, module: str | None) -> Iterator[FieldError]:
    limits = (
        ("summary", content, MAX_CONTENT_CHARACTERS),
        ("title", title, MAX_TITLE_CHARACTERS),
        ("module", module, MAX_MODULE_CHARACTERS),
    )
    for name, value, limit in limits:
        if value is not None and (must := text_error(value, limit)) is not None:
            yield FieldError(name, must)


class SessionRepository:
    def __init__(self, session: Session, code_base: str) -> None:
        self._session = session
        self._scope = {"code_base": validated_name(code_base)}

    async def add(self, summary: NewSummary, date: int | None = None) -> SessionSummary:
        stored = SessionSummary(str(uuid4()), *summary, now() if date is None else date)
        await self._session.all(_INSERT, {**self._scope, **stored._asdict()})
        return stored

    async def newest(self, limit: int, *, module: str | None = None) -> SessionPage:
        """The newest first, ties by id."""
        where, values = _IN_CODE_BASE, {**self._scope, "limit": limit}
        if module is not None:
            where, values = f"{where} AND module = :module", {**values, "module": module}
        rows = await self._session.all(_NEWEST.format(where), values)
        total = await self._session.first(_COUNT.format(where), values)
        return SessionPage([SessionSummary(*row) for row in rows], total[0] if total else 0)

    async def versions_after(self, session_id: str, most: int = PAGE_SIZE) -> list[tuple[str, str]]:
        """The ids that follow one, each with a version. A summary is never changed: its time will do."""
        rows = await self._session.all(_AFTER, {**self._scope, "after": session_id, "most": most})
        return [(row[0], str(row[1])) for row in rows]

    async def get_many(self, ids: Sequence[str]) -> list[SessionSummary]:
        syntax = self._session.syntax
        values = {**self._scope, "ids": syntax.values(ids)}
        rows = await self._session.all(_GET_MANY.format(syntax.among("id", "ids")), values)
        return [SessionSummary(*row) for row in rows]
