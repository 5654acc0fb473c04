"""Passages by their words, with the same BM25 as in files.

In a passage's tsvector a lexeme has one position, which is how often it occurs; the weight of that position says so
too, if only up to `OFTEN`: that much ts_rank can see.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from carrel.search.postgres.connecting import Connection

K1 = 1.2
B = 0.75
LOOKED_AT = 200
"""Passages whose BM25 is computed exactly."""
ENOUGH = 2000
"""Passages with the rarest terms, beside which those with only the more common ones are not looked at."""
OFTEN = 5
"""What stands for four times and more."""
MOST_OFTEN = 16383
MOST_BYTES = 900_000
"""Of a passage's terms; a tsvector holds a megabyte."""

_WEIGHTS = [1 / OFTEN, 2 / OFTEN, 3 / OFTEN, 1.0]
"""Of D, C, B and A."""
_RANK_OF_ONE = 6 / math.pi**2
"""What ts_rank makes of a term whose weight is 1."""

_BEST = sql.SQL("""
SELECT pk FROM passage WHERE words @@ {any}::tsquery AND {within}
ORDER BY (
    SELECT sum(idf * often / (often + {k1} * ({rest} + {b} * length / {average})))
    FROM unnest({terms}::tsquery[], {idfs}::float8[]) AS term (query, idf),
    LATERAL (SELECT ts_rank({weights}::float4[], words, query) * {unit} AS often) AS rank
) DESC, pk LIMIT {most}
""")


@dataclass(frozen=True, slots=True)
class Collection:
    pk: int
    passages: int
    length: int

    @property
    def average(self) -> float:
        return max(1.0, self.length / max(1, self.passages))

    def idf(self, passages: int) -> float:
        """What a term says that so many passages have."""
        return max(0.0, math.log((self.passages + 1) / (passages + 0.5)))


def kept(terms: Mapping[str, int]) -> dict[str, int]:
    """Of terms and how often each occurs, those that a tsvector has room for."""
    found: dict[str, int] = {}
    room = MOST_BYTES
    for term, often in terms.items():
        room -= len(term.encode()) + 8
        if room < 0:
            break
        found[term] = often
    return found


def tsvector(terms: Mapping[str, int]) -> str:
    return " ".join(
        f"{_quoted(term)}:{min(often, MOST_OFTEN)}{'DCBA'[min(often, 4) - 1]}" for term, often in terms.items()
    )


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def frequencies(connection: Connection, collection: Collection, terms: Sequence[str]) -> dict[str, int]:
    """Of the terms that occur, the rarest first, how many passages have each."""
    rows = connection.execute(
        "SELECT term, passages FROM term WHERE collection_pk = %s AND term = ANY(%s) ORDER BY passages, term",
        (collection.pk, list(terms)),
    )
    return dict(rows.fetchall())


def best(
    connection: Connection, collection: Collection, rarest_first: Mapping[str, int], within: sql.Composed
) -> list[int]:
    """About the passages with the best of the terms."""
    terms = list(rarest_first)
    looked_for = _rarest(rarest_first)
    found = _best(connection, collection, rarest_first, terms[:looked_for], within)
    if len(found) < LOOKED_AT and looked_for < len(terms):
        found = _best(connection, collection, rarest_first, terms, within)
    return found


def _rarest(rarest_first: Mapping[str, int]) -> int:
    """How many of the terms it takes to find enough."""
    found = 0
    for place, passages in enumerate(rarest_first.values(), 1):
        found += passages
        if found >= ENOUGH:
            return place
    return len(rarest_first)


def _best(
    connection: Connection,
    collection: Collection,
    frequencies: Mapping[str, int],
    any_of: Sequence[str],
    within: sql.Composed,
) -> list[int]:
    if not any_of:
        return []
    statement = _BEST.format(
        any=" | ".join(map(_quoted, any_of)),
        within=within,
        k1=K1,
        rest=1 - B,
        b=B,
        average=collection.average,
        terms=list(map(_quoted, frequencies)),
        idfs=[collection.idf(passages) for passages in frequencies.values()],
        weights=_WEIGHTS,
        unit=OFTEN / _RANK_OF_ONE,
        most=LOOKED_AT,
    )
    return [pk for (pk,) in connection.execute(statement).fetchall()]


def bm25(collection: Collection, frequencies: Mapping[str, int], length: int, often: Mapping[str, int]) -> float:
    """Of a passage of so many terms, in which some occur so often."""
    norm = K1 * (1 - B + B * length / collection.average)
    return sum(collection.idf(frequencies[term]) * (K1 + 1) * count / (count + norm) for term, count in often.items())
