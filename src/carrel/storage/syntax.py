"""What the two engines write differently in a statement."""

import json
from collections.abc import Sequence
from typing import Literal, Protocol

SHORTEST_INDEXED = 3  # characters: both engines index text by three in a row


Kind = Literal["bigint", "text"]


class Syntax(Protocol):
    def among(self, column: str, name: str) -> str:
        """Whether the column's value is one of those in the parameter `name`."""
        ...

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        """The parameter for `among`."""
        ...

    def may_contain(
        self, table: str, columns: Sequence[str], text: str, trigrams: Sequence[str]
    ) -> tuple[str, dict[str, object]]:
        """Whether one of a table's columns with trigrams may contain the text, found through their index; and its
        parameters. The trigrams are some of the text's."""
        ...

    def may_contain_any(
        self, table: str, columns: Sequence[str], trigrams: Sequence[str]
    ) -> tuple[str, dict[str, object]]:
        """Whether one of the trigrams may be in one of the columns, found through their index; and its parameters."""
        ...

    def using(self, index: str) -> str:
        """Behind a table's name: the index to read it by, where the engine's own choice cannot be trusted."""
        ...

    def table(self, name: str, kind: Kind) -> str:
        """The parameter's values as a table of its name with the column `value`."""
        ...

    def for_each(self, name: str, kind: Kind, columns: Sequence[str], inner: str) -> str:
        """A statement: the columns of `inner` for each of the parameter's values, which it knows as `{name}.value`."""
        ...

    def position(self, column: str, name: str) -> str:
        """Where the parameter `name` begins in the column, 0 for nowhere; any length, without an index."""
        ...


class SqliteSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(:{name}))"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return json.dumps(values)

    def may_contain(
        self, table: str, columns: Sequence[str], text: str, trigrams: Sequence[str]
    ) -> tuple[str, dict[str, object]]:
        found = f"SELECT rowid FROM {table}_trigrams WHERE {table}_trigrams MATCH :trigrams"
        return f"{table}.pk IN ({found})", {"trigrams": " AND ".join(map(_quoted, trigrams))}

    def may_contain_any(
        self, table: str, columns: Sequence[str], trigrams: Sequence[str]
    ) -> tuple[str, dict[str, object]]:
        found = f"SELECT rowid FROM {table}_trigrams WHERE {table}_trigrams MATCH :trigrams"
        return f"{table}.pk IN ({found})", {"trigrams": " OR ".join(map(_quoted, trigrams))}

    def using(self, index: str) -> str:
        """SQLite guesses by shape, or by statistics that a sample of a million rows gives a wrong idea of."""
        return f"INDEXED BY {index}"

    def table(self, name: str, kind: Kind) -> str:
        return f"(SELECT value FROM json_each(:{name})) AS {name}"

    def for_each(self, name: str, kind: Kind, columns: Sequence[str], inner: str) -> str:
        parts = ", ".join(f"json_extract(found.value, '$[{place}]') AS {each}" for place, each in enumerate(columns))
        return f"""
            SELECT {parts} FROM {self.table(name, kind)}, json_each((
                SELECT json_group_array(json_array({", ".join(columns)})) FROM ({inner})
            )) AS found
        """

    def position(self, column: str, name: str) -> str:
        return f"instr({column}, :{name})"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


class PostgresSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} = ANY(:{name})"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return list(values)

    def may_contain(
        self, table: str, columns: Sequence[str], text: str, trigrams: Sequence[str]
    ) -> tuple[str, dict[str, object]]:
        seen = " OR ".join(f"{column} LIKE :pattern" for column in columns)
        return f"({seen})", {"pattern": _pattern(text)}

    def may_contain_any(
        self, table: str, columns: Sequence[str], trigrams: Sequence[str]
    ) -> tuple[str, dict[str, object]]:
        seen = " OR ".join(f"{column} LIKE ANY(:trigrams)" for column in columns)
        return f"({seen})", {"trigrams": list(map(_pattern, trigrams))}

    def using(self, index: str) -> str:
        return ""

    def table(self, name: str, kind: Kind) -> str:
        return f"unnest(:{name}::{kind}[]) AS {name}(value)"

    def for_each(self, name: str, kind: Kind, columns: Sequence[str], inner: str) -> str:
        parts = ", ".join(f"found.{each}" for each in columns)
        return f"SELECT {parts} FROM {self.table(name, kind)} CROSS JOIN LATERAL ({inner}) AS found"

    def position(self, column: str, name: str) -> str:
        return f"strpos({column}, :{name})"


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
