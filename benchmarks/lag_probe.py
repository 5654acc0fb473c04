"""How long the event loop of a server keeps others waiting, measured inside it, with nothing of it in the product.

    python benchmarks/lag_probe.py FILE serve --http ...      # what follows FILE is a `carrel` command line

Runs `carrel` with a heartbeat on every event loop of the process: a timer that is due every `BEAT` seconds. One that
fires `NOTED` seconds late or more is appended to FILE as a line of JSON:

    {"at": 1700000000.5, "lag_ms": 130.2, "cpu_ms": 129.8, "wait_ms": 0.3, "stack": ["prose.py:120 _inline", ...]}

`at` is `time.time()` when it fired, `lag_ms` how late. `cpu_ms` is the CPU time that the whole process used meanwhile,
and `wait_ms` the time that the loop's thread was ready to run and got no CPU (Linux): what is neither is a wait on the
loop, for the disk or for Python's lock. `stack` is what the loop's thread was doing when a second thread looked,
innermost call first; empty if it could not look, because a call that holds the interpreter's lock was the cause.

Whoever started the server reads the file with `lags(FILE, since)`; `worst(...)` is the longest. Import this module
for both; it imports nothing of Carrel by itself. Use `command(FILE, ...)` for the argument list.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

BEAT = 0.005
NOTED = 0.010
POLL_INTERVAL_SECONDS = 0.020
"""Seconds that the loop is late by when a look at its stack is taken, and between two looks."""
FRAMES = 12


class Lag(NamedTuple):
    at: float
    lag_ms: float
    cpu_ms: float
    wait_ms: float
    stack: tuple[str, ...]

    @property
    def own_ms(self) -> float:
        """What the process itself is to blame for; on a machine that others use, too, the rest is theirs."""
        return min(self.lag_ms, self.cpu_ms)

    @property
    def halt_ms(self) -> float:
        """The lag without the wait for a CPU: also waits for the disk, and for threads that wait for a CPU."""
        return max(self.own_ms, self.lag_ms - self.wait_ms)


def command(file: Path, *arguments: str) -> list[str]:
    """The command that runs `carrel` with these arguments, and with the probe."""
    return [sys.executable, str(Path(__file__).resolve()), str(file), *arguments]


def lags(file: Path, since: float = 0.0) -> list[Lag]:
    """What was noted after `since`, a `time.time()`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    every = (Lag(**{**each, "stack": tuple(each["stack"])}) for each in found)
    return [each for each in every if each.at >= since]


def worst(file: Path, since: float = 0.0) -> Lag:
    """By what the process itself is to blame for."""
    return max(lags(file, since), key=lambda each: each.own_ms, default=Lag(since, 0.0, 0.0, 0.0, ()))


class _Heartbeat:
    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._file = file
        self._due = 0.0
        self._cpu = 0.0
        self._wait = 0.0
        self._thread = 0
        self._stack: list[str] = []

    def start(self) -> None:
        self._thread = threading.get_ident()
        self._schedule()
        threading.Thread(target=self._look, name="lag-probe", daemon=True).start()

    def _schedule(self) -> None:
        self._cpu, self._wait = time.process_time(), _waited()
        self._due = time.monotonic() + BEAT
        self._loop.call_later(BEAT, self._beat)

    def _beat(self) -> None:
        late = time.monotonic() - self._due
        if late >= NOTED:
            cpu, wait = time.process_time() - self._cpu, _waited() - self._wait
            took = {"lag_ms": late * 1000, "cpu_ms": cpu * 1000, "wait_ms": wait * 1000}
            noted = {"at": time.time(), **took, "stack": self._stack}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(noted) + "\n")
        self._stack = []
        self._schedule()

    def _look(self) -> None:
        while not self._loop.is_closed():
            time.sleep(POLL_INTERVAL_SECONDS)
            if self._due and time.monotonic() - self._due > POLL_INTERVAL_SECONDS and not self._stack:
                self._stack = _frames(sys._current_frames().get(self._thread))


def _waited() -> float:
    """Seconds for which this thread has been ready and got no CPU; 0 where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _frames(frame: Any) -> list[str]:
    found: list[str] = []
    while frame is not None and len(found) < FRAMES:
        found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return found


def install(file: Path) -> None:
    """Give every event loop of this process a heartbeat, from when it first runs."""
    seen: set[int] = set()
    set_running_loop = asyncio.events._set_running_loop

    def with_heartbeat(loop: asyncio.AbstractEventLoop | None) -> None:
        set_running_loop(loop)
        if loop is not None and id(loop) not in seen:
            seen.add(id(loop))
            loop.call_soon(_Heartbeat(loop, file).start)

    # asyncio looks it up in one place, uvloop in the other.
    asyncio._set_running_loop = asyncio.events._set_running_loop = with_heartbeat  # pyright: ignore[reportAttributeAccessIssue]


def main(arguments: Sequence[str]) -> None:
    install(Path(arguments[0]))
    sys.argv = ["carrel", *arguments[1:]]
    sys.path.pop(0)  # the benchmarks' own modules are none of the server's
    from carrel.cli import main as carrel

    carrel()


if __name__ == "__main__":
    main(sys.argv[1:])
