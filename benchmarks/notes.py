"""Notes: how the time of each tool, of starting and of indexing grows with the vault.

    python3 dev.py bench notes [--cache DIR] [--sizes N ...] [--calls N] [--idle SECONDS] [--json FILE]

Every figure is a ratio taken in one run: to a call of the same server that finds nothing to do, to a bare program that
reads the same files, to the start of a server with an empty vault.
"""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import messages
import options
import tables
from messages import LEGACY, Call
from notes_data import TAGS, make_vault, note_id
from process import Program
from stdio_client import StdioClient
from tables import Goal

HERE = Path(__file__).parent
SIZES = (1_000, 10_000, 100_000)
CALLS = 400
WRITES = 60
EDITS = 20
STARTS = 5
IDLE_SECONDS, IDLE_SECONDS = 10.0, 60.0
SETTINGS = """
[code]
root = ""
[embeddings]
provider = "none"
"""
NOTHING = Call("search_by_tags", {"tags": ["no-such-tag"]})
READ_GOAL, WRITE_GOAL, GROWTH_GOAL = 3.0, 20.0, 1.3
INDEX_GOAL, START_GOAL, MEMORY_GOAL_MB, IDLE_GOAL_PERCENT = 3.0, 3.0, 600.0, 0.01


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds."""

    p50: float
    p95: float

    @classmethod
    def of(cls, seconds: list[float]) -> Timed:
        taken = sorted(seconds)
        return cls(1000 * statistics.median(taken), 1000 * taken[int(0.95 * (len(taken) - 1))])


@dataclass(frozen=True, slots=True)
class Measured:
    notes: int
    bare_seconds: float
    index_seconds: float
    empty_start_seconds: float
    warm_start_seconds: float
    memory_mb: float
    nothing: Timed
    tools: dict[str, Timed]
    edit: Timed
    """From the moment that another program has written a note until a tool shows it."""
    idle_percent: float
    """Of a core, while nobody asks and nothing changes."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A workspace with a vault of some size, and one with an empty one."""

    notes: int
    work: Path
    empty: Path


def prepare(size: int, cache: Path, folder: Path) -> Desk:
    vault = cache / f"vault-{size}"
    make_vault(vault, size)
    desk = Desk(size, folder / f"vault-{size}", folder / f"empty-{size}")
    shutil.copytree(vault, desk.work / "notes")
    (desk.empty / "notes").mkdir(parents=True)
    for each in (desk.work, desk.empty):
        (each / "carrel.toml").write_text(SETTINGS, encoding="utf-8")
    return desk


@dataclass(frozen=True, slots=True)
class Effort:
    """How often everything is done, and for how long servers are watched doing nothing."""

    calls: int = CALLS
    writes: int = WRITES
    edits: int = EDITS
    starts: int = STARTS
    rest_seconds: float = IDLE_SECONDS
    idle_seconds: float = IDLE_SECONDS


SMOKE = Effort(calls=2, writes=2, edits=1, starts=1, rest_seconds=0.2, idle_seconds=0.5)


def measure(desks: list[Desk], effort: Effort) -> list[Measured]:
    indexing = [_index_times(desk.work, 3 if effort.starts > 1 else 1) for desk in desks]
    starts = [list(_starts(desk, effort.starts)) for desk in desks]
    with ExitStack() as stack:
        clients: dict[int, StdioClient] = {}
        for desk in desks:
            client = clients[desk.notes] = StdioClient(stack.enter_context(_server(desk.work)))
            client.shake_hands()
            _until_indexed(client)
        tools = _tools(clients, effort)
        edits = {
            desk.notes: Timed.of(list(_edits(clients[desk.notes], desk.work / "notes", effort.edits))) for desk in desks
        }
        idle = _idle(clients, effort)
        return [
            Measured(
                notes=desk.notes,
                bare_seconds=bare,
                index_seconds=index,
                empty_start_seconds=statistics.median(each for each, _ in started),
                warm_start_seconds=statistics.median(each for _, each in started),
                memory_mb=clients[desk.notes].program.memory_bytes() / 1_000_000,
                nothing=tools[desk.notes].pop("nothing"),
                tools=tools[desk.notes],
                edit=edits[desk.notes],
                idle_percent=idle[desk.notes],
            )
            for desk, (bare, index), started in zip(desks, indexing, starts, strict=True)
        ]


