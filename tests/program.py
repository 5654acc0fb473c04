"""Other processes for tests: the `carrel` program itself, and scripts that use the package."""

import gc
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO
from unittest.mock import patch

import carrel.cli
from tests.wire import CARREL, environment

Done = subprocess.CompletedProcess[str]


def run_carrel(*arguments: str | Path, cwd: Path, **env: str) -> Done:
    """`carrel` run to its end, with nothing on its stdin."""
    return subprocess.run(
        [*CARREL, *map(str, arguments)],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_carrel_here(*arguments: str | Path, cwd: Path, **env: str) -> Done:
    """The same in this process: for commands that take less time than their start."""
    out, err = io.StringIO(), io.StringIO()
    words = list(map(str, arguments))
    status: object = 0
    with (
        _process_as_it_was(),
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd),
        patch.dict(os.environ, environment(**env), clear=True),
        patch.object(sys, "argv", ["carrel", *words]),
    ):
        try:
            carrel.cli.main()
        except SystemExit as end:
            status = end.code or 0
    assert isinstance(status, int)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


@contextmanager
def _process_as_it_was() -> Generator[None]:
    """`carrel serve` switches the collector off while it starts, takes signals, and has every log line for itself."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    taken = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        gc.enable()
        root.handlers[:] = handlers
        root.setLevel(level)
        for number, handler in taken.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def misused(done: Done, *words: str, status: int = 2) -> None:
    """It failed as a program should: one line on stderr that has these words, nothing on stdout."""
    assert done.returncode == status, done
    assert done.stdout == ""
    assert done.stderr.startswith("carrel: "), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


class Script:
    """Python source run in a process of its own, spoken to in lines."""

    def __init__(self, source: str, *arguments: str | Path, cwd: Path, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", source, *map(str, arguments)],
            cwd=cwd,
            env=environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str = "") -> None:
        stdin = self._open(self.process.stdin)
        stdin.write(f"{line}\n")
        stdin.flush()

    def hear(self) -> str:
        """The next line; fails the test at the end of the output."""
        line = self._open(self.process.stdout).readline()
        assert line, f"the script ended with {self.process.wait(30)}"
        return line.rstrip("\n")

    def finish(self) -> str:
        """Close its input and wait for its good end; what it had still to say."""
        rest, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return rest

    def kill(self) -> str:
        """`kill -9`, where it still runs; what it had said by then and nobody had heard."""
        if self._open(self.process.stdout).closed:
            return ""
        self.process.kill()
        rest, _ = self.process.communicate(timeout=60)
        return rest

    @staticmethod
    def _open(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


@contextmanager
def ending(scripts: list[Script]) -> Generator[list[Script]]:
    """No script outlives the test, however that ends."""
    try:
        yield scripts
    finally:
        for each in scripts:
            each.kill()


def run_together(scripts: list[Script]) -> list[str]:
    """Let scripts that have said that they are ready go on at once; what each says to its end."""
    with ending(scripts):
        for each in scripts:
            assert each.hear() == "ready"
        for each in scripts:
            each.say("go")
        return [each.finish() for each in scripts]
