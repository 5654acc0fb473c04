"""Discoveries: what makes one invalid, and one code base's in the database.

Every statement names the code base; there is no other way in.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Literal, NamedTuple, TypeGuard, get_args
from uuid import uuid4

from carrel.code.knowledge.code_base import validated_name
from carrel.common import UUID, is_storable, iso, now
from carrel.storage.database import Row, Session


def text_error(text: str, longest: int) -> str | None:
    """What is wrong with a text that must say something; nothing where it can be kept."""
    if not text.strip():
        return "must not be empty"
    if len(text) > longest:
        return f"must have {longest:,} characters or less"
    return None if is_storable(text) else "must not contain NUL or unpaired surrogates"


Type = Literal["pattern", "rule", "decision", "issue"]
TYPES: tuple[Type, ...] = get_args(Type)

MAX_CONTENT_CHARACTERS = 10_000
MAX_MODULE_CHARACTERS = 200
MAX_SESSION_CHARACTERS = 200

_UUID = re.compile(UUID)


class Discovery(NamedTuple):
    id: str
    type: Type
    content: str
    module: str | None
    session: str | None
    date: int
    """Milliseconds since 1970, UTC."""

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "date": iso(self.date)}


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field, as the end of a sentence that begins with its name."""

    field: str
    must: str

    def __str__(self) -> str:
        return f"{self.field} {self.must}"


@dataclass(frozen=True, slots=True)
class InvalidDiscovery:
    """Why a discovery cannot be kept as given."""

    errors: tuple[FieldError, ...]


class NewDiscovery(NamedTuple):
    """A discovery before it has an id and a time."""

    type: Type
    content: str
    module: str | None = None
    session: str | None = None


def validated(
    type_: str, content: str, module: str | None = None, session: str | None = None
) -> NewDiscovery | InvalidDiscovery:
    errors = tuple(field_errors(type_, content, module, session))
    if errors or not is_type(type_):
        return InvalidDiscovery(errors)
    return NewDiscovery(type_, content, module, session)


def field_errors(type_: str, content: str, module: str | None, session: str | None) -> Iterator[FieldError]:
    if not is_type(type_):
        yield FieldError("type", f"must be one of {', '.join(TYPES)}")
    limits = (
        ("content", content, MAX_CONTENT_CHARACTERS),
        ("module", module, MAX_MODULE_CHARACTERS),
        ("session", session, MAX_SESSION_CHARACTERS),
    )
    for name, value, limit in limits:
        if value is not None and (must := text_error(value, limit)) is not None:
            yield FieldError(name, must)


def is_type(text: str) -> TypeGuard[Type]:
    return text in TYPES


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


_COLUMNS = "id, type, content, module, session, date"
_IN_CODE_BASE = "code_base = :code_base"
_ORDER = "ORDER BY date DESC, id"
# Constants put together; values are parameters.
_INSERT = f"""
    INSERT INTO discovery (code_base, {_COLUMNS}, version)
    VALUES (:code_base, :id, :type, :content, :module, :session, :date, :version)
    ON CONFLICT (code_base, id) DO NOTHING RETURNING id
"""
_UPDATE = f"""
    UPDATE discovery
    SET type = :type, content = :content, module = :module, session = :session, date = :date, version = :version
    WHERE {_IN_CODE_BASE} AND id = :id RETURNING id
"""
_DELETE = f"DELETE FROM discovery WHERE {_IN_CODE_BASE} AND id = :id RETURNING id"
_GET = f"SELECT {_COLUMNS} FROM discovery WHERE {_IN_CODE_BASE} AND id = :id"
_BY_PREFIX = f"SELECT {_COLUMNS} FROM discovery WHERE {_IN_CODE_BASE} AND id >= :low AND id < :high ORDER BY id LIMIT 2"
_AFTER = f"SELECT {{}} FROM discovery WHERE {_IN_CODE_BASE} AND id > :after ORDER BY id LIMIT :most"
_GET_MANY = f"SELECT {_COLUMNS}, version FROM discovery WHERE {_IN_CODE_BASE} AND {{}}"

