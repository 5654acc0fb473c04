"""SQL that the two engines write differently."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol


def sqlite_trigrams(table: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the statements that create `{table}_trigrams` over a table's columns, and the triggers that maintain it.

    The index finds rows with all trigrams of a needle, without their positions, at a quarter of the size; the row
    itself is then compared with the needle. The text stays in the table (external content), so a deletion must repeat
    the text that was indexed.
    """
    name, listed = f"{table}_trigrams", ", ".join(columns)
    old = ", ".join(f"old.{column}" for column in columns)
    new = ", ".join(f"new.{column}" for column in columns)
    forget = f"INSERT INTO {name} ({name}, rowid, {listed}) VALUES ('delete', old.pk, {old});"
    add = f"INSERT INTO {name} (rowid, {listed}) VALUES (new.pk, {new});"
    yield f"DROP TABLE IF EXISTS {name}"
    yield (
        f"CREATE VIRTUAL TABLE {name} USING fts5({listed}, content='{table}', content_rowid='pk', "
        "columnsize=0, detail=none, tokenize='trigram case_sensitive 1')"
    )
    yield f"CREATE TRIGGER {name}_insert AFTER INSERT ON {table} BEGIN {add} END"
    yield f"CREATE TRIGGER {name}_delete AFTER DELETE ON {table} BEGIN {forget} END"
    yield f"CREATE TRIGGER {name}_update AFTER UPDATE OF {listed} ON {table} BEGIN {forget} {add} END"


TRIGRAM_LENGTH = 3
MAX_TRIGRAMS = 12
"""Trigrams of a needle that SQLite looks up. More select fewer rows, but SQLite cannot be interrupted meanwhile."""

_ASCII_TRIGRAM = re.compile("[0-9a-z]{3}")
"""Characters that pg_trgm makes a trigram of in every locale."""

SqlType = Literal["bigint", "text"]
ContainedText = tuple[Sequence[str], str]
"""Columns, and the text that one of them must contain."""


class Candidates(NamedTuple):
    """A statement for the keys of all rows that contain some texts, and possibly others, by a trigram index."""

    sql: str
    parameters: dict[str, object]


class Syntax(Protocol):
    """The SQL that one engine needs for a construct."""

    def among(self, column: str, name: str) -> str:
        """Return the condition that the column's value is in the array parameter `name`."""
        ...

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        """Return the array parameter for `among`."""
        ...

    def candidates(self, table: str, texts: Sequence[ContainedText]) -> Candidates | None:
        """Return the statement for rows that may contain all the texts; None if they have no usable trigram."""
        ...

    def using(self, index: str) -> str:
        """Return the hint, after a table's name, that forces an index where the planner's choice cannot be trusted."""
        ...

    def table(self, name: str, kind: SqlType) -> str:
        """Return the array parameter as a table of its name with the column `value`."""
        ...

    def for_each(self, name: str, kind: SqlType, columns: Sequence[str], inner: str) -> str:
        """Return a lateral join: the columns of `inner` for each value of the parameter, `{name}.value`."""
        ...

    def position(self, column: str, name: str) -> str:
        """Return the expression for the position of the parameter `name` in the column, 0 if absent."""
        ...


class SqliteSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(:{name}))"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return json.dumps(values)

    def candidates(self, table: str, texts: Sequence[ContainedText]) -> Candidates | None:
        trigrams = dict.fromkeys(trigram for _, needle in texts for trigram in _sampled_trigrams(needle))
        if not trigrams:
            return None
        sql = f"SELECT rowid FROM {table}_trigrams WHERE {table}_trigrams MATCH :trigrams"
        return Candidates(sql, {"trigrams": " AND ".join(map(_quoted, trigrams))})

    def using(self, index: str) -> str:
        """Force the index. SQLite guesses by shape; statistics from a sample of a million rows misled it worse than
        none."""
        return f"INDEXED BY {index}"

    def table(self, name: str, kind: SqlType) -> str:
        return f"(SELECT value FROM json_each(:{name})) AS {name}"

    def for_each(self, name: str, kind: SqlType, columns: Sequence[str], inner: str) -> str:
        parts = ", ".join(f"json_extract(found.value, '$[{place}]') AS {each}" for place, each in enumerate(columns))
        return f"""
            SELECT {parts} FROM {self.table(name, kind)}, json_each((
                SELECT json_group_array(json_array({", ".join(columns)})) FROM ({inner})
            )) AS found
        """

    def position(self, column: str, name: str) -> str:
        return f"instr({column}, :{name})"


def _sampled_trigrams(needle: str) -> Iterator[str]:
    """Yield up to `MAX_TRIGRAMS` trigrams from all over the needle."""
    starts = len(needle) - TRIGRAM_LENGTH + 1
    return (needle[start : start + TRIGRAM_LENGTH] for start in range(0, starts, max(1, -(-starts // MAX_TRIGRAMS))))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


class PostgresSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} = ANY(:{name})"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return list(values)

    def candidates(self, table: str, texts: Sequence[ContainedText]) -> Candidates | None:
        parts, parameters = list[str](), dict[str, object]()
        for columns, needle in texts:
            if _ASCII_TRIGRAM.search(needle):
                name = f"{columns[0]}_pattern"
                parts.append(" OR ".join(f"{column} LIKE :{name}" for column in columns))
                parameters[name] = _like_pattern(needle)
        if not parts:
            return None
        return Candidates(f"SELECT pk FROM {table} WHERE ({') AND ('.join(parts)})", parameters)

    def using(self, index: str) -> str:
        return ""

    def table(self, name: str, kind: SqlType) -> str:
        return f"unnest(:{name}::{kind}[]) AS {name}(value)"

    def for_each(self, name: str, kind: SqlType, columns: Sequence[str], inner: str) -> str:
        parts = ", ".join(f"found.{each}" for each in columns)
        return f"SELECT {parts} FROM {self.table(name, kind)} CROSS JOIN LATERAL ({inner}) AS found"

    def position(self, column: str, name: str) -> str:
        return f"strpos({column}, :{name})"


def _like_pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
