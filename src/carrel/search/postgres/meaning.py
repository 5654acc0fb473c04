"""Passages by their meaning: vectors at half precision, found through HNSW or by looking at each."""

from typing import TYPE_CHECKING

from psycopg import sql

from carrel.search.postgres.connecting import Connection

if TYPE_CHECKING:
    from carrel.search.postgres.words import Collection
    from carrel.search.providers.protocol import Matrix
    from carrel.search.store import Filters

NEAREST = 50
"""Passages that are looked at exactly, of those nearest in meaning."""
MOST_INDEXED = 4000
"""Dimensions that HNSW takes, and a row holds, at half precision."""
FEW = 3000
"""Passages that are always looked at one by one."""
MANY = 20_000
"""More are never: the index is asked. Between the two it depends on which part of everything they are."""
SHARE = 5
"""Where fewer than one in so many fit the filters, HNSW is hardly faster, and misses some."""
EF_SEARCH = (500, 1000)
"""What HNSW keeps in sight: more where fewer fit. A thousand is the most it takes."""

_AMONG_FEW = sql.SQL("""
WITH near AS MATERIALIZED (
    SELECT pk, data <#> {query}::halfvec AS distance FROM passage JOIN embedding USING (hash) WHERE {within}
) SELECT pk FROM near ORDER BY distance, pk LIMIT {most}
""")
AMONG_MANY = sql.SQL("""
SELECT pk FROM embedding JOIN passage USING (hash) WHERE {within} ORDER BY data <#> {query}::halfvec LIMIT {most}
""")
# The one plan that goes along the index until enough of what it comes to fits the filters.
ALONG_INDEX = sql.SQL("""
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
    if dimensions <= MOST_INDEXED:
        connection.execute("ALTER TABLE embedding ALTER COLUMN data SET STORAGE PLAIN")  # in the row, not beside it
        # Of unit length, so the inner product is the cosine.
        connection.execute("CREATE INDEX embedding_by_data ON embedding USING hnsw (data halfvec_ip_ops)")


def literal(vector: "Matrix") -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def nearest(
    connection: Connection, collection: "Collection", filters: "Filters", within: sql.Composed, vector: "Matrix"
) -> list[int]:
    """About the nearest passages; those that the filters let through are all that is looked at."""
    values = {"query": literal(vector), "within": within, "most": NEAREST}
    fitting, everything = _counts(connection, collection, filters, within)
    are_many = fitting > MANY or (fitting > FEW and fitting * SHARE > everything)
    if are_many and len(vector) <= MOST_INDEXED:
        least, most = EF_SEARCH
        with connection.transaction(force_rollback=True):  # which undoes the settings
            connection.execute(ALONG_INDEX.format(ef=min(most, max(least, least // 2 * everything // fitting))))
            found = connection.execute(AMONG_MANY.format(**values)).fetchall()
        if len(found) == NEAREST:
            return [pk for (pk,) in found]
        # pgvector gave up before it had come to enough that fit.
    return [pk for (pk,) in connection.execute(_AMONG_FEW.format(**values)).fetchall()]


def _counts(
    connection: Connection, collection: "Collection", filters: "Filters", within: sql.Composed
) -> tuple[int, int]:
    """How many passages fit, as far as it matters, and how many there are."""
    if collection.passages <= FEW:
        return collection.passages, collection.passages
    fitting = sql.Literal(collection.passages)
    if filters:
        fitting = sql.SQL("(SELECT count(*) FROM (SELECT FROM passage WHERE {} LIMIT {}))").format(within, MANY + 1)
    statement = sql.SQL("SELECT {}, sum(passages)::bigint FROM collection").format(fitting)
    ((fit, everything),) = connection.execute(statement).fetchall()
    return fit, everything
