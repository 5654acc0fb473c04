"""Retrieval in PostgreSQL: passages by vectors through pgvector, and by words with BM25."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from carrel.search.postgres.connections import Connection

if TYPE_CHECKING:
    from carrel.search.index_store import Filters
    from carrel.search.providers.provider import Matrix

VECTOR_CANDIDATES = 50
"""Passages that are looked at exactly, of those nearest in meaning."""
MAX_HNSW_DIMENSIONS = 4000
"""Dimensions that HNSW takes, and a row holds, at half precision."""
MAX_ALWAYS_EXACT_PASSAGES = 3000
"""Passages that are always looked at one by one."""
MAX_EXACT_PASSAGES = 20_000
"""More are never: the index is asked. Between the two it depends on which part of everything they are."""
HNSW_SELECTIVITY_DIVISOR = 5
"""Where fewer than one in so many fit the filters, HNSW is hardly faster, and misses some."""
EF_SEARCH = (500, 1000)
"""What HNSW keeps in sight: more where fewer fit. A thousand is the most it takes."""

_EXACT_SCAN = sql.SQL("""
WITH near AS MATERIALIZED (
    SELECT pk, data <#> {query}::halfvec AS distance FROM passage JOIN embedding USING (hash) WHERE {within}
) SELECT pk FROM near ORDER BY distance, pk LIMIT {most}
""")
INDEX_SCAN = sql.SQL("""
SELECT pk FROM embedding JOIN passage USING (hash) WHERE {within} ORDER BY data <#> {query}::halfvec LIMIT {most}
""")
# The one plan that goes along the index until enough of what it comes to fits the filters.
INDEX_SCAN_SETTINGS = sql.SQL("""
SET LOCAL hnsw.ef_search = {ef}; SET LOCAL hnsw.iterative_scan = relaxed_order;
SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL max_parallel_workers_per_gather = 0
""")


def make_table(connection: Connection, dimensions: int) -> None:
    """For vectors of so many dimensions, in place of those there were."""
    connection.execute("DROP TABLE embedding")
    connection.execute(
        sql.SQL("CREATE TABLE embedding (hash bytea PRIMARY KEY, data halfvec({}) NOT NULL)").format(dimensions)
    )
    if dimensions <= MAX_HNSW_DIMENSIONS:
        connection.execute("ALTER TABLE embedding ALTER COLUMN data SET STORAGE PLAIN")  # in the row, not beside it
        # Of unit length, so the inner product is the cosine.
        connection.execute("CREATE INDEX embedding_by_data ON embedding USING hnsw (data halfvec_ip_ops)")


def literal(vector: "Matrix") -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def nearest(
    connection: Connection, collection: "Collection", filters: "Filters", within: sql.Composed, vector: "Matrix"
) -> list[int]:
    """About the nearest passages; those that the filters let through are all that is looked at."""
    values = {"query": literal(vector), "within": within, "most": VECTOR_CANDIDATES}
    fitting, everything = _counts(connection, collection, filters, within)
    uses_index = fitting > MAX_EXACT_PASSAGES or (
        fitting > MAX_ALWAYS_EXACT_PASSAGES and fitting * HNSW_SELECTIVITY_DIVISOR > everything
    )
    if uses_index and len(vector) <= MAX_HNSW_DIMENSIONS:
        least, most = EF_SEARCH
        with connection.transaction(force_rollback=True):  # which undoes the settings
            connection.execute(INDEX_SCAN_SETTINGS.format(ef=min(most, max(least, least // 2 * everything // fitting))))
            found = connection.execute(INDEX_SCAN.format(**values)).fetchall()
        if len(found) == VECTOR_CANDIDATES:
            return [pk for (pk,) in found]
        # pgvector gave up before it had come to enough that fit.
    return [pk for (pk,) in connection.execute(_EXACT_SCAN.format(**values)).fetchall()]


def _counts(
    connection: Connection, collection: "Collection", filters: "Filters", within: sql.Composed
) -> tuple[int, int]:
    """How many passages fit, as far as it matters, and how many there are."""
    if collection.passages <= MAX_ALWAYS_EXACT_PASSAGES:
        return collection.passages, collection.passages
    fitting = sql.Literal(collection.passages)
    if filters:
        fitting = sql.SQL("(SELECT count(*) FROM (SELECT FROM passage WHERE {} LIMIT {}))").format(
            within, MAX_EXACT_PASSAGES + 1
        )
    statement = sql.SQL("SELECT {}, sum(passages)::bigint FROM collection").format(fitting)
    ((fit, everything),) = connection.execute(statement).fetchall()
    return fit, everything


K1 = 1.2
B = 0.75
BM25_CANDIDATES = 200
"""Passages whose BM25 is computed exactly."""
RARE_TERM_PASSAGES = 2000
"""Passages with the rarest terms, beside which those with only the more common ones are not looked at."""
CAPPED_FREQUENCY = 5
"""What stands for four times and more."""
MAX_TSVECTOR_POSITION = 16383
MAX_TSVECTOR_BYTES = 900_000
"""Of a passage's terms; a tsvector holds a megabyte."""

_WEIGHTS = [1 / CAPPED_FREQUENCY, 2 / CAPPED_FREQUENCY, 3 / CAPPED_FREQUENCY, 1.0]
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


def fitting_terms(terms: Mapping[str, int]) -> dict[str, int]:
    """Of terms and how often each occurs, those that a tsvector has room for."""
    found: dict[str, int] = {}
    room = MAX_TSVECTOR_BYTES
    for term, often in terms.items():
        room -= len(term.encode()) + 8
        if room < 0:
            break
        found[term] = often
    return found


def tsvector(terms: Mapping[str, int]) -> str:
    return " ".join(
        f"{_quoted(term)}:{min(often, MAX_TSVECTOR_POSITION)}{'DCBA'[min(often, 4) - 1]}"
        for term, often in terms.items()
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
    rare_terms = _rarest(rarest_first)
    found = _best(connection, collection, rarest_first, terms[:rare_terms], within)
    if len(found) < BM25_CANDIDATES and rare_terms < len(terms):
        found = _best(connection, collection, rarest_first, terms, within)
    return found


def _rarest(rarest_first: Mapping[str, int]) -> int:
    """How many of the terms it takes to find enough."""
    found = 0
    for place, passages in enumerate(rarest_first.values(), 1):
        found += passages
        if found >= RARE_TERM_PASSAGES:
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
        unit=CAPPED_FREQUENCY / _RANK_OF_ONE,
        most=BM25_CANDIDATES,
    )
    return [pk for (pk,) in connection.execute(statement).fetchall()]


def bm25(collection: Collection, frequencies: Mapping[str, int], length: int, often: Mapping[str, int]) -> float:
    """Of a passage of so many terms, in which some occur so often."""
    norm = K1 * (1 - B + B * length / collection.average)
    return sum(collection.idf(frequencies[term]) * (K1 + 1) * count / (count + norm) for term, count in often.items())
