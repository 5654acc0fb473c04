"""Following the imports of one file: for so long, and no longer than somebody waits for it."""

import subprocess
import threading
import time
from collections.abc import Sequence

SECONDS = 2.0


class OutOfTime(Exception):
    """The time is up, or nobody waits any more."""


class Job:
    """Used by the thread that works; `stop` may be called from any."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._end: float | None = None
        """From the first check on: the time that is waited for a thread, or that a process takes, does not count."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def check(self) -> None:
        """To be called by whatever a hostile text could repeat."""
        if self._end is None:
            self._end = time.monotonic() + self._seconds
        if self._is_stopped or time.monotonic() > self._end:
            raise OutOfTime

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.kill()

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> bytes | None:
        """What a process prints; None where it fails. Past its time it is killed, and `OutOfTime` raised."""
        with self._lock:
            if self._is_stopped:
                raise OutOfTime
            self._process = process = subprocess.Popen(  # noqa: S603 - our own module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        with process:
            try:
                printed, _ = process.communicate(given, timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise OutOfTime from error
            finally:
                process.kill()
        if self._is_stopped:
            raise OutOfTime
        return None if process.returncode else printed
