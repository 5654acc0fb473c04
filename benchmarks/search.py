"""What search costs: a query beside its bare parts, indexing beside the bare model, memory, and other tools meanwhile.

    python3 dev.py bench search [--sizes N ...] [--queries N] [--only PART ...] [--cache DIR] [--json FILE]

Parts: query, indexing, memory, others. What is compared takes turns in one run. Indexes are of real words with drawn
vectors; with --cache they are kept for the next run. One with a million passages takes 2 GB and about 10 minutes to
build. Linux only. Set OMP_NUM_THREADS=1 for one thread of numpy, on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import options
import tables
from search_data import COLLECTION, Built, Material, build, coded, material
from search_text_engines import size_of

from carrel import in_process
from carrel.search.analysis import query_terms
from carrel.search.documents import Document, Passage
from carrel.search.embedder import EMBEDDING_BATCH_SIZE, NICENESS, Embedder
from carrel.search.engine import SearchEngine
from carrel.search.local.local_store import LocalStore
from carrel.search.local.text_index import TextIndex
from carrel.search.local.vectors import BLOCK_ROWS
from carrel.search.providers.bundled import BundledProvider
from carrel.search.providers.provider import Provider
from carrel.search.ranking import candidates_for

HERE = Path(__file__).resolve().parent
SIZES = (10_000, 100_000, 1_000_000)
MEMORY_AT = 100_000
MEMORY_QUERIES = 100
INDEXED = 256
ROUNDS = 5
WATCHED_SECONDS = 3.0
PAUSE_SECONDS = 0.002
CANDIDATES = candidates_for(10)


@dataclass(frozen=True, slots=True)
class Goal:
    text: str
    limit: str
    value: float
    met: bool
    note: str = ""

    @property
    def row(self) -> tuple[str, str, str]:
        value = f"{self.value:.2f}" if self.met else f"{self.value:.2f} **missed**"
        return self.text, self.limit, f"{value}{self.note}"


@dataclass(slots=True)
class Measured:
    goals: list[Goal] = field(default_factory=list[Goal])
    lines: list[str] = field(default_factory=list[str])
    raw: dict[str, Any] = field(default_factory=dict[str, Any])


# --- a query


class Bare:
    """The parts of a query by themselves, as simple as can be."""

    def __init__(self, rows: int, folder: Path, provider: Provider) -> None:
        rng = np.random.default_rng(1)
        self._codes = coded(rng, rows, provider.dimensions)
        self._scales = rng.random(rows, np.float32)
        (words,) = (folder / "words").iterdir()  # of the one collection
        self._text = TextIndex(words)
        self._text.refresh()
        self._provider = provider

    def model(self, query: str) -> npt.NDArray[np.float32]:
        return self._provider.embed([query])[0]

    def scan(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
        rows = len(self._codes)
        scores = np.empty(rows, np.float32)
        block = np.empty((BLOCK_ROWS, self._codes.shape[1]), np.float32)
        for start in range(0, rows, BLOCK_ROWS):
            stop = min(rows, start + BLOCK_ROWS)
            np.copyto(block[: stop - start], self._codes[start:stop])
            np.dot(block[: stop - start], query, out=scores[start:stop])
        scores *= self._scales
        return np.argpartition(scores, rows - CANDIDATES)[-CANDIDATES:]

    def words(self, terms: list[str]) -> object:
        return self._text.search(terms, CANDIDATES, {})


WHOLE, PARTS = "whole", ("model", "scan", "words")
Taken = dict[str, list[tuple[float, float]]]
"""Milliseconds of the clock, and of the processor on all threads: the first swing with what else a machine does."""


async def queries(folder: Path, size: int, asked: list[str], provider: Provider) -> Taken:
    """What each query takes, whole and in its parts, which take turns."""
    engine = SearchEngine(lambda: LocalStore(folder), provider)
    bare = Bare(size, folder, provider)
    taken: Taken = {name: [] for name in (WHOLE, *PARTS)}
    for query in [asked[0], *asked]:
        terms, vector = query_terms(query), bare.model(query)
        with _timed(taken[WHOLE]):
            await engine.search(COLLECTION, query)
        with _timed(taken["model"]):
            bare.model(query)
        with _timed(taken["scan"]):
            bare.scan(vector)
        with _timed(taken["words"]):
            bare.words(terms)
    await engine.close()
    return {name: values[1:] for name, values in taken.items()}  # the first loads what is there


@contextmanager
def _timed(taken: list[tuple[float, float]]) -> Iterator[None]:
    clock, processor = time.perf_counter(), time.process_time()
    yield
    taken.append((1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - processor)))


def measure_query(made: Material, folder: Path, sizes: list[int], count: int, measured: Measured) -> None:
    rows: list[tuple[str, ...]] = []
    for size in sizes:
        options.say(f"an index of {size:,} passages")
        home, provider = folder / f"index-{size}", BundledProvider()
        measured.lines += _putting(build(home, made.passages, size, provider), home)
        taken = asyncio.run(queries(home, size, made.queries[:count], provider))
        measured.raw[f"query {size}"] = taken
        clock, processor = ({name: _column(values, column) for name, values in taken.items()} for column in (0, 1))
        ratio, of_processor = _against_parts(clock), _against_parts(processor)
        note = f" ({of_processor:.2f} of processor time)"
        text = f"query of {size:,} passages against its bare parts, p50"
        measured.goals.append(Goal(text, "≤ 1.5", ratio, ratio <= 1.5, note))
        cells = [f"{statistics.median(clock[name]):.2f} ({statistics.median(processor[name]):.2f})" for name in taken]
        rows.append((f"{size:,}", *cells, f"{_p95(clock[WHOLE]):.2f}"))
    head = ("passages", "query, p50 ms (processor)", "bare model", "bare scan", "bare text", "query, p95 ms")
    measured.lines += ["", *tables.table(head, rows), ""]


def _putting(built: Built, folder: Path) -> Iterator[str]:
    if built.seconds:
        yield (
            f"- put, {built.passages:,} passages: {built.passages / built.seconds:,.0f} a second "
            f"({built.passages / built.cpu_seconds:,.0f} a second of processor time); "
            f"text index {size_of(folder / 'words') / 1e6:.1f} MB, all with vectors {size_of(folder) / 1e6:.0f} MB"
        )


def _column(values: list[tuple[float, float]], column: int) -> list[float]:
    return [value[column] for value in values]


def _against_parts(taken: dict[str, list[float]]) -> float:
    parts = [sum(each) for each in zip(*(taken[name] for name in PARTS), strict=True)]
    return statistics.median(taken[WHOLE]) / statistics.median(parts)


# --- indexing


def measure_indexing(made: Material, folder: Path, rounds: int, indexed: int, measured: Measured) -> None:
    """With so many passages in each round."""
    provider = BundledProvider()
    provider.embed(["a first call loads the model"])
    taken: dict[str, list[tuple[float, float]]] = {"bare": [], "embedder": []}
    for number in range(rounds):
        texts = made.passages[number * indexed : (number + 1) * indexed]
        with _timed(taken["bare"]):
            thread = threading.Thread(target=_embed, args=(provider, texts))
            thread.start()
            thread.join()
        with tempfile.TemporaryDirectory(dir=folder) as name:
            store = LocalStore(Path(name))
            store.put(COLLECTION, _documents(texts))
            embedder = Embedder(store, provider)
            with _timed(taken["embedder"]):
                embedder.start()
                embedder.wait()
            embedder.stop()
            assert store.progress()[COLLECTION].pending == 0
            store.close()
    provider.close()
    clock, processor = (
        [bare[column] / ours[column] for bare, ours in zip(taken["bare"], taken["embedder"], strict=True)]
        for column in (0, 1)
    )
    ratio = statistics.median(clock)
    note = f" ({min(clock):.2f}-{max(clock):.2f}; {statistics.median(processor):.2f} of processor time)"
    measured.goals.append(Goal("indexing rate against the bare model", "≥ 0.85", ratio, ratio >= 0.85, note))
    rates = {name: 1000 * indexed / statistics.median(_column(values, 0)) for name, values in taken.items()}
    measured.lines.append(f"- indexing: {rates['embedder']:.0f} passages a second, the bare model {rates['bare']:.0f}")
    measured.raw["indexing"] = taken


def _embed(provider: Provider, texts: list[str]) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)  # as the embedder has it
    for start in range(0, len(texts), EMBEDDING_BATCH_SIZE):
        provider.embed(texts[start : start + EMBEDDING_BATCH_SIZE])


def _documents(texts: list[str]) -> list[Document]:
    return [Document(f"document-{number}", "", [Passage(text)], "1") for number, text in enumerate(texts)]


# --- memory, and the first answer


def measure_memory(made: Material, folder: Path, size: int, queries: int, measured: Measured) -> None:
    home = folder / f"index-{size}"
    build(home, made.passages, size, BundledProvider())
    asked = folder / "queries.json"
    asked.write_text(json.dumps(made.queries[:queries]), encoding="utf-8")
    command = [sys.executable, str(HERE / "search_process.py"), str(home), str(asked)]
    answered = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(answered.stdout)
    peak, now = figures["after all"]["VmHWM"], figures["after all"]["VmRSS"]
    text = f"memory of a process that serves {size:,} passages, at most, MB"
    measured.goals.append(Goal(text, "< 350", peak, peak < 350, f" ({now:.0f} after {queries} queries)"))
    first, second, *rest = figures["milliseconds"]
    measured.lines.append(
        f"- first answer of a new process at {size:,} passages: {first:.0f} ms with the model's and the vectors' "
        f"loading; the second {second:.1f}, the median of the others {statistics.median(rest):.1f}"
    )
    measured.raw["memory"] = figures


# --- other tools


async def _calls(seconds: float, call: Callable[[], Any]) -> list[float]:
    taken: list[float] = []
    deadline = time.perf_counter() + seconds
    while (started := time.perf_counter()) < deadline:
        await call()
        taken.append(1000 * (time.perf_counter() - started))
        await asyncio.sleep(PAUSE_SECONDS)
    return taken


async def others(texts: list[str], folder: Path, rounds: int, seconds: float) -> dict[str, list[list[float]]]:
    """Milliseconds of `list_tasks`, by round, while nothing else runs, and while passages are embedded."""
    taken: dict[str, list[list[float]]] = {"idle": [], "indexing": []}
    settings = {"database": {"url": f"sqlite:///{folder / 'tasks.db'}"}}
    engine = SearchEngine(lambda: LocalStore(folder / "search"), BundledProvider())
    await engine.put(COLLECTION, _documents(texts))
    async with in_process(user_id="ana", settings=settings) as desk:
        for number in range(20):
            await desk.call_tool("add_task", {"title": f"Task {number}"})

        async def call() -> None:
            answer = await desk.call_tool("list_tasks", {})
            assert not answer.is_error

        await _calls(0.5, call)
        taken["idle"].append(await _calls(seconds, call))
        embedder = await engine.embed_in_background()
        assert embedder is not None
        for number in range(rounds):
            if number:
                taken["idle"].append(await _calls(seconds, call))
            embedder.resume()
            await asyncio.sleep(0.5)
            before, busy = (await engine.progress())[COLLECTION].embedded, await _calls(seconds, call)
            while (await engine.progress())[COLLECTION].embedded == before:  # a batch takes long on a slow machine
                busy += await _calls(seconds, call)
            taken["indexing"].append(busy)
            assert not embedder.wait(0), "there was too little to embed"
            embedder.pause()
            await asyncio.sleep(2.0)  # the batch at hand is embedded to its end
    await engine.close()
    return taken


def measure_others(made: Material, folder: Path, rounds: int, seconds: float, measured: Measured) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        taken = asyncio.run(others(made.passages[:4000], Path(name), rounds, seconds))
    for label, point in (("p50", statistics.median), ("p95", _p95)):
        ratios = [point(busy) / point(idle) for busy, idle in zip(taken["indexing"], taken["idle"], strict=True)]
        ratio, spread = statistics.median(ratios), f" ({min(ratios):.2f}-{max(ratios):.2f})"
        text = f"another tool's call while indexing, against idle, {label}"
        measured.goals.append(Goal(text, "< 3", ratio, ratio < 3, spread))
    measured.raw["others"] = taken


# --- the run


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def report(measured: Measured) -> Iterator[str]:
    yield from tables.table(("", "goal", "measured"), [goal.row for goal in measured.goals])
    yield from ("", *measured.lines)


MEASUREMENTS = ("query", "indexing", "memory", "others")


def measure(given: argparse.Namespace) -> Measured:
    measured, made = Measured(), material(given.texts)
    with tempfile.TemporaryDirectory(prefix="carrel-search-") as name:
        folder = given.cache or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if "query" in given.only:
            measure_query(made, folder, given.sizes, given.queries, measured)
        if "indexing" in given.only:
            measure_indexing(made, folder, given.rounds, given.indexed, measured)
        if "memory" in given.only:
            measure_memory(made, folder, given.memory_at, min(MEMORY_QUERIES, given.queries), measured)
        if "others" in given.only:
            measure_others(made, folder, given.rounds, given.watched, measured)
    return measured


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="passages; default %(default)s")
    parser.add_argument("--queries", type=int, default=200, help="at each size; default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of indexing; default %(default)s")
    parser.add_argument("--indexed", type=int, default=INDEXED, help="passages in such a round; default %(default)s")
    parser.add_argument("--watched", type=float, default=WATCHED_SECONDS, help="seconds to watch; default %(default)s")
    parser.add_argument("--memory-at", type=int, default=MEMORY_AT, help="passages; default %(default)s")
    parser.add_argument("--texts", type=int, metavar="N", help="made from so many real ones; default all")
    parser.add_argument("--only", choices=MEASUREMENTS, nargs="+", default=list(MEASUREMENTS))
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep the indexes here")
    smoke = {"sizes": [200], "queries": 4, "rounds": 1, "indexed": 8, "watched": 0.2, "memory_at": 200, "texts": 400}
    given = options.parse(parser, **smoke)
    measured = measure(given)
    print("\n".join(report(measured)))
    options.write_json(given.json, measured.raw)


if __name__ == "__main__":
    main()