def _index_times(work: Path, times: int) -> tuple[float, float]:
    """Of the bare program and of ours, in turn; the files are in the system's cache for both."""
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(times):
        bare.append(_run("notes_bare.py", work / "notes"))
        shutil.rmtree(work / ".carrel", ignore_errors=True)
        ours.append(_run("notes_index.py", work))
    return statistics.median(bare), statistics.median(ours)


def _run(program: str, argument: Path) -> float:
    """The seconds that it says: those of starting Python are not counted for either."""
    done = subprocess.run([sys.executable, str(HERE / program), str(argument)], check=True, capture_output=True)
    return float(done.stdout)


def _server(work: Path) -> Program:
    command = [sys.executable, "-m", "carrel", "serve", "--workspace", str(work), "--toolsets", "notes"]
    return Program(command, work / ".bench", piped=True)


def _first_answer(work: Path) -> float:
    started = time.perf_counter()
    with _server(work) as program:
        client = StdioClient(program)
        client.shake_hands()
        client.call(Call("get_node", {"id": note_id(0)}))
        return time.perf_counter() - started


def _starts(desk: Desk, count: int) -> Iterator[tuple[float, float]]:
    """Of the empty server and of the other, in turn; of several, without the first, which makes what others find."""
    taken = [(_first_answer(desk.empty), _first_answer(desk.work)) for _ in range(count + (count > 1))]
    yield from taken[-count:]


def _until_indexed(client: StdioClient) -> None:
    while b"still being indexed" in client.call(Call("get_node", {"id": note_id(0)})):
        time.sleep(0.2)


def _tools(clients: dict[int, StdioClient], effort: Effort) -> dict[int, dict[str, Timed]]:
    """The servers take turns, call by call: what else the machine does meets them all alike."""
    taken: dict[int, dict[str, list[float]]] = {size: {} for size in clients}
    choose = random.Random(3)
    for _ in range(effort.calls):
        for name, make in READS.items():
            for size, client in clients.items():
                taken[size].setdefault(name, []).append(_timed(client, make(choose, size)))
    for number in range(effort.writes):
        target = note_id(choose.randrange(min(clients))).rpartition("/")[2].removesuffix(".md")
        for tool, arguments in _writes(number, target).items():
            for size, client in clients.items():
                taken[size].setdefault(tool, []).append(_timed(client, Call(tool, arguments)))
    return {size: {name: Timed.of(each) for name, each in found.items()} for size, found in taken.items()}


def _some(choose: random.Random, size: int) -> str:
    return note_id(choose.randrange(size))


READS: dict[str, Callable[[random.Random, int], Call]] = {
    "nothing": lambda _choose, _size: NOTHING,
    "get_node": lambda choose, size: Call("get_node", {"id": _some(choose, size)}),
    "get_node, depth 1": lambda choose, size: Call("get_node", {"id": _some(choose, size), "depth": 1}),
    "get_neighbors": lambda choose, size: Call("get_neighbors", {"id": _some(choose, size)}),
    "get_neighbors of a hub": lambda _choose, _size: Call("get_neighbors", {"id": note_id(0), "direction": "in"}),
    "find_path": lambda choose, size: Call("find_path", {"source": _some(choose, size), "target": _some(choose, size)}),
    "get_hubs": lambda choose, _size: Call("get_hubs", {"metric": choose.choice(["in_degree", "out_degree"])}),
    "search_by_tags": lambda choose, _size: Call("search_by_tags", {"tags": choose.sample(TAGS, 2)}),
    "search_by_tags, all": lambda choose, _size: Call(
        "search_by_tags", {"tags": choose.sample(TAGS, 2), "mode": "all"}
    ),
    "random_node": lambda _choose, _size: Call("random_node", {}),
}


def _writes(number: int, target: str) -> dict[str, dict[str, Any]]:
    written = f"area-00/bench-{number}.md"
    return {
        "create_node": {"title": f"bench {number}", "content": f"see [[{target}]]\n" * 20, "directory": "area-00"},
        "update_node": {"id": written, "content": f"now [[{target}]] #bench\n" * 20},
        "delete_node": {"id": written},
    }


def _timed(client: StdioClient, call: Call) -> float:
    started = time.perf_counter()
    answer = client.call(call, LEGACY)
    taken = time.perf_counter() - started
    messages.check(answer)
    return taken


