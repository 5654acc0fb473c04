"""What a call costs: Carrel beside a bare Starlette route, FastMCP and a reference server, in one run.

    python benchmarks/calls.py [--quick] [--json FILE] [--fastmcp-python PATH]

FastMCP is looked for in this Python unless another is named; the reference server in the node_modules folder
that TEST_NODE_MODULES names. Whoever is not there is left out. The contenders take turns, a few hundred
calls each, round after round, so that whatever else the machine does hits all of them alike. CPU is the
server's, user and system; latency is the client's.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import report
from cold_start import cold_starts
from contenders import (
    FASTMCP,
    MEMORY_PACKAGE,
    NODE_MODULES_VARIABLE,
    Field,
    HttpContender,
    StdioContender,
    find_fastmcp,
)
from http_client import connected
from messages import LEGACY, MODERN
from process import Program
from report import Cell, Measured, Round

CLIENTS = (1, 8, 32)
WARM_UP = 40
TIME_LIMIT_SECONDS = 180.0


def _measure(program: Program, calls: int, drive: Callable[[int], list[float]]) -> Round:
    drive(WARM_UP)  # what a connection needs once, and caches gone cold while others had their turn
    before = program.cpu_seconds()
    taken = drive(calls)
    cpu = program.cpu_seconds() - before
    return Round(cpu / calls * 1e6, statistics.median(taken) * 1e3)


def _http_round(contenders: list[HttpContender], calls: int) -> Iterator[tuple[Cell, Round]]:
    for clients in CLIENTS:
        for each in contenders:
            with connected(each.address, each.request, clients) as client:
                yield (
                    Cell("HTTP", clients, each.workload, each.name),
                    _measure(each.program, calls, client.drive),
                )


def _stdio_round(contenders: list[StdioContender], calls: int) -> Iterator[tuple[Cell, Round]]:
    for each in contenders:

        def drive(count: int, each: StdioContender = each) -> list[float]:
            return each.client.drive(each.call, each.version, count)

        cell = Cell(f"stdio {each.version}", 1, each.workload, each.name)
        yield cell, _measure(each.program, calls, drive)


def run(field: Field, rounds: int, calls: int, starts: int) -> Measured:
    measured = Measured(versions=_versions(field), left_out=_left_out(field))
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    _say(f"{starts} cold starts of each")
    measured.starts = cold_starts(field, starts)
    http = field.over_http()
    stdio = [*field.over_stdio(LEGACY), *field.over_stdio(MODERN)]
    for number in range(rounds):
        if time.monotonic() > deadline:
            _say(f"stopping after {number} rounds: {TIME_LIMIT_SECONDS:.0f} s are over")
            break
        _say(f"round {number + 1} of {rounds}")
        for cell, result in (*_http_round(http, calls), *_stdio_round(stdio, calls)):
            measured.rounds.setdefault(cell, []).append(result)
    for each in (*http, *stdio):
        transport = "HTTP" if isinstance(each, HttpContender) else f"stdio {each.version}"
        server = each.workload if each.name not in ("FastMCP", "Starlette") else "both"
        measured.memory[f"{each.name}, {transport}, {server}"] = each.program.memory_bytes()
    return measured


def _versions(field: Field) -> dict[str, str]:
    found = {"CPython": platform.python_version()}
    found |= {name: version(name) for name in ("carrel", "mcp", "starlette", "uvicorn", "pydantic")}
    for name in ("uvloop", "httptools"):
        found[name] = version(name) if find_spec(name) else "absent"
    if field.fastmcp_python:
        code = "from importlib.metadata import version as v; print(v('fastmcp'), v('mcp'))"
        told = subprocess.run([field.fastmcp_python, "-c", code], capture_output=True, text=True, check=True)
        found["fastmcp"], found["its mcp"] = told.stdout.split()
    if field.memory_program:
        node, program = field.memory_program
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        found["node"] = told.stdout.strip()
        package = json.loads((Path(program).parents[1] / "package.json").read_text())
        found["server-memory"] = package["version"]
    return found


def _left_out(field: Field) -> list[str]:
    lines: list[str] = []
    if not field.fastmcp_python:
        lines.append(f"FastMCP: pip install '{FASTMCP}', or name a Python that has it with --fastmcp-python")
    if not field.memory_program:
        lines.append(f"{MEMORY_PACKAGE}: needs node, and its folder named by {NODE_MODULES_VARIABLE}")
    else:
        lines.append(f"{MEMORY_PACKAGE} over stdio {MODERN}: it speaks {LEGACY} only")
    return lines


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--fastmcp-python", metavar="PATH", help="the Python of an environment with FastMCP")
    given = parser.parse_args()
    rounds, calls, starts = (3, 200, 3) if given.quick else (9, 300, 9)
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        field = Field(Path(folder), find_fastmcp(given.fastmcp_python))
        try:
            measured = run(field, rounds, calls, starts)
        finally:
            field.stop()
    print("\n".join(report.tables(measured)))
    if given.json:
        given.json.write_text(json.dumps(report.document(measured), indent=1) + "\n")


if __name__ == "__main__":
    main()
