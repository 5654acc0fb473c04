"""What was measured as tables, and held against the goals."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from cold_start import FIRST_START, IMPORT_ONLY, SECOND_START, ColdStart

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Cell:
    transport: str
    clients: int
    workload: str
    contender: str

    def __str__(self) -> str:
        return f"{self.transport:18} {self.clients:7}  {self.workload:8} {self.contender:14}"


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
    starts: dict[str, list[ColdStart]] = field(default_factory=dict[str, list[ColdStart]])
    memory: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Goal:
    """`value` is a ratio of medians; `low` and `high` are those of the best and the worst round."""

    text: str
    limit: float
    value: float
    low: float
    high: float
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        spread = f"{self.low:.2f}-{self.high:.2f}" if self.unit == "x" else ""
        verdict = "met" if self.met else "MISSED"
        return f"{self.text:62} {self.limit:5.2f} {self.unit:2} {self.value:8.2f}  {spread:13} {verdict}"


def goals(measured: Measured) -> Iterator[Goal]:
    for cell in measured.rounds:
        if cell.contender == "Carrel" and cell.transport == "HTTP":
            yield from _against(measured, cell, "Starlette", "cpu_microseconds", "CPU", 3.0)
            yield from _against(measured, cell, "FastMCP", "cpu_microseconds", "CPU", 0.6)
        elif cell.contender == "Carrel":
            yield from _against(measured, cell, "FastMCP", "median_milliseconds", "median", 0.7)
    empty = [start.listed for start in measured.starts[IMPORT_ONLY]]
    for name in (SECOND_START, FIRST_START):
        yield _goal(f"{name}, against {IMPORT_ONLY}", 1.25, [each.listed for each in measured.starts[name]], empty)
    for name, used in measured.memory.items():
        if name.startswith("Carrel"):
            yield Goal(f"{name}: memory", 90, *([used / MEGABYTE] * 3), unit="MB")


def _against(measured: Measured, cell: Cell, other: str, figure: str, label: str, limit: float) -> Iterator[Goal]:
    theirs = measured.rounds.get(Cell(cell.transport, cell.clients, cell.workload, other))
    if theirs is None:
        return
    clients = f"{cell.clients} client" if cell.clients == 1 else f"{cell.clients} clients"
    yield _goal(
        f"{cell.transport}, {clients}, {cell.workload}: {label} against {other}",
        limit,
        [getattr(each, figure) for each in measured.rounds[cell]],
        [getattr(each, figure) for each in theirs],
    )


def _goal(text: str, limit: float, ours: list[float], theirs: list[float]) -> Goal:
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return Goal(text, limit, statistics.median(ours) / statistics.median(theirs), min(ratios), max(ratios))


def tables(measured: Measured) -> Iterator[str]:
    yield ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    yield from (f"left out: {line}" for line in measured.left_out)
    yield ""
    yield from _calls(measured)
    yield ""
    yield from _starts(measured)
    yield ""
    yield f"{'memory after the run':42} {'MB':>4}"
    yield from (f"{name:42} {used / MEGABYTE:4.0f}" for name, used in measured.memory.items())
    yield ""
    yield f"{'goal':62} {'limit':>8} {'measured':>8}  (rounds)"
    yield from map(str, goals(measured))


def _calls(measured: Measured) -> Iterator[str]:
    head = Cell("transport", 0, "workload", "contender")
    yield f"{str(head).replace('      0', 'clients')} {'CPU us/call':>11} {'(rounds)':>12} {'median ms':>9}"
    for cell, rounds in measured.rounds.items():
        cpu = [each.cpu_microseconds for each in rounds]
        spread = f"{min(cpu):.0f}-{max(cpu):.0f}"
        latency = statistics.median(each.median_milliseconds for each in rounds)
        yield f"{cell} {statistics.median(cpu):11.0f} {spread:>12} {latency:9.3f}"


def _starts(measured: Measured) -> Iterator[str]:
    yield f"{'cold start':28} {'initialize ms':>13} {'tools/list ms':>13} {'(runs)':>12}"
    for name, starts in measured.starts.items():
        listed = [each.listed * 1000 for each in starts]
        spread = f"{min(listed):.0f}-{max(listed):.0f}"
        initialized = statistics.median(each.initialized * 1000 for each in starts)
        yield f"{name:28} {initialized:13.0f} {statistics.median(listed):13.0f} {spread:>12}"


def document(measured: Measured) -> dict[str, Any]:
    return {
        "versions": measured.versions,
        "left_out": measured.left_out,
        "calls": [
            {**asdict(cell), "rounds": [asdict(each) for each in rounds]} for cell, rounds in measured.rounds.items()
        ],
        "cold_start_seconds": {name: [asdict(each) for each in starts] for name, starts in measured.starts.items()},
        "memory_bytes": measured.memory,
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals(measured)],
    }
