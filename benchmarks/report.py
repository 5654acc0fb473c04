"""What calls cost as tables, and held against the goals."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import cold_start
import tables
from contenders import GET_ENTITY
from tables import Goal

MEGABYTE = 1_000_000
STARLETTE_GOALS = {"no work": 2.8, "20 rows": 3.8}
FASTMCP_CPU_GOAL, FASTMCP_MEDIAN_GOAL = 0.2, 0.7
BRIDGE_GOAL = 1.5
CPU, MEDIAN = "cpu_microseconds", "median_milliseconds"
LABELS = {CPU: "CPU", MEDIAN: "median"}


@dataclass(frozen=True, slots=True)
class Cell:
    transport: str
    clients: int
    workload: str
    contender: str

    def beside(self, contender: str) -> Cell:
        """The cell of another contender at the same work."""
        return Cell(self.transport, self.clients, self.workload, contender)


@dataclass(frozen=True, slots=True)
class Round:
    cpu_microseconds: float
    """Of the server, for one call."""
    median_milliseconds: float


@dataclass(slots=True)
class Measured:
    versions: dict[str, str]
    left_out: list[str]
    rounds: dict[Cell, list[Round]] = field(default_factory=dict[Cell, list[Round]])
    imports: cold_start.Imports = field(default_factory=dict[str, list[float]])
    starts: cold_start.Starts = field(default_factory=dict[str, list[cold_start.Start]])
    memory: dict[str, int] = field(default_factory=dict[str, int])


def goals(measured: Measured) -> Iterator[Goal]:
    for cell in measured.rounds:
        if cell.workload == GET_ENTITY:
            if cell.contender == "Carrel, bridge":
                yield from _against(measured, cell, "Carrel, catalog", CPU, BRIDGE_GOAL)
                yield from _against(measured, cell, "Carrel, catalog", MEDIAN, BRIDGE_GOAL)
        elif cell.contender == "Carrel" and cell.transport.startswith("HTTP"):
            yield from _against(measured, cell, "Starlette", CPU, STARLETTE_GOALS[cell.workload])
            yield from _against(measured, cell, "FastMCP", CPU, FASTMCP_CPU_GOAL)
        elif cell.contender == "Carrel":
            yield from _against(measured, cell, "FastMCP", MEDIAN, FASTMCP_MEDIAN_GOAL)


def _against(measured: Measured, cell: Cell, other: str, figure: str, limit: float) -> Iterator[Goal]:
    theirs = measured.rounds.get(cell.beside(other))
    if theirs is None:
        return
    clients = f"{cell.clients} client" if cell.clients == 1 else f"{cell.clients} clients"
    yield tables.ratio(
        f"{cell.transport}, {clients}, {cell.workload}: {LABELS[figure]} of {cell.contender} against {other}",
        limit,
        [getattr(each, figure) for each in measured.rounds[cell]],
        [getattr(each, figure) for each in theirs],
    )


def report(measured: Measured) -> Iterator[str]:
    yield from tables.goal_table(goals(measured))
    yield ""
    yield from _calls(measured)
    yield ""
    yield from tables.table(
        ("server, after the run", "memory, MB"),
        ((name, f"{used / MEGABYTE:.0f}") for name, used in measured.memory.items()),
    )
    if measured.starts:
        yield ""
        yield from cold_start.report(measured.imports, measured.starts)
    yield ""
    yield f"- {', '.join(f'{name} {version}' for name, version in measured.versions.items())}"
    yield from (f"- left out: {line}" for line in measured.left_out)


def _calls(measured: Measured) -> Iterator[str]:
    head = ("transport", "clients", "workload", "contender", "CPU, µs a call", "rounds", "median, ms")
    rows: list[tuple[object, ...]] = []
    for cell, rounds in measured.rounds.items():
        cpu = [each.cpu_microseconds for each in rounds]
        median = statistics.median(each.median_milliseconds for each in rounds)
        figures = (f"{statistics.median(cpu):.0f}", f"{min(cpu):.0f}-{max(cpu):.0f}", f"{median:.3f}")
        rows.append((cell.transport, cell.clients, cell.workload, cell.contender, *figures))
    yield from tables.table(head, rows)


def document(measured: Measured) -> dict[str, Any]:
    return {
        "versions": measured.versions,
        "left_out": measured.left_out,
        "calls": [
            {**asdict(cell), "rounds": [asdict(each) for each in rounds]} for cell, rounds in measured.rounds.items()
        ],
        "cold_start_seconds": cold_start.document(measured.imports, measured.starts),
        "memory_bytes": measured.memory,
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals(measured)],
    }
