"""What search finds by meaning among real passages, against looking at every vector at full precision.

    python3 dev.py bench search_real [--passages N] [--queries N] [--cache DIR] [--only STORE ...]

The passages are gathered here and embedded once (`search_real_data.py`; 100,000 take about half an hour of one core and
are kept in DIR), then put into an index in files and into one in a PostgreSQL of its own, as a server puts them. Asked
for is what was taken out of the passages: headings and first lines of docstrings. Recall at 10 is of the documents with
the best passages by float32; one that is as near as the tenth, to the digits that a score has, is as good.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import options
import tables
from search_real_data import Real, Vectors, embedded, gathered

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the server that the tests start

from carrel.search import ranking
from carrel.search.embedder import EMBEDDING_BATCH_SIZE
from carrel.search.index_store import Query, Store, digest
from carrel.search.local.local_store import LocalStore
from carrel.search.providers.bundled import BundledProvider

COLLECTION = "real"
CUT = 10
DOCUMENT_BATCH_SIZE = 500
"""Documents that are put in at once."""
SAME = 10.0**-ranking.SCORE_DIGITS / ranking.MEANING
"""Cosines that are this near have the same score."""
GOALS = {"files": 0.999, "PostgreSQL": 0.98}


@dataclass(frozen=True, slots=True)
class Outcome:
    store: str
    recall: float
    strict: float
    """Without what is as near as the tenth."""
    whole: float
    """The part of the queries whose ten are all there."""
    milliseconds: float
    put_seconds: float


def fill(store: Store, real: Real, vectors: Vectors, provider: BundledProvider) -> float:
    started = time.perf_counter()
    rows = {digest(text): row for row, text in enumerate(real.texts)}
    for start in range(0, len(real.documents), DOCUMENT_BATCH_SIZE):
        store.put(COLLECTION, real.documents[start : start + DOCUMENT_BATCH_SIZE])
    store.use_model(provider.name, provider.dimensions)
    while batch := store.pending(EMBEDDING_BATCH_SIZE):
        hashes = [each.hash for each in batch]
        store.embed(provider.name, hashes, vectors[[rows[each] for each in hashes]])
    return time.perf_counter() - started


def measure(
    name: str, store: Store, real: Real, vectors: Vectors, asked: Vectors, provider: BundledProvider
) -> Outcome:
    put_seconds = fill(store, real, vectors, provider)
    of_document = np.repeat(np.arange(len(real.documents)), [len(each.passages) for each in real.documents])
    numbers = {each.id: number for number, each in enumerate(real.documents)}
    found = strict = expected = whole = 0
    taken: list[float] = []
    for vector in asked:
        best = np.full(len(real.documents), -1.0, np.float32)
        np.maximum.at(best, of_document, vectors @ vector)
        exact = np.argsort(-best, kind="stable")[:CUT]
        started = time.perf_counter()
        hits = store.search(COLLECTION, Query("", provider.name, vector), filters={}, limit=CUT).hits
        taken.append(1000 * (time.perf_counter() - started))
        given = [numbers[hit.id] for hit in hits]
        good = sum(bool(best[number] >= best[exact[-1]] - SAME) for number in given)
        found, strict, expected = found + good, strict + len({*given} & {*exact.tolist()}), expected + CUT
        whole += good == CUT
    return Outcome(name, found / expected, strict / expected, whole / len(asked), float(np.median(taken)), put_seconds)


@contextmanager
def no_floor() -> Iterator[None]:
    kept = ranking.FLOOR
    ranking.FLOOR = 0.0
    try:
        yield
    finally:
        ranking.FLOOR = kept


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Store]:
    if name == "files":
        with tempfile.TemporaryDirectory(dir=folder) as place:
            store = LocalStore(Path(place))
            yield store
            store.close()
        return
    from tests.postgres import PostgresServer

    from carrel.search.postgres.postgres_store import PostgresStore

    server = PostgresServer()
    try:
        store = PostgresStore(server.url())
        yield store
        store.close()
    finally:
        server.close()


HEAD = ("", "goal", "recall at 10", "ties strictly", "queries with all ten", "ms a query, p50", "s to put in")


def main() -> int:
    parser = options.parser(__doc__)
    parser.add_argument("--passages", type=int, default=100_000, help="default %(default)s")
    parser.add_argument("--queries", type=int, default=500, help="default %(default)s")
    parser.add_argument("--only", choices=list(GOALS), nargs="+", default=list(GOALS))
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep passages and vectors here")
    parser.add_argument("--texts", type=int, metavar="N", help="gather so many of each kind; default all")
    given = options.parse(parser, passages=60, queries=5, texts=30)
    provider = BundledProvider()
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="carrel-real-") as name, no_floor():
        folder = given.cache or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        real = gathered(folder, given.passages, given.queries, given.texts)
        vectors, asked = embedded(folder, real.texts, provider), provider.embed(real.queries)
        for kind in given.only:
            with opened(kind, folder) as store:
                found.append(measure(kind, store, real, vectors, asked, provider))
    about = f"- {len(vectors)} passages of {len(real.documents)} documents, {len(asked)} queries"
    print("\n".join([*tables.table(HEAD, map(_row, found)), "", about]))
    options.write_json(given.json, [asdict(each) for each in found])
    return 0 if all(each.recall >= GOALS[each.store] for each in found) else 1


def _row(each: Outcome) -> tuple[str, ...]:
    goal = GOALS[each.store]
    recall = f"{each.recall:.4f}" if each.recall >= goal else f"{each.recall:.4f} **missed**"
    figures = (f"{each.strict:.4f}", f"{each.whole:.3f}", f"{each.milliseconds:.1f}", f"{each.put_seconds:.0f}")
    return each.store, f"≥ {goal}", recall, *figures


if __name__ == "__main__":
    sys.exit(main())
