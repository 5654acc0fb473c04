"""The processes of one search, none of which outlives it.

On POSIX they are a process group of their own. Its leader is a shell that waits for the end of its input and then kills
the group. The other end of that pipe is ours alone, so the group ends when we close it, and also when we are killed.
"""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

PIECE = 1 << 16
_UNHURRIED = 16
_REST = 0.002
_SHELL = "/bin/sh"
_GUARD = "read nothing; kill -9 0"


class Stopped(Exception):
    """The search was stopped from outside while it ran."""


class Processes:
    """Used by the thread that searches; `stop` may be called from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._guard: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for process in self._started:
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def start(self, arguments: Sequence[str], folder: str, descriptors: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise Stopped
            if self._guard is None and os.path.exists(_SHELL):
                self._guard = subprocess.Popen(  # noqa: S603 a constant
                    [_SHELL, "-c", _GUARD],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    process_group=0,
                )
                self._started.append(self._guard)
            process = subprocess.Popen(  # noqa: S603 no shell sees the arguments
                [each.encode() for each in arguments] if os.name == "posix" else arguments,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                process_group=None if self._guard is None else self._guard.pid,
            )
            self._started.append(process)
            return process

    def stop(self) -> None:
        """Kill what runs; what would start from now on raises `Stopped`."""
        with self._lock:
            self._stopped = True
            for process in self._started:
                if process is not self._guard:
                    process.kill()
            if self._guard is not None and self._guard.stdin is not None:
                self._guard.stdin.close()

    def check(self) -> None:
        """To be called now and then by whoever works for long."""
        if self._stopped:
            raise Stopped

    def output(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """What the process writes, piece by piece as it comes."""
        pieces = 0
        while process.stdout is not None and (piece := os.read(process.stdout.fileno(), PIECE)):
            yield piece
            pieces += 1
            if pieces > _UNHURRIED and len(piece) < PIECE // 2:
                time.sleep(_REST)  # it writes a line at a time, and to take each takes more than to make it
        self.check()

    def ended(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Exit status and complaint of a process whose output has been read."""
        complaint = process.stderr.read(PIECE).decode("utf-8", "replace") if process.stderr is not None else ""
        status = process.wait()
        self.check()
        return status, complaint
