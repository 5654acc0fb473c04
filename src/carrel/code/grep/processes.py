"""The processes of one search, none of which outlives it or this process, even if that was killed."""

import atexit
import os
import select
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_SHELL = "/bin/sh"
_WAIT = "read nothing; kill -9 0"


class Guard:
    """Ends the processes that we started when we are gone, even when we were killed.

    On POSIX they are all in the process group of one shell, which waits for the end of its input and then kills the
    group. The other end of that pipe is ours alone. The shell is started once, not for every search: that takes as long
    as `rg` takes to start. Used by all searches of this process, on any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None

    def group(self) -> int | None:
        """The process group to start in; None where there is no shell."""
        with self._lock:
            if self._shell is not None and self._shell.poll() is not None:  # somebody has ended it
                self._forget()
            if self._shell is None and os.path.exists(_SHELL):
                self._shell = subprocess.Popen(  # noqa: S603 - a constant
                    [_SHELL, "-c", _WAIT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    process_group=0,
                )
                atexit.register(self.close)
            return None if self._shell is None else self._shell.pid

    def close(self) -> None:
        """End the shell, and what is still in its group. The next search would start another."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            atexit.unregister(self.close)
            self._shell.stdin.close()
            self._shell.wait()
            self._shell = None


guard = Guard()


PIECE = 1 << 20
_LOOK = 20
"""Milliseconds after which to see what has been printed meanwhile."""
_CAN_LOOK = hasattr(os, "pread") and hasattr(select, "poll")


class Stopped(Exception):
    """The search was stopped from outside while it ran."""


@dataclass(slots=True)
class Running:
    process: subprocess.Popen[bytes]
    printed: int
    """The file that it prints to: of a pipe, whoever reads would be woken up for every line."""
    complaint: str = ""
    """Once it has ended."""


class Processes:
    """Used by the thread that searches; `stop` may be called from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._started: list[Running] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for running in self._started:
            running.process.wait()
            os.close(running.printed)
            if running.process.stderr is not None:
                running.process.stderr.close()

    def start(self, arguments: Sequence[str], folder: str, descriptors: Sequence[int] = ()) -> Running:
        with self._lock:
            if self._stopped:
                raise Stopped
            printed = _unnamed_file()
            try:
                process = subprocess.Popen(  # noqa: S603 - no shell sees the arguments
                    [each.encode() for each in arguments] if os.name == "posix" else arguments,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.PIPE,
                    pass_fds=descriptors,
                    process_group=guard.group(),
                )
            except BaseException:
                os.close(printed)
                raise
            running = Running(process, printed)
            self._started.append(running)
            return running

    def stop(self) -> None:
        """Kill what runs; what would start from now on raises `Stopped`."""
        with self._lock:
            self._stopped = True
            for running in self._started:
                running.process.kill()

    def check(self) -> None:
        """To be called now and then by whoever works for long."""
        if self._stopped:
            raise Stopped

    def output(self, running: Running) -> Iterator[bytes]:
        """What the process prints, in large pieces, the first of them while it still runs."""
        position = 0
        has_ended = False
        while not has_ended:
            has_ended = _ended(running)
            while piece := _read(running.printed, position):
                yield piece
                position += len(piece)
            self.check()


def _ended(running: Running) -> bool:
    """Whether it has, after a short wait."""
    complaints = running.process.stderr
    if complaints is not None:
        if _CAN_LOOK:
            waiting = select.poll()
            waiting.register(complaints, select.POLLIN)
            if not waiting.poll(_LOOK):
                return False
        running.complaint += complaints.read().decode("utf-8", "replace")  # to the end, which is that of the process
    running.process.wait()
    return True


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("carrel-grep")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _read(file: int, position: int) -> bytes:
    """Without a trace in the position at which another program writes."""
    if hasattr(os, "pread"):
        return os.pread(file, PIECE, position)
    os.lseek(file, position, os.SEEK_SET)
    return os.read(file, PIECE)
