"""What a call costs: Carrel beside a bare Starlette route, FastMCP and a reference server, in one run.

    python3 dev.py bench calls [--rounds N] [--calls N] [--clients N ...] [--starts N] [--only TEXT] [--json FILE]

Carrel is `carrel serve` as it is shipped, with limits, audit, counters and the page. FastMCP is looked for in this
Python unless another is named; the reference server in .dev/node_modules, or the folder that TEST_NODE_MODULES names.
Whoever is not there is left out. The contenders take turns, a few hundred calls each, round after round, so that
whatever else the machine does hits all of them alike. CPU is the server's, user and system; latency is the client's.
Linux only.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import options
import report
from cold_start import cold_starts
from contenders import ERAS, FASTMCP, MEMORY_PACKAGE, Field, HttpContender, StdioContender
from http_client import connected
from messages import LEGACY, MODERN
from process import Program
from report import Cell, Measured, Round

CLIENTS = (1, 8, 32)
ROUNDS, CALLS, STARTS = 9, 300, 5
WARM_UP = 40
TIME_LIMIT_SECONDS = 600.0


def _measure(program: Program, calls: int, drive: Callable[[int], list[float]]) -> Round:
    drive(min(WARM_UP, calls))  # what a connection needs once, and caches gone cold while others had their turn
    before = program.cpu_seconds()
    taken = drive(calls)
    cpu = max(program.cpu_seconds() - before, 1e-6)  # of a few calls, the kernel may have counted nothing yet
    return Round(cpu / calls * 1e6, statistics.median(taken) * 1e3)


def _http_round(contenders: list[HttpContender], clients: list[int], calls: int) -> Iterator[tuple[Cell, Round]]:
    for number in clients:
        for each in contenders:
            with connected(each.address, each.request, number) as client:
                cell = Cell(f"HTTP {each.version}", number, each.workload, each.name)
                yield cell, _measure(each.program, calls, client.drive)


def _stdio_round(contenders: list[StdioContender], calls: int) -> Iterator[tuple[Cell, Round]]:
    for each in contenders:

        def drive(count: int, each: StdioContender = each) -> list[float]:
            return each.client.drive(each.call, each.version, count)

        cell = Cell(f"stdio {each.version}", 1, each.workload, each.name)
        yield cell, _measure(each.program, calls, drive)


def run(field: Field, given: argparse.Namespace) -> Measured:
    measured = Measured(versions=_versions(field), left_out=_left_out(field))
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    if given.starts:
        options.say(f"{given.starts} cold starts of each")
        measured.imports, measured.starts = cold_starts(field, given.starts)
    http = field.over_http() if given.only in ("", "http") else []
    content = field.over_content() if given.only in ("", "content") else []
    versions = given.stdio if given.only in ("", "stdio") else ()
    stdio = [each for version in versions for each in field.over_stdio(version)]
    for number in range(given.rounds):
        if time.monotonic() > deadline:
            options.say(f"stopping after {number} rounds: {TIME_LIMIT_SECONDS:.0f} s are over")
            break
        options.say(f"round {number + 1} of {given.rounds}")
        over_http = (*_http_round(http, given.clients, given.calls), *_http_round(content, [1], given.calls))
        for cell, result in (*over_http, *_stdio_round(stdio, given.calls)):
            measured.rounds.setdefault(cell, []).append(result)
    for each in (*http, *content, *stdio):
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
        package = json.loads((Path(program).parents[1] / "package.json").read_text(encoding="utf-8"))
        found["server-memory"] = package["version"]
    return found


def _left_out(field: Field) -> list[str]:
    lines: list[str] = []
    if not field.fastmcp_python:
        lines.append(f"FastMCP: pip install '{FASTMCP}', or name a Python that has it with --fastmcp-python")
    if not field.memory_program:
        lines.append(f"{MEMORY_PACKAGE}: it is installed by python3 dev.py bench")
    else:
        lines.append(f"{MEMORY_PACKAGE} over stdio {MODERN}: it speaks {LEGACY} only")
    return lines


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)s")
    parser.add_argument("--calls", type=int, default=CALLS, help="of each in a round; default %(default)s")
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS), help="over HTTP; default %(default)s")
    parser.add_argument("--starts", type=int, default=STARTS, help="cold starts of each; default %(default)s")
    parser.add_argument("--only", choices=("http", "content", "stdio"), default="", help="measure these alone")
    parser.add_argument("--fastmcp-python", metavar="PATH", help="the Python of an environment with FastMCP")
    parser.add_argument("--stdio", nargs="+", choices=ERAS, default=list(ERAS), help="protocols; default %(default)s")
    given = options.parse(parser, rounds=1, calls=4, clients=[2], starts=0, stdio=[LEGACY])
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        field = Field(Path(folder), given.fastmcp_python)
        try:
            measured = run(field, given)
        finally:
            field.stop()
    print("\n".join(report.report(measured)))
    options.write_json(given.json, report.document(measured))


if __name__ == "__main__":
    main()
