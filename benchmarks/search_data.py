"""Indexes of any size for the search benchmarks: real words, put together anew, and vectors that are drawn."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from retrieval_sets import SEED, functions, sections

from carrel.search.documents import Document, Passage, split
from carrel.search.local import index_tables
from carrel.search.local.local_store import FILE, LocalStore
from carrel.search.local.vectors import pack
from carrel.search.providers.provider import Provider

COLLECTION = "bench"
DONE = "done"
PASSAGES_PER_DOCUMENT = 4
DOCUMENT_BATCH_SIZE = 1000
VECTOR_BATCH_SIZE = 20_000
SHORT = 200
"""Characters of a passage that are embedded where little is to be done."""


@dataclass(frozen=True, slots=True)
class Material:
    passages: list[str]
    """Real ones: functions and sections of documentation."""
    queries: list[str]
    """Lines of docstrings, in any order."""


def material(limit: int | None = None) -> Material:
    """From all functions and sections, or from the beginnings of the first so many that are found."""
    found = [*islice(functions(), limit), *islice(sections(), limit)]
    passages = sorted({piece[: SHORT if limit else None] for each in found for piece in split(each.text)})
    queries = sorted({each.asked for each in found if each.asked})
    rng = random.Random(SEED)
    rng.shuffle(passages)
    rng.shuffle(queries)
    return Material(passages, queries)


def documents(base: list[str], passages: int) -> Iterator[Document]:
    """Each passage is the beginning of one real passage and the end of another, so that no two are the same."""
    count = len(base)
    for start in range(0, passages, PASSAGES_PER_DOCUMENT):
        numbers = range(start, min(passages, start + PASSAGES_PER_DOCUMENT))
        yield Document(
            id=f"document-{start}",
            title=f"Number {start}",
            passages=[Passage(_mixed(base[n % count], base[(n * 7919 + n // count) % count])) for n in numbers],
            version="1",
        )


def _mixed(first: str, second: str) -> str:
    return first[: len(first) // 2] + second[len(second) // 2 :]


@dataclass(frozen=True, slots=True)
class Built:
    passages: int
    seconds: float
    """For the tables and the text index; 0 where they were there already."""
    cpu_seconds: float


def build(folder: Path, base: list[str], passages: int, provider: Provider) -> Built:
    """An index with a vector for every passage, made unless it is there."""
    if (folder / DONE).exists():
        return Built(passages, 0.0, 0.0)
    store = LocalStore(folder)
    try:
        started, cpu, batch = time.perf_counter(), time.process_time(), list[Document]()
        for each in documents(base, passages):
            batch.append(each)
            if len(batch) == DOCUMENT_BATCH_SIZE:
                store.put(COLLECTION, batch)
                batch.clear()
        store.put(COLLECTION, batch)
        built = Built(passages, time.perf_counter() - started, time.process_time() - cpu)
        store.use_model(provider.name, provider.dimensions)
    finally:
        store.close()
    with closing(index_tables.connect(folder / FILE)) as connection:
        _draw_vectors(connection, provider.dimensions)
    (folder / DONE).touch()
    return built


def _draw_vectors(connection: sqlite3.Connection, dimensions: int) -> None:
    """As `LocalStore.embed` would leave them, without a model, and many at once."""
    rng = np.random.default_rng(SEED)
    cursor = connection.execute("SELECT pk, hash FROM passage WHERE pk IN (SELECT passage_pk FROM pending)")
    passages = cursor.fetchall()
    connection.execute("BEGIN IMMEDIATE")
    for start in range(0, len(passages), VECTOR_BATCH_SIZE):
        part = passages[start : start + VECTOR_BATCH_SIZE]
        rows = zip(part, pack(drawn(rng, len(part), dimensions)), strict=True)
        connection.executemany(
            "INSERT INTO vector (pk, hash, data) VALUES (?, ?, ?)", ((pk, hashed, data) for (pk, hashed), data in rows)
        )
    connection.execute("INSERT INTO embedding (passage_pk, vector_pk) SELECT passage_pk, passage_pk FROM pending")
    connection.execute("DELETE FROM pending")
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def drawn(rng: np.random.Generator, rows: int, dimensions: int) -> npt.NDArray[np.float32]:
    """Vectors of unit length."""
    matrix = rng.standard_normal((rows, dimensions), np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def coded(rng: np.random.Generator, rows: int, dimensions: int) -> npt.NDArray[np.int8]:
    """As many bytes as the vectors of so many passages are in memory."""
    return rng.integers(-127, 128, (rows, dimensions), np.int8)