def _edits(client: StdioClient, vault: Path, count: int) -> Iterator[float]:
    for number in range(count):
        tag = f"edit-{number}"
        (vault / f"edited-{number}.md").write_text(f"#{tag}\n", encoding="utf-8")
        started = time.perf_counter()
        while b"edited-" not in client.call(Call("search_by_tags", {"tags": [tag]})):
            time.sleep(0.002)
        yield time.perf_counter() - started


def _idle(clients: dict[int, StdioClient], effort: Effort) -> dict[int, float]:
    """All at the same time: they are not in each other's way if they do nothing."""
    time.sleep(effort.rest_seconds)
    before = {size: client.program.cpu_seconds() for size, client in clients.items()}
    time.sleep(effort.idle_seconds)
    used = {size: client.program.cpu_seconds() - before[size] for size, client in clients.items()}
    return {size: 100 * seconds / effort.idle_seconds for size, seconds in used.items()}


WRITERS = ("create_node", "update_node", "delete_node")


def goals(results: list[Measured]) -> Iterator[Goal]:
    for each in results:
        for name, timed in each.tools.items():
            limit = WRITE_GOAL if name in WRITERS else READ_GOAL
            yield _goal(f"{each.notes} notes: {name} to a call without work, p50", limit, timed.p50 / each.nothing.p50)
        yield _goal(
            f"{each.notes} notes: cold index to a bare program", INDEX_GOAL, each.index_seconds / each.bare_seconds
        )
        ratio = each.warm_start_seconds / each.empty_start_seconds
        yield _goal(f"{each.notes} notes: warm start to that of an empty server", START_GOAL, ratio)
        yield _goal(f"{each.notes} notes: memory in MB", MEMORY_GOAL_MB, each.memory_mb)
        yield _goal(f"{each.notes} notes: an edit is seen, p95 in seconds", 1.0, each.edit.p95 / 1000)
        yield _goal(f"{each.notes} notes: idle, in % of a core", IDLE_GOAL_PERCENT, each.idle_percent)
    for small, large in pairwise(results):
        if large.notes == 100_000:
            for name in large.tools:
                ratio = large.tools[name].p50 / small.tools[name].p50
                yield _goal(f"{small.notes} to {large.notes} notes: {name}", GROWTH_GOAL, ratio)


def _goal(text: str, limit: float, value: float) -> Goal:
    return Goal(text, limit, value, value, value)


def report(results: list[Measured]) -> Iterator[str]:
    yield from tables.goal_table(goals(results))
    yield ""
    head = ("p50 (p95) in ms", *(f"{each.notes:,} notes" for each in results))
    rows = {name: [each.tools[name] for each in results] for name in results[0].tools}
    rows = {"a call without work": [each.nothing for each in results], **rows}
    rows |= {"an edit is seen": [each.edit for each in results]}
    yield from tables.table(head, ((name, *(f"{t.p50:.2f} ({t.p95:.2f})" for t in row)) for name, row in rows.items()))
    yield ""
    figures = {
        "a bare program reads all, s": [f"{each.bare_seconds:.2f}" for each in results],
        "cold index, s": [f"{each.index_seconds:.2f}" for each in results],
        "start of an empty server, s": [f"{each.empty_start_seconds:.2f}" for each in results],
        "warm start, s": [f"{each.warm_start_seconds:.2f}" for each in results],
        "memory, MB": [f"{each.memory_mb:.0f}" for each in results],
        "idle, % of a core": [f"{each.idle_percent:.4f}" for each in results],
    }
    yield from tables.table(("", *head[1:]), ((name, *row) for name, row in figures.items()))


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--cache", type=Path, help="keep generated vaults here for the next run")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="notes; default %(default)s")
    parser.add_argument("--calls", type=int, default=CALLS, help="of each tool; default %(default)s")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds to watch; default %(default)s")
    given = options.parse(parser, sizes=[20])
    effort = SMOKE if given.smoke else Effort(calls=given.calls, idle_seconds=given.idle)
    with tempfile.TemporaryDirectory(dir=given.cache if given.cache and given.cache.is_dir() else None) as name:
        folder = Path(name)
        cache = given.cache or folder / "vaults"
        results = measure([prepare(size, cache, folder) for size in given.sizes], effort)
    print("\n".join(report(results)))
    options.write_json(given.json, [asdict(each) for each in results])


if __name__ == "__main__":
    main()
