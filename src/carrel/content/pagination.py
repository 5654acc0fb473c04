"""Reading a page of a table. Keys are read first, from an index alone, so that no row is looked at to be skipped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.storage.database import Row, Session
from carrel.storage.sql_syntax import ContainedText

MAX_OFFSET = 2**53  # rows: no table is that long, and no engine takes an offset of any size
MAX_CANDIDATE_ROWS = 2000
"""Rows that are read one by one; where the trigram index names more, a scan takes no longer."""
PREFIX_ROWS = 5000
"""Rows in the order of a list that are read for a page of matches before a scan collects all matches."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the rows of a list must fulfil, put together piece by piece; the project is always the first piece."""

    others: tuple[str, ...]
    parameters: Mapping[str, object]

    @classmethod
    def within(cls, project: Project) -> Self:
        return cls((), {"project": project.pk})

    def plus(self, condition: str, **parameters: object) -> Self:
        return type(self)((*self.others, condition), {**self.parameters, **parameters})

    def equal(self, column: str, value: object) -> Self:
        return self.plus(f"{column} = :{column}", **{column: value})

    def containing(self, session: Session, texts: Sequence[ContainedText]) -> Self:
        """That each of the texts is in one of its columns."""
        found = self
        for columns, needle in texts:
            name = f"{columns[0]}_needle"
            contains = " OR ".join(f"{session.syntax.position(column, name)} > 0" for column in columns)
            found = found.plus(f"({contains})", **{name: needle})
        return found

    @property
    def where(self) -> str:
        return " AND ".join(["WHERE project_pk = :project", *self.others])

    async def total(self, session: Session, select: str) -> int:
        """The number that `select`, which has no WHERE yet, comes to."""
        row = await session.first(f"{select} {self.where}", self.parameters)
        return int(row[0] or 0) if row else 0


def columns(row: type[NamedTuple]) -> str:
    """What is read for the fields of a row, which has their names; of an `entity_id`, the joined entity's."""
    return ", ".join("entity.id" if name == "entity_id" else f"kept.{name}" for name in row._fields)


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
    filtered: str = ""
    """The columns that conditions of a substring search are about, besides the project."""
    order_index: str = ""
    scan_index: str = ""
    """Has all of `filtered`."""
    has_trigrams: bool = True

    async def page(
        self, session: Session, conditions: Conditions, window: Window, total: int, index: str = ""
    ) -> Page[Row]:
        """A page of the rows, of which there are `total`; through an index that the engine might not choose."""
        if window.offset >= total:
            return Page([], total)
        using = session.syntax.using(index) if index else ""
        keys = f"SELECT {self.key} FROM {self.table} {using} {conditions.where}"
        return Page(await self._rows(session, keys, conditions.parameters, window), total)

    async def page_containing(
        self, session: Session, conditions: Conditions, texts: Sequence[ContainedText], window: Window
    ) -> Page[Row]:
        """A page of the rows that contain the texts too.

        Where the trigram index names few candidates, these are read. Else a page of matches is looked for among the
        first rows, and all are counted by a scan of the covering index; where there are not enough among the first, the
        scan collects all matches.
        """
        # SQLite cannot interrupt the trigram index, which takes over 100 ms for a common text in a million rows. The
        # plan that PostgreSQL would keep for all texts reads the whole index for one that every row contains.
        session.expect_slow()
        matching = conditions.containing(session, texts)
        candidates = await self._candidate_keys(session, texts) if self.has_trigrams else None
        if candidates is not None:
            among = session.syntax.among("pk", "candidates")
            fenced = f"(SELECT * FROM {self.table} WHERE {among} LIMIT {MAX_CANDIDATE_ROWS}) AS candidate"
            matching = matching.plus("TRUE", candidates=session.syntax.values(candidates))
            return await self._page_of_matches(session, fenced, matching, window)
        scanned = f"{self.table} {session.syntax.using(self.scan_index)}"
        rows = await self._matches_in_prefix(session, matching, window)
        if len(rows) < window.limit:
            return await self._page_of_matches(session, scanned, matching, window)
        return Page(rows, await matching.total(session, f"SELECT count(*) FROM {scanned}"))

    async def _candidate_keys(self, session: Session, texts: Sequence[ContainedText]) -> list[int] | None:
        """The keys of the rows that may contain the texts, if the trigram index can tell and they are few."""
        candidates = session.syntax.candidates(self.table, texts)
        if candidates is None:
            return None
        rows = await session.all(f"{candidates.sql} LIMIT {MAX_CANDIDATE_ROWS + 1}", candidates.parameters)
        return [pk for (pk,) in rows] if len(rows) <= MAX_CANDIDATE_ROWS else None

    async def _matches_in_prefix(self, session: Session, matching: Conditions, window: Window) -> list[Row]:
        first = PREFIX_ROWS + 2 * min(window.offset + window.limit, MAX_OFFSET)
        keys = f"""
            SELECT {self.key} FROM (
                SELECT project_pk, {self._sorted_by}, {self.filtered}
                FROM {self.table} {session.syntax.using(self.order_index)}
                WHERE project_pk = :project ORDER BY {self.order} LIMIT :first
            ) AS first {matching.where}
        """
        return await self._rows(session, keys, {**matching.parameters, "first": first}, window)

    async def _page_of_matches(self, session: Session, source: str, matching: Conditions, window: Window) -> Page[Row]:
        """A page of the source's matching rows, which are collected and counted in one go."""
        sql = f"""
            WITH found AS MATERIALIZED (SELECT {self._sorted_by} FROM {source} {matching.where})
            SELECT counted.total, kept.{self.key}, {self.columns}
            FROM (SELECT count(*) AS total FROM found) AS counted
            LEFT JOIN (SELECT {self.key} FROM found ORDER BY {self.order} LIMIT :limit OFFSET :offset) AS page ON TRUE
            LEFT JOIN {self.table} AS kept ON kept.{self.key} = page.{self.key} {self.joins}
            ORDER BY {self._kept_order}
        """
        offset = min(window.offset, MAX_OFFSET)
        rows = await session.all(sql, {**matching.parameters, "limit": window.limit, "offset": offset})
        return Page([row[2:] for row in rows if row[1] is not None], rows[0][0])

    async def _rows(self, session: Session, keys: str, parameters: Mapping[str, object], window: Window) -> list[Row]:
        """A page of the rows with these keys; `keys` is a statement without its order."""
        sql = f"""
            SELECT {self.columns} FROM ({keys} ORDER BY {self.order} LIMIT :limit OFFSET :offset) AS page
            JOIN {self.table} AS kept ON kept.{self.key} = page.{self.key} {self.joins}
            ORDER BY {self._kept_order}
        """
        offset = min(window.offset, MAX_OFFSET)
        return await session.all(sql, {**parameters, "limit": window.limit, "offset": offset})

    @property
    def _sorted_by(self) -> str:
        return ", ".join({self.key: None} | dict.fromkeys(each.split()[0] for each in self.order.split(", ")))

    @property
    def _kept_order(self) -> str:
        return ", ".join(f"kept.{each}" for each in self.order.split(", "))