PAGE_SIZE = 1000
_AFTER_ANY_ID = "g"  # hexadecimal digits and dashes all come before it


class DiscoveryPage(NamedTuple):
    """The first of the discoveries that were asked for, and how many there are."""

    discoveries: list[Discovery]
    total: int


class DiscoveryRepository:
    def __init__(self, session: Session, code_base: str) -> None:
        self._session = session
        self._scope = {"code_base": validated_name(code_base)}

    async def add(self, new_discovery: NewDiscovery, date: int | None = None) -> Discovery:
        discovery = Discovery(str(uuid4()), *new_discovery, now() if date is None else date)
        await self.insert(discovery)
        return discovery

    async def insert(self, discovery: Discovery) -> bool:
        """Whether there was none with its id."""
        return await self._session.first(_INSERT, self._values(discovery)) is not None

    async def change(self, discovery: Discovery) -> bool:
        """Whether it was there to be changed."""
        return await self._session.first(_UPDATE, self._values(discovery)) is not None

    async def remove(self, discovery_id: str) -> bool:
        return await self._session.first(_DELETE, {**self._scope, "id": discovery_id.lower()}) is not None

    async def get(self, discovery_id: str) -> Discovery | None:
        row = await self._session.first(_GET, {**self._scope, "id": discovery_id.lower()})
        return None if row is None else Discovery(*row)

    async def with_prefix(self, prefix: str) -> list[Discovery]:
        """Those whose id begins so: none, the one, or two of several."""
        low = prefix.lower()
        rows = await self._session.all(_BY_PREFIX, {**self._scope, "low": low, "high": low + _AFTER_ANY_ID})
        return [Discovery(*row) for row in rows]

    async def newest(self, limit: int, *, type: Type | None = None, module: str | None = None) -> DiscoveryPage:
        """The newest first, ties by id."""
        where, values = [_IN_CODE_BASE], {**self._scope, "limit": limit}
        for name, value in (("type", type), ("module", module)):
            if value is not None:
                where.append(f"{name} = :{name}")
                values[name] = value
        condition = " AND ".join(where)
        page = f"SELECT {_COLUMNS} FROM discovery WHERE {condition} {_ORDER} LIMIT :limit"
        count = f"SELECT count(*) FROM discovery WHERE {condition}"
        rows = await self._session.all(page, values)
        total = await self._session.first(count, values)
        return DiscoveryPage([Discovery(*row) for row in rows], total[0] if total else 0)

    async def all_after(self, discovery_id: str, most: int = PAGE_SIZE) -> list[Discovery]:
        """Those that follow an id, in the order of ids."""
        return [Discovery(*row) for row in await self._after(_COLUMNS, discovery_id, most)]

    async def versions_after(self, discovery_id: str, most: int = PAGE_SIZE) -> list[tuple[str, str]]:
        """The ids that follow one, each with the version of what is kept under it."""
        return [(row[0], row[1]) for row in await self._after("id, version", discovery_id, most)]

    async def get_many(self, ids: Sequence[str]) -> list[tuple[Discovery, str]]:
        """Those of these that are there, each with its version."""
        syntax = self._session.syntax
        values = {**self._scope, "ids": syntax.values(ids)}
        rows = await self._session.all(_GET_MANY.format(syntax.among("id", "ids")), values)
        return [(Discovery(*row[:6]), row[6]) for row in rows]

    async def _after(self, columns: str, discovery_id: str, most: int) -> list[Row]:
        return await self._session.all(_AFTER.format(columns), {**self._scope, "after": discovery_id, "most": most})

    def _values(self, discovery: Discovery) -> dict[str, object]:
        return {**self._scope, **discovery._asdict(), "version": token_hex(8)}
