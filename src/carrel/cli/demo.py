"""`carrel demo`: create the sample, serve it, and show the results of a few tool calls.

The server runs in the main thread, as `carrel serve --http` does; a second thread makes the calls over HTTP, as a
client would, so that what the demo prints is what the server answers.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from carrel.errors import CarrelError

if TYPE_CHECKING:
    from carrel.demo.sample_calls import SampleCall
    from carrel.workspace import Workspace

DEFAULT_PORT = 8765
PROGRESS_DELAY_SECONDS = 1.0
EMBEDDING_TIMEOUT_SECONDS = 30.0
POLL_INTERVAL_SECONDS = 0.1


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the sample, new or existing.  [default: carrel-demo in your cache folder]",
)
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port to listen on.  [default: 8765, if free]")
@click.option("--print-only", is_flag=True, help="Print the results and exit.")
@click.option("--keep", is_flag=True, help="Keep the sample for next time.")
def demo(folder: Path | None, port: int | None, print_only: bool, keep: bool) -> None:
    """Try Carrel on a sample workspace.

    The sample is a small bakery's notes, tasks, content, and code. The demo creates it, serves it on this machine only,
    shows the results of a few tool calls, and explains how to connect a client. It needs no API key or account and
    downloads nothing. The sample is deleted when the demo ends, unless you pass --folder or --keep or it already
    existed.
    """
    previous = signal.signal(signal.SIGTERM, _exit_on_signal)
    progress = _Progress()
    try:
        status = _run(folder, port, progress, print_only=print_only, keep=keep)
    finally:
        progress.end()
        signal.signal(signal.SIGTERM, previous)
    sys.exit(status)


def _run(folder: Path | None, port: int | None, progress: "_Progress", *, print_only: bool, keep: bool) -> int:
    progress.start_step("starting")
    from carrel import logs
    from carrel.demo.sample_workspace import (
        default_folder,
        in_use,
        is_demo,
        make_sample,
        open_sample,
        require_demo_folder,
    )
    from carrel.server.http_server import run_http

    logs.configure("text", "warning")
    sample = (folder or default_folder()).absolute()
    require_demo_folder(sample)
    is_new = not is_demo(sample)
    if is_new:
        make_sample(sample, progress.start_step)
    progress.start_step("opening the sample")
    removes_sample = is_new and folder is None and not keep
    with in_use(sample, remove=removes_sample):
        workspace = open_sample(sample, port=_port(port, print_only=print_only), log_level="warning", log_format="text")
        _print(f"{_bold('Carrel')}: a sample workspace is {'' if is_new else 'already '}in {sample}")
        tour = _Tour(workspace, progress, print_only=print_only)
        status = run_http(workspace, tour.begin)
        tour.end()
    if removes_sample and not sample.exists():
        click.echo(f"carrel: removed {sample}; use --keep to keep it", err=True)
    return tour.status if print_only else status


class _Progress:
    """Progress on stderr, shown only once the start takes longer than `PROGRESS_DELAY_SECONDS`."""

    def __init__(self) -> None:
        self._step = ""
        self._is_late = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PROGRESS_DELAY_SECONDS, self._on_delay)
        self._timer.daemon = True
        self._timer.start()

    def start_step(self, step: str) -> None:
        with self._lock:
            self._step = step
            if self._is_late:
                self._write()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_late, self._step = False, ""

    def _on_delay(self) -> None:
        with self._lock:
            self._is_late = True
            if self._step:
                self._write()

    def _write(self) -> None:
        click.echo(f"carrel: {self._step} ...", err=True)


class _Tour:
    """Calls a few tools once the server accepts connections, and prints how to connect a client."""

    def __init__(self, workspace: "Workspace", progress: _Progress, *, print_only: bool) -> None:
        self._workspace = workspace
        self._progress = progress
        self._print_only = print_only
        self._thread: threading.Thread | None = None
        self.status = 1

    def begin(self, address: str, _toolsets: Sequence[str]) -> None:
        """Start the calls; the port is already bound, and requests wait until the desk is open."""
        self._thread = threading.Thread(target=self._run, args=(address,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        if self._thread:
            self._thread.join(PROGRESS_DELAY_SECONDS)

    def _run(self, address: str) -> None:
        from carrel.demo.sample_calls import McpClient, make_calls

        try:
            for call in make_calls(McpClient(address), self._wait_for_embeddings):
                self._progress.end()
                _print_call(call)
            self.status = 0
        except CarrelError as error:
            click.echo(f"carrel: {error}", err=True)
        _print_next_steps(address)
        if self._print_only:
            signal.raise_signal(signal.SIGINT)  # the server shuts down as it does for Ctrl-C

    def _wait_for_embeddings(self) -> None:
        """Wait until everything is embedded; otherwise the first searches would be by words only."""
        from carrel.workspace.index_backlog import counts

        deadline = time.monotonic() + EMBEDDING_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with suppress(CarrelError):
                if counts(self._workspace, "pending") == [0]:
                    return
            time.sleep(POLL_INTERVAL_SECONDS)


def _print_call(call: "SampleCall") -> None:
    _print(f"\n{_bold(call.title)}")
    _print(click.style(f"  {call.text}", fg="cyan"))
    for line in call.lines:
        _print(f"  {line}")


def _print_next_steps(address: str) -> None:
    _print("")
    _print(f"{_bold('Page')}          {address.removesuffix('/mcp')}/")
    _print(f"{_bold('MCP endpoint')}  {address}")
    _print(f"{_bold('Claude Code')}   claude mcp add --transport http carrel-demo {address}")
    _print(
        f'{_bold("Then ask")}      "What do my notes say about the winter market, and which of my tasks are about it?"'
    )


def _print(text: str) -> None:
    """Print with colors, except if stdout is not a terminal or NO_COLOR is set."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)
    sys.stdout.flush()


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def _port(port: int | None, *, print_only: bool) -> int:
    """Choose the default port, or a free one if it is in use: the demo starts next to whatever else is running."""
    if port is not None:
        return port
    if print_only:
        return 0
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            return 0
    return DEFAULT_PORT


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
