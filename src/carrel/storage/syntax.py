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

    def containing(self, table: str, columns: Sequence[str], text: str) -> tuple[str, dict[str, object]]:
        """Whether one of a table's columns with trigrams contains the text, found through their index; and its
        parameters. The text has at least `SHORTEST_INDEXED` characters."""
        ...

    def containing_any(
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

    def containing(self, table: str, columns: Sequence[str], text: str) -> tuple[str, dict[str, object]]:
        has_trigrams, has_text = f"{columns[0]}_trigrams", f"{columns[0]}_text"
        found = f"SELECT rowid FROM {table}_trigrams WHERE {table}_trigrams MATCH :{has_trigrams}"
        seen = " OR ".join(f"{self.position(column, has_text)} > 0" for column in columns)
        return f"{table}.pk IN ({found}) AND ({seen})", {has_trigrams: _trigrams(text), has_text: text}

    def containing_any(
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


def _trigrams(text: str) -> str:
    """Every third trigram and the last: what has these has, but for a few, the text; each more only takes time."""
    starts = dict.fromkeys(
        [*range(0, len(text) - SHORTEST_INDEXED + 1, SHORTEST_INDEXED), len(text) - SHORTEST_INDEXED]
    )
    return " AND ".join(_quoted(text[start : start + SHORTEST_INDEXED]) for start in starts)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


class PostgresSyntax:
    def among(self, column: str, name: str) -> str:
        return f"{column} = ANY(:{name})"

    def values(self, values: Sequence[str] | Sequence[int]) -> object:
        return list(values)

    def containing(self, table: str, columns: Sequence[str], text: str) -> tuple[str, dict[str, object]]:
        name = f"{columns[0]}_text"
        return f"({' OR '.join(f'{column} LIKE :{name}' for column in columns)})", {name: _pattern(text)}

    def containing_any(
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
