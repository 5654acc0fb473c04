"""From starting a program to its first useful answer."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import messages
from contenders import ROWS, Field
from process import Program
from stdio_client import StdioClient

IMPORT_ONLY = "import mcp, until it ends"
IMPORTED = "import mcp, until imported"
SECOND_START = "Carrel, second start"
FIRST_START = "Carrel, first start"
END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds from the start until `initialize` and then `tools/list` are answered."""

    initialized: float
    listed: float


def cold_starts(field: Field, rounds: int) -> dict[str, list[ColdStart]]:
    """Interleaved, after one round that fills the caches and is not counted."""
    fresh = field.folder / "fresh"
    programs: dict[str, tuple[list[str], dict[str, str]]] = {
        IMPORT_ONLY: ([sys.executable, "-c", "import mcp"], {}),
        IMPORTED: ([sys.executable, "-c", "import mcp; print(flush=True)"], {}),
        SECOND_START: (field.carrel(), {}),
        FIRST_START: (field.carrel(workspace=fresh), {}),
    }
    if field.fastmcp_python:
        programs["FastMCP"] = (field.fastmcp("stdio"), {})
    if field.memory_program:
        programs["server-memory"] = field.memory(ROWS)
    found: dict[str, list[ColdStart]] = {name: [] for name in programs}
    for number in range(rounds + 1):
        for name, (command, variables) in programs.items():
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            measured = _start(name, command, variables, field.folder / "cold")
            if number:
                found[name].append(measured)
    return found


def _start(name: str, command: list[str], variables: dict[str, str], folder: Path) -> ColdStart:
    started = time.perf_counter()
    with Program(command, folder, piped=True, variables=variables) as program:
        if name in (IMPORT_ONLY, IMPORTED):
            if name == IMPORT_ONLY:
                program.wait(END_SECONDS)
            else:
                program.stdout.readline()
            taken = time.perf_counter() - started
            return ColdStart(taken, taken)
        client = StdioClient(program)
        client.shake_hands()
        initialized = time.perf_counter() - started
        messages.check(client.ask(messages.list_tools(1)))
        return ColdStart(initialized, time.perf_counter() - started)
