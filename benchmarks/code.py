"""What the code tools cost: beside `rg` itself, beside a call without work, and against the contract's targets.

    python3 dev.py bench code [--sizes N ...] [--rounds N] [--only PART ...] [--cache DIR] [--json FILE]

Parts: calls, indexing, meaning. Trees are made of the packages that are installed here; with --cache they are kept for
the next run. What is compared takes turns in one run. A call without work is one that the same server refuses for its
arguments. Meaning is measured at the smallest size alone: it takes minutes, as the model does. Linux only.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import options
import tables
from code_data import NEEDLE, QUERIES, make_tree, passages, python_files
from messages import LEGACY, Call
from process import Program
from stdio_client import StdioClient

from carrel.code.grep.ripgrep import find_program
from carrel.search.embedder import EMBEDDING_BATCH_SIZE
from carrel.search.providers.bundled import BundledProvider

SIZES = (500, 20_000)
ROUNDS = 30
PATTERNS = {"rare": NEEDLE, "common": "import", "every line": "^"}
NO_WORK = Call("grep_codebase", {})
SETTINGS = """
[code]
root = {root}

[code.limits]
context_search = 0
read_file = 0
grep_codebase = 0

[embeddings]
provider = "{provider}"
"""
TARGETS = {"context_search": 2.0, "read_file": 0.1, "read_file with dependencies": 0.5, "grep_codebase": 1.0}
"""Seconds, from the contract."""
EMBEDDED_SECONDS = 1800
BARE_PASSAGES = 512

Taken = dict[str, list[float]]
"""Seconds of each call, by what was called."""


@dataclass(slots=True)
class Measured:
    lines: list[str] = field(default_factory=list[str])
    raw: dict[str, Any] = field(default_factory=dict[str, Any])


# --- servers


def workspace(folder: Path, root: Path, provider: str) -> Path:
    """A desk beside the tree, so that nothing of ours is in what is searched."""
    folder.mkdir(parents=True)
    text = SETTINGS.format(root=json.dumps(str(root)), provider=provider)
    (folder / "carrel.toml").write_text(text, encoding="utf-8")
    return folder


def carrel(*words: str) -> list[str]:
    return [sys.executable, "-m", "carrel", *words]


class Indexed(NamedTuple):
    counts: dict[str, int]
    """What is in the index."""
    seconds: float
    processor: float
    """Seconds of processor time, which a busy machine changes little."""


def index(folder: Path) -> Indexed:
    """Bring its index up to date."""
    started, before = time.perf_counter(), _processor_of_children()
    done = subprocess.run(
        carrel("index", "--json"), cwd=folder, check=True, capture_output=True, text=True, timeout=EMBEDDED_SECONDS
    )
    seconds, processor = time.perf_counter() - started, _processor_of_children() - before
    return Indexed(json.loads(done.stdout)["collections"]["code"], seconds, processor)


def _processor_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Server:
    def __init__(self, folder: Path) -> None:
        self.program = Program(carrel("serve", "--toolsets", "code"), folder, piped=True)
        self._client = StdioClient(self.program)
        self._client.shake_hands()

    def call(self, call: Call, *, is_refused: bool = False) -> None:
        answer = self._client.call(call, LEGACY)
        if is_refused != (b'"isError":true' in answer):
            raise RuntimeError(f"not what was expected of {call}: {answer[:500]!r}")

    def no_work(self) -> None:
        self.call(NO_WORK, is_refused=True)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# --- calls


def rg(root: Path, pattern: str) -> Callable[[], None]:
    """One `rg` that prints every match with its context, read to the end."""
    program = find_program()
    assert program is not None, "ripgrep is not installed"
    options = ("--hidden", "--no-require-git", "--no-config", "--line-number", "--column", "--context=2")
    command = [program, *options, "--ignore-case", f"--regexp={pattern}", "./"]

    def run() -> None:
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            while process.stdout.read(1 << 20):
                pass

    return run


def measure_calls(root: Path, folder: Path, rounds: int, provider: str) -> Taken:
    paths = python_files(root, rounds)
    taken: Taken = {}

    def note(name: str, work: Callable[[], object]) -> None:
        taken.setdefault(name, []).append(timed(work))

    server = Server(folder)
    with server.program:
        for path in paths[:3]:  # what is loaded once
            server.call(Call("read_file", {"path": path, "includeDeps": True}))
        server.call(Call("context_search", {"query": QUERIES[0]}))
        server.call(Call("context_search", {"query": QUERIES[0]}))
        for number, path in enumerate(paths):
            note("no work", server.no_work)
            query = Call("context_search", {"query": QUERIES[number % len(QUERIES)]})
            note(f"context_search, {provider}", lambda call=query: server.call(call))
            if provider != "none":
                continue
            note("read_file", lambda each=path: server.call(Call("read_file", {"path": each})))
            deep = Call("read_file", {"path": path, "includeDeps": True})
            note("read_file with dependencies", lambda call=deep: server.call(call))
            for name, pattern in PATTERNS.items():
                found = Call("grep_codebase", {"pattern": pattern})
                note(f"grep_codebase, {name}", lambda call=found: server.call(call))
                if name != "every line" or number < 3:  # which prints all that there is
                    note(f"rg, {name}", rg(root, pattern))
    return taken


def rows(size: int, taken: Taken) -> Iterator[tuple[str, ...]]:
    nothing = statistics.median(taken["no work"])
    for name, seconds in taken.items():
        p50, p95 = statistics.median(seconds), _p95(seconds)
        tool, _, kind = name.partition(", ")
        ratio = "" if name == "no work" else f"{p50 / nothing:.1f}"
        if tool == "grep_codebase":
            ratio = f"{p50 / (statistics.median(taken[f'rg, {kind}']) + nothing):.2f} of rg and no work"
        target = TARGETS.get(tool)
        factor = f"{target / p95:.1f} times better" if target and target >= p95 else "missed" if target else ""
        goal = f"{1000 * target:.0f}" if target else ""
        yield f"{size:,}", name, f"{1000 * p50:.2f}", f"{1000 * p95:.2f}", ratio, goal, factor


# --- indexing


def measure_indexing(
    root: Path, folder: Path, size: int, *, with_meaning: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    words, seconds, _ = index(workspace(folder / "words", root, "none"))
    rates = f"{size / seconds:,.0f} files and {words['passages'] / seconds:,.0f} passages a second"
    yield f"- indexing the words of {size:,} files: {rates}", {"words": {**words, "seconds": seconds}}
    again = timed(lambda: index(folder / "words"))
    yield (
        f"- looking through {size:,} files, none changed: {1000 * again:.0f} ms with the start of a process",
        {},
    )
    if not with_meaning:
        return
    found, seconds, processor = index(workspace(folder / "meaning", root, "bundled"))
    texts = passages(root, min(BARE_PASSAGES, 8 * size))
    provider = BundledProvider()
    provider.embed(texts[:1])
    used = time.process_time()
    bare = timed(
        lambda: [
            provider.embed(texts[start : start + EMBEDDING_BATCH_SIZE])
            for start in range(0, len(texts), EMBEDDING_BATCH_SIZE)
        ]
    )
    used = time.process_time() - used
    provider.close()
    rate, limit = found["embedded"] / seconds, len(texts) / bare
    share = found["embedded"] / processor / (len(texts) / used)
    yield (
        f"- indexing {size:,} files with meaning: {size / seconds:.1f} files and {rate:.0f} passages a second, "
        f"the bare model {limit:.0f}: {rate / limit:.2f} of it, {share:.2f} by processor time",
        {"meaning": {**found, "seconds": seconds, "processor": processor, "bare": limit, "bare processor": used}},
    )


# --- the run


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


PARTS = ("calls", "indexing", "meaning")


def measure(sizes: list[int], rounds: int, parts: list[str], cache: Path, folder: Path) -> Measured:
    measured, found = Measured(), list[tuple[str, ...]]()
    for size in sizes:
        options.say(f"a tree of {size:,} files")
        root, own = make_tree(cache / f"code-{size}", size), folder / str(size)
        with_meaning = "meaning" in parts and size == min(sizes)
        if "indexing" in parts:
            for line, raw in measure_indexing(root, own, size, with_meaning=with_meaning):
                measured.lines.append(line)
                measured.raw.setdefault(f"indexing {size}", {}).update(raw)
        for provider, name in (("none", "words"), ("bundled", "meaning")):
            if "calls" in parts and (provider == "none" or with_meaning):
                if not (own / name).exists():
                    index(workspace(own / name, root, provider))
                taken = measure_calls(root, own / name, rounds, provider)
                measured.raw[f"calls {size} {provider}"] = taken
                found += rows(size, taken)
    head = ("files", "call", "p50 ms", "p95 ms", "against no work", "target ms", "p95 against it")
    measured.lines[:0] = [*tables.table(head, found), ""] if found else []
    return measured


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="files; default %(default)s")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="calls of each kind; default %(default)s")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep the trees here")
    given = options.parse(parser, sizes=[3], rounds=2)
    with tempfile.TemporaryDirectory(prefix="carrel-code-") as name:
        folder = Path(name)
        measured = measure(given.sizes, given.rounds, given.only, given.cache or folder, folder / "desks")
    print("\n".join(measured.lines))
    options.write_json(given.json, measured.raw)


if __name__ == "__main__":
    main()
