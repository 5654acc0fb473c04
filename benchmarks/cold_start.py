"""From starting a program to its first useful answers, over stdio, and what it holds in memory then.

    python3 dev.py bench cold_start [--rounds N] [--json FILE]

Carrel in a folder with a database and in an empty one, the same tools on FastMCP, the reference server for memory on
Node.js, and an empty program that imports the SDK. They take turns in every round, after one that fills the caches and
is not counted. A client of 2025-11-25 begins with `initialize`, one of 2026-07-28 with `server/discover`; both then ask
for `tools/list` and make one `tools/call`. Bytecode is compiled for all. Linux only.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import messages
import options
import tables
from contenders import ERAS, LIST, MEMORY_PACKAGE, ROWS, Field
from messages import LEGACY, MODERN, Call
from process import Program
from stdio_client import StdioClient
from tables import Goal

IMPORT_ENDED = "import mcp, until it ends"
IMPORTED = "import mcp, until imported"
SECOND_START = "Carrel, second start"
FIRST_START = "Carrel, first start"
FASTMCP = "FastMCP"
MEMORY = "server-memory"
ROUNDS = 15
EXIT_TIMEOUT_SECONDS = 60.0
IDLE_SECONDS = 1.0
"""After which memory is looked at: some load what they need behind their first answers."""
SECOND_GOAL, FIRST_GOAL, NODE_GOAL, MEMORY_GOAL_MB = 0.5, 0.8, 1.0, 60.0
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of the process until each answer."""

    opened: float
    """`initialize` or `server/discover`."""
    listed: float
    called: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    version: str
    command: list[str]
    call: Call
    variables: dict[str, str]

    @property
    def label(self) -> str:
        return f"{self.name}, {self.version}"


Imports = dict[str, list[float]]
Starts = dict[str, list[Start]]


def contenders(field: Field, fresh: Path) -> Iterator[Contender]:
    nothing = Call(LIST.tool, LIST.arguments, 0)
    for version in ERAS:
        yield Contender(SECOND_START, version, field.carrel(), LIST, {})
        yield Contender(FIRST_START, version, field.carrel(workspace=fresh), nothing, {})
        if field.fastmcp_python:
            yield Contender(FASTMCP, version, field.fastmcp("stdio"), LIST, {})
    if field.memory_program:  # its SDK knows no later version
        command, variables = field.memory(ROWS)
        yield Contender(MEMORY, LEGACY, command, Call("read_graph", {}, ROWS), variables)


def cold_starts(field: Field, rounds: int, warm_up: int = 1) -> tuple[Imports, Starts]:
    fresh = field.folder / "fresh"
    programs = list(contenders(field, fresh))
    imports: Imports = {IMPORT_ENDED: [], IMPORTED: []}
    starts: Starts = {each.label: [] for each in programs}
    for number in range(1 - warm_up, rounds + 1):
        for name, taken in imports.items():
            seconds = _import(name == IMPORT_ENDED, field.folder / "cold")
            if number > 0:
                taken.append(seconds)
        for each in programs:
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            measured = _start(each, field.folder / "cold", rests=number == rounds)
            if number > 0:
                starts[each.label].append(measured)
    return imports, starts


def _import(to_its_end: bool, folder: Path) -> float:
    code = "import mcp" if to_its_end else "import mcp; print(flush=True)"
    started = time.perf_counter()
    with Program([sys.executable, "-c", code], folder, piped=True) as program:
        if to_its_end:
            program.wait(EXIT_TIMEOUT_SECONDS)
        else:
            program.stdout.readline()
        return time.perf_counter() - started


def _start(contender: Contender, folder: Path, *, rests: bool) -> Start:
    version = contender.version
    started = time.perf_counter()
    with Program(contender.command, folder, piped=True, variables=contender.variables) as program:
        client = StdioClient(program)
        client.shake_hands(version)
        opened = time.perf_counter() - started
        messages.check(client.ask(messages.list_tools(version)))
        listed = time.perf_counter() - started
        answer = client.call(contender.call, version)
        called = time.perf_counter() - started
        messages.check_rows(answer, contender.call)
        if rests:
            time.sleep(IDLE_SECONDS)
        return Start(opened, listed, called, program.memory_bytes())


# --- what is reported


def goals(imports: Imports, starts: Starts) -> Iterator[Goal]:
    empty = imports[IMPORT_ENDED]
    for version in ERAS:
        opened = {name: [each.opened for each in taken] for name, taken in starts.items()}
        for name, limit in ((SECOND_START, SECOND_GOAL), (FIRST_START, FIRST_GOAL)):
            label = f"{name}, {version}"
            yield tables.ratio(f"{label}: first answer against {IMPORT_ENDED}", limit, opened[label], empty)
        reference = f"{MEMORY}, {LEGACY}"
        if reference in opened:
            label = f"{SECOND_START}, {version}"
            yield tables.ratio(f"{label}: first answer against {MEMORY}", NODE_GOAL, opened[label], opened[reference])
    for version in ERAS:
        label = f"{SECOND_START}, {version}"
        used = starts[label][-1].memory_bytes / MEGABYTE
        yield Goal(f"{label}: memory", MEMORY_GOAL_MB, used, used, used, " MB")


def report(imports: Imports, starts: Starts) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for name, taken in imports.items():
        rows.append((name, _milliseconds(taken), "", "", ""))
    for name, found in starts.items():
        figures = ([each.opened for each in found], [each.listed for each in found], [each.called for each in found])
        memory = f"{found[-1].memory_bytes / MEGABYTE:.0f}"
        rows.append((name, *map(_milliseconds, figures), memory))
    yield from tables.table(("start", "first answer, ms", "tools/list, ms", "tools/call, ms", "memory, MB"), rows)
    yield ""
    yield from tables.goal_table(goals(imports, starts))


def _milliseconds(seconds: list[float]) -> str:
    taken = [1000 * each for each in seconds]
    return f"{statistics.median(taken):.0f} ({min(taken):.0f}-{max(taken):.0f})"


def document(imports: Imports, starts: Starts) -> dict[str, Any]:
    return {"imports": imports, "starts": {name: [asdict(each) for each in taken] for name, taken in starts.items()}}


def left_out(field: Field) -> Iterator[str]:
    if not field.fastmcp_python:
        yield "- FastMCP is left out: it is not installed."
    if not field.memory_program:
        yield f"- {MEMORY_PACKAGE} is left out: it is not installed."
    else:
        yield f"- {MEMORY_PACKAGE} speaks {LEGACY} only, not {MODERN}."


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="starts of each; default %(default)s")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before that fill caches; default %(default)s")
    given = options.parse(parser, rounds=1, warm_up=0)
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        field = Field(Path(folder))
        try:
            imports, starts = cold_starts(field, given.rounds, given.warm_up)
        finally:
            field.stop()
        print("\n".join([*report(imports, starts), "", *left_out(field)]))
    options.write_json(given.json, document(imports, starts))


if __name__ == "__main__":
    main()
