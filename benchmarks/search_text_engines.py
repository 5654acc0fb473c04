"""FTS5 and tantivy on the same passages: speed, size and how long it takes to build, in one run.

    python3 dev.py bench search_text_engines [--passages N] [--queries N] [--json FILE]

Both get the same terms, made once by `carrel.search.analysis`, and are asked in turn, query by query, for the best 100.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import options
import tables
from search_data import documents, material

from carrel.search.analysis import query_terms, terms
from carrel.search.local.text_index import Changes, Checkpoint, Entry, TextIndex

BEST = 100
Search = Callable[[list[str]], object]


def build_fts5(connection: sqlite3.Connection, texts: list[list[str]]) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    # The terms are made already; the text is kept elsewhere, as it is beside tantivy.
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (terms, content='', tokenize='unicode61')")
    with connection:
        connection.executemany(
            "INSERT INTO words (rowid, terms) VALUES (?, ?)",
            ((number, " ".join(each)) for number, each in enumerate(texts, 1)),
        )
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    connection.commit()


def fts5(connection: sqlite3.Connection, words: list[str]) -> list[tuple[int, float]]:
    wanted = " OR ".join(f'"{word}"' for word in words)
    statement = "SELECT rowid, bm25(words) FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    return connection.execute(statement, (wanted, BEST)).fetchall()


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(texts: list[list[str]], queries: list[list[str]], folder: Path) -> dict[str, dict[str, float]]:
    for name in ("fts5", "tantivy"):
        (folder / name).mkdir()
    with closing(sqlite3.connect(folder / "fts5" / "words.db")) as connection:
        index = TextIndex(folder / "tantivy")
        entries = (Entry(number, each, {}) for number, each in enumerate(texts, 1))
        built = {
            "fts5": _seconds(lambda: build_fts5(connection, texts)),
            "tantivy": _seconds(
                lambda: index.apply_changes(
                    lambda _: Changes(entries, (), Checkpoint(len(texts)), is_rebuild=False), seconds=60
                )
            ),
        }
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        searches: dict[str, Search] = {
            "fts5": lambda words: fts5(connection, words),
            "tantivy": lambda words: index.search(words, BEST, {}),
        }
        taken: dict[str, list[float]] = {name: [] for name in searches}
        for words in queries:
            for name, search in searches.items():
                taken[name].append(1000 * _seconds(lambda search=search, words=words: search(words)))
    return {
        name: {
            "build s": built[name],
            "MB": size_of(folder / name) / 1e6,
            "p50 ms": statistics.median(taken[name]),
            "p95 ms": statistics.quantiles(taken[name], n=20)[-1],
        }
        for name in searches
    }


def _seconds(job: Callable[[], Any]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--passages", type=int, default=100_000, help="default %(default)s")
    parser.add_argument("--queries", type=int, default=300, help="default %(default)s")
    parser.add_argument("--texts", type=int, metavar="N", help="made from so many real ones; default all")
    given = options.parse(parser, passages=100, queries=5, texts=30)
    made = material(given.texts)
    texts = [terms(passage.text) for each in documents(made.passages, given.passages) for passage in each.passages]
    queries = [query_terms(each) for each in made.queries[: given.queries]]
    with tempfile.TemporaryDirectory(prefix="carrel-text-") as name:
        found = measure(texts, queries, Path(name))
    columns = list(found["fts5"])
    rows = [(engine, *(f"{figures[column]:.2f}" for column in columns)) for engine, figures in found.items()]
    ratios = [found["tantivy"][column] / found["fts5"][column] for column in columns]
    rows.append(("tantivy / FTS5", *(f"{ratio:.2f}" for ratio in ratios)))
    length = statistics.median(map(len, queries))
    about = f"- {len(texts):,} passages, {len(queries)} queries of {length:.0f} terms"
    print("\n".join([*tables.table(("", *columns), rows), "", about]))
    options.write_json(given.json, found)


if __name__ == "__main__":
    main()
