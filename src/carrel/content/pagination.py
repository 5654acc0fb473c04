"""Pages of a table, and substring search in them.

A page is read as keys first, from a covering index alone, and joined with the table afterwards: skipped rows are never
read. Substring search is plain SQL. A trigram index (FTS5 without positions, pg_trgm) names candidates for needles of
three or more characters; up to `MAX_CANDIDATE_ROWS` of them are read one by one. Otherwise the first `PREFIX_ROWS` rows
in list order are searched for one page of matches, and a scan counts all matches; if the prefix has too few, the scan
collects the matches too. On SQLite the scan reads a covering index, on PostgreSQL the table. Each candidate is compared
with the folded needle, so the trigram index decides how long a search takes, never what it finds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from carrel.content.page import Page, Window
from carrel.content.projects import Project
from carrel.storage.database import Row, Session
from carrel.storage.sql_syntax import ContainedText

MAX_OFFSET = 2**53  # rows: no table is that long, and no engine takes an offset of any size
MAX_CANDIDATE_ROWS = 2000
"""Candidates of the trigram index that are read one by one; of more, a scan takes no longer."""
PREFIX_ROWS = 5000
"""Rows in list order that are searched for a page of matches before a scan collects all of them."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """SQL conditions with their parameters, built step by step; the first one always names the project."""

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
        """Return these conditions, and that each text is contained in one of its columns."""
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
        """Run `select`, which has no WHERE yet, under these conditions, and return its one number."""
        row = await session.first(f"{select} {self.where}", self.parameters)
        return int(row[0] or 0) if row else 0


def columns(row: type[NamedTuple]) -> str:
    """Return the select list for a row type, whose fields are named like columns; `entity_id` is the joined
    entity's."""
    return ", ".join("entity.id" if name == "entity_id" else f"kept.{name}" for name in row._fields)


@dataclass(frozen=True, slots=True)
class Listing:
    """A table with the order and the indexes by which its pages are read."""

    table: str
    key: str
    """A unique column that `order_index` contains."""
    order: str
    columns: str
    """The select list; the row's alias is `kept`."""
    joins: str = ""
    """Joins that keep every row."""
    filtered: str = ""
    """Columns that a substring search filters by, besides the project."""
    order_index: str = ""
    scan_index: str = ""
    """An index that contains all of `filtered`."""
    has_trigrams: bool = True

    async def page(
        self, session: Session, conditions: Conditions, window: Window, total: int, index: str = ""
    ) -> Page[Row]:
        """Return a page of the `total` rows, read through `index` where the engine's own choice cannot be trusted."""
        if window.offset >= total:
            return Page([], total)
        using = session.syntax.using(index) if index else ""
        keys = f"SELECT {self.key} FROM {self.table} {using} {conditions.where}"
        return Page(await self._rows(session, keys, conditions.parameters, window), total)

    async def page_containing(
        self, session: Session, conditions: Conditions, texts: Sequence[ContainedText], window: Window
    ) -> Page[Row]:
        """Return a page of the rows that also contain the texts; the module's docstring describes the three ways."""
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
        """Return the keys of rows that may contain the texts; None if the trigram index cannot tell or names too
        many."""
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
        """Return a page of the source's matching rows, collected and counted by one statement."""
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
        """Return a page of the rows whose keys the statement `keys`, which has no ORDER BY, selects."""
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
