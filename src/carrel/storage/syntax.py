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

    def containing(self, table: str, columns: Sequence[str], name: str) -> str:
        """Whether one of a table's columns with trigrams contains the parameter `name`, through their index."""
        ...

    def needle(self, columns: Sequence[str], text: str) -> str:
        """The parameter for `containing`; at least `SHORTEST_INDEXED` characters."""
        ...

    def for_each(self, name: str, kind: Kind, columns: Sequence[str], inner: str) -> str:
        """A statement: the columns of `inner` for each of the parameter's values, which it knows as `one.value`."""
        ...

    def position(self, column: str, name: str) -> str:
        """Where the parameter `name` begins in the column, 0 for nowhere; any length, without an index."""
        ...


class SqliteSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(:{name}))"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return json.dumps(values)

    def containing(self, table: str, columns: Sequence[str], name: str) -> str:
        return f"{table}.pk IN (SELECT rowid FROM {table}_trigrams WHERE {table}_trigrams MATCH :{name})"

    def needle(self, columns: Sequence[str], text: str) -> str:
        quoted = text.replace('"', '""')
        return f'{{{" ".join(columns)}}} : "{quoted}"'

    def for_each(self, name: str, kind: Kind, columns: Sequence[str], inner: str) -> str:
        parts = ", ".join(f"json_extract(found.value, '$[{place}]') AS {each}" for place, each in enumerate(columns))
        return f"""
            SELECT {parts} FROM json_each(:{name}) AS one, json_each((
                SELECT json_group_array(json_array({", ".join(columns)})) FROM ({inner})
            )) AS found
        """

    def position(self, column: str, name: str) -> str:
        return f"instr({column}, :{name})"


class PostgresSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} = ANY(:{name})"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return list(values)

    def containing(self, table: str, columns: Sequence[str], name: str) -> str:
        return "(" + " OR ".join(f"{table}.{column} LIKE :{name}" for column in columns) + ")"

    def needle(self, columns: Sequence[str], text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"%{escaped}%"

    def for_each(self, name: str, kind: Kind, columns: Sequence[str], inner: str) -> str:
        parts = ", ".join(f"found.{each}" for each in columns)
        return f"SELECT {parts} FROM unnest(:{name}::{kind}[]) AS one(value) CROSS JOIN LATERAL ({inner}) AS found"

    def position(self, column: str, name: str) -> str:
        return f"strpos({column}, :{name})"
