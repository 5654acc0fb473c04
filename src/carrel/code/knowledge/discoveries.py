"""One code base's discoveries in the database. Every statement names the code base; there is no other way in."""

from collections.abc import Sequence
from secrets import token_hex
from typing import NamedTuple
from uuid import uuid4

from carrel.code.knowledge.code_base import checked_name
from carrel.code.knowledge.discovery import Discovery, Given, Type
from carrel.common import now
from carrel.storage.database import Row, Session

_COLUMNS = "id, type, content, module, session, date"
_HERE = "code_base = :code_base"
_ORDER = "ORDER BY date DESC, id"
# Constants put together; values are parameters.
_ADD = f"""
    INSERT INTO discovery (code_base, {_COLUMNS}, version)
    VALUES (:code_base, :id, :type, :content, :module, :session, :date, :version)
    ON CONFLICT (code_base, id) DO NOTHING RETURNING id
"""
_CHANGE = f"""
    UPDATE discovery
    SET type = :type, content = :content, module = :module, session = :session, date = :date, version = :version
    WHERE {_HERE} AND id = :id RETURNING id
"""
_REMOVE = f"DELETE FROM discovery WHERE {_HERE} AND id = :id RETURNING id"
_GET = f"SELECT {_COLUMNS} FROM discovery WHERE {_HERE} AND id = :id"
_LIKE = f"SELECT {_COLUMNS} FROM discovery WHERE {_HERE} AND id >= :low AND id < :high ORDER BY id LIMIT 2"
_AFTER = f"SELECT {{}} FROM discovery WHERE {_HERE} AND id > :after ORDER BY id LIMIT :most"
_AMONG = f"SELECT {_COLUMNS}, version FROM discovery WHERE {_HERE} AND {{}}"

AT_ONCE = 1000
_AFTER_ANY_ID = "g"  # hexadecimal digits and dashes all come before it


class Found(NamedTuple):
    """The first of the discoveries that were asked for, and how many there are."""

    discoveries: list[Discovery]
    total: int


class DiscoveryRepository:
    def __init__(self, session: Session, code_base: str) -> None:
        self._session = session
        self._here = {"code_base": checked_name(code_base)}

    async def add(self, given: Given, date: int | None = None) -> Discovery:
        discovery = Discovery(str(uuid4()), *given, now() if date is None else date)
        await self.put_new(discovery)
        return discovery

    async def put_new(self, discovery: Discovery) -> bool:
        """Whether there was none with its id."""
        return await self._session.first(_ADD, self._values(discovery)) is not None

    async def change(self, discovery: Discovery) -> bool:
        """Whether it was there to be changed."""
        return await self._session.first(_CHANGE, self._values(discovery)) is not None

    async def remove(self, discovery_id: str) -> bool:
        return await self._session.first(_REMOVE, {**self._here, "id": discovery_id.lower()}) is not None

    async def get(self, discovery_id: str) -> Discovery | None:
        row = await self._session.first(_GET, {**self._here, "id": discovery_id.lower()})
        return None if row is None else Discovery(*row)

    async def beginning_with(self, prefix: str) -> list[Discovery]:
        """Those whose id begins so: none, the one, or two of several."""
        low = prefix.lower()
        rows = await self._session.all(_LIKE, {**self._here, "low": low, "high": low + _AFTER_ANY_ID})
        return [Discovery(*row) for row in rows]

    async def newest(self, limit: int, *, type: Type | None = None, module: str | None = None) -> Found:
        """The newest first, ties by id."""
        where, values = [_HERE], {**self._here, "limit": limit}
        for name, value in (("type", type), ("module", module)):
            if value is not None:
                where.append(f"{name} = :{name}")
                values[name] = value
        condition = " AND ".join(where)
        page = f"SELECT {_COLUMNS} FROM discovery WHERE {condition} {_ORDER} LIMIT :limit"
        count = f"SELECT count(*) FROM discovery WHERE {condition}"
        rows = await self._session.all(page, values)
        total = await self._session.first(count, values)
        return Found([Discovery(*row) for row in rows], total[0] if total else 0)

    async def all_after(self, discovery_id: str, most: int = AT_ONCE) -> list[Discovery]:
        """Those that follow an id, in the order of ids."""
        return [Discovery(*row) for row in await self._after(_COLUMNS, discovery_id, most)]

    async def versions_after(self, discovery_id: str, most: int = AT_ONCE) -> list[tuple[str, str]]:
        """The ids that follow one, each with the version of what is kept under it."""
        return [(row[0], row[1]) for row in await self._after("id, version", discovery_id, most)]

    async def among(self, ids: Sequence[str]) -> list[tuple[Discovery, str]]:
        """Those of these that are there, each with its version."""
        syntax = self._session.syntax
        values = {**self._here, "ids": syntax.values(ids)}
        rows = await self._session.all(_AMONG.format(syntax.among("id", "ids")), values)
        return [(Discovery(*row[:6]), row[6]) for row in rows]

    async def _after(self, columns: str, discovery_id: str, most: int) -> list[Row]:
        return await self._session.all(_AFTER.format(columns), {**self._here, "after": discovery_id, "most": most})

    def _values(self, discovery: Discovery) -> dict[str, object]:
        return {**self._here, **discovery._asdict(), "version": token_hex(8)}
