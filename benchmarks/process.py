"""A program that the benchmark starts. Linux only: what it used is read from /proc and the CPU clocks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

STOP_TIMEOUT_SECONDS = 5.0
PREFIX = "CARREL_"  # settings of the person who runs this
ROOT = Path(__file__).resolve().parents[1]


def environment() -> dict[str, str]:
    """This process's, without settings for Carrel, and so that bytecode is kept: else compiling is half of a start."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    inherited["FASTMCP_CHECK_FOR_UPDATES"] = "off"  # which would wait for the network
    if inherited.get("PYTHONDONTWRITEBYTECODE"):
        inherited |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / ".dev" / "bytecode")}
    return inherited


class Program:
    """Runs until stopped. What it logs goes to a file: a pipe that nobody drains would stop it."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        *,
        piped: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=log,
                env=environment() | dict(variables or {}),
                cwd=folder,
            )

    @property
    def stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def cpu_seconds(self) -> float:
        """User and system time of the program and its children, threads that have ended included."""
        return sum(time.clock_gettime(_cpu_clock(pid)) for pid in _family(self._process.pid))

    def memory_bytes(self) -> int:
        """Resident set size of the program and its children."""
        return sum(_resident(pid) for pid in _family(self._process.pid))

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        else:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _cpu_clock(pid: int) -> int:
    """What clock_getcpuclockid(3) returns: it counts nanoseconds, /proc/PID/stat hundredths of a second."""
    return (~pid << 3) | 2


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
