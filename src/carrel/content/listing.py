"""Reading a page of a table. Keys are read first, from an index alone, so that no row is looked at to be skipped."""

from collections.abc import Mapping
from dataclasses import dataclass

from carrel.content.conditions import Conditions
from carrel.content.page import Page, Window
from carrel.storage.database import Row, Session

FARTHEST = 2**53  # rows: no table is that long, and no engine takes an offset of any size


@dataclass(frozen=True, slots=True)
class Listing:
    table: str
    key: str
    """A unique column that the index in this order has."""
    order: str
    columns: str
    """What is read of each row, which is called `kept`."""
    joins: str = ""
    """None that leaves a row out."""

    async def page(
        self, session: Session, conditions: Conditions, window: Window, total: int, index: str = ""
    ) -> Page[Row]:
        """A page of the rows, of which there are `total`; through an index that the engine might not choose."""
        if window.offset >= total:
            return Page([], total)
        using = session.syntax.using(index) if index else ""
        keys = f"SELECT {self.key} FROM {self.table} {using} {conditions.where}"
        return Page(await self.rows(session, keys, conditions.parameters, window), total)

    async def rows(self, session: Session, keys: str, parameters: Mapping[str, object], window: Window) -> list[Row]:
        """A page of the rows with these keys; `keys` is a statement without its order."""
        sql = f"""
            SELECT {self.columns} FROM ({keys} ORDER BY {self.order} LIMIT :limit OFFSET :offset) AS page
            JOIN {self.table} AS kept ON kept.{self.key} = page.{self.key} {self.joins}
            ORDER BY {self._kept_order}
        """
        return await session.all(sql, {**parameters, "limit": window.limit, "offset": window.offset})

    async def page_by_text(self, session: Session, conditions: Conditions, window: Window) -> Page[Row]:
        """A page of the rows with a text in them, which are looked for and counted in one go."""
        sorted_by = ", ".join({self.key: None} | dict.fromkeys(each.split()[0] for each in self.order.split(", ")))
        sql = f"""
            WITH found AS MATERIALIZED (SELECT {sorted_by} FROM {self.table} {conditions.where_by_text})
            SELECT counted.total, kept.{self.key}, {self.columns}
            FROM (SELECT count(*) AS total FROM found) AS counted
            LEFT JOIN (SELECT {self.key} FROM found ORDER BY {self.order} LIMIT :limit OFFSET :offset) AS page ON TRUE
            LEFT JOIN {self.table} AS kept ON kept.{self.key} = page.{self.key} {self.joins}
            ORDER BY {self._kept_order}
        """
        offset = min(window.offset, FARTHEST)
        rows = await session.all(sql, {**conditions.parameters, "limit": window.limit, "offset": offset})
        return Page([row[2:] for row in rows if row[1] is not None], rows[0][0])

    @property
    def _kept_order(self) -> str:
        return ", ".join(f"kept.{each}" for each in self.order.split(", "))
