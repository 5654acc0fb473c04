"""`carrel demo`."""

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
    from carrel.demo.sample_calls import Shown
    from carrel.workspace import Workspace

USUAL_PORT = 8765
PAGE = "/"
"""The path of the page that shows the desk to people."""
QUIET_SECONDS = 1.0
MEANING_SECONDS = 30.0
LOOK_SECONDS = 0.1


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
    before = signal.signal(signal.SIGTERM, _end)
    progress = _Progress()
    try:
        status = _run(folder, port, progress, is_short=print_only, keep=keep)
    finally:
        progress.end()
        signal.signal(signal.SIGTERM, before)
    sys.exit(status)


def _run(folder: Path | None, port: int | None, progress: "_Progress", *, is_short: bool, keep: bool) -> int:
    progress.tell("starting")
    from carrel import logs
    from carrel.demo.sample_workspace import default_folder, in_use, is_demo, make_sample, open_sample, refuse_other
    from carrel.server.http_server import run_http

    logs.configure("text", "warning")
    place = (folder or default_folder()).absolute()
    refuse_other(place)
    is_new = not is_demo(place)
    if is_new:
        make_sample(place, progress.tell)
    progress.tell("opening the sample")
    removes = is_new and folder is None and not keep
    with in_use(place, remove=removes):
        workspace = open_sample(place, port=_port(port, is_short=is_short), log_level="warning", log_format="text")
        _say(f"{_bold('Carrel')}: a sample workspace is {'' if is_new else 'already '}in {place}")
        guide = _Guide(workspace, progress, is_short=is_short)
        status = run_http(workspace, guide.begin)
        guide.end()
    if removes and not place.exists():
        click.echo(f"carrel: removed {place}; use --keep to keep it", err=True)
    return guide.status if is_short else status


class _Progress:
    """What is being done, on stderr, once it has taken longer than one would like to wait for nothing."""

    def __init__(self) -> None:
        self._step = ""
        self._is_late = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(QUIET_SECONDS, self._late)
        self._timer.daemon = True
        self._timer.start()

    def tell(self, step: str) -> None:
        with self._lock:
            self._step = step
            if self._is_late:
                self._write()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_late, self._step = False, ""

    def _late(self) -> None:
        with self._lock:
            self._is_late = True
            if self._step:
                self._write()

    def _write(self) -> None:
        click.echo(f"carrel: {self._step} ...", err=True)


class _Guide:
    """Calls a few tools as soon as there is somebody to answer, and says how to go on."""

    def __init__(self, workspace: "Workspace", progress: _Progress, *, is_short: bool) -> None:
        self._workspace = workspace
        self._progress = progress
        self._is_short = is_short
        self._thread: threading.Thread | None = None
        self.status = 1

    def begin(self, address: str, _toolsets: Sequence[str]) -> None:
        """The port is taken by now; what is asked waits until the desk is open."""
        self._thread = threading.Thread(target=self._show, args=(address,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        if self._thread:
            self._thread.join(QUIET_SECONDS)

    def _show(self, address: str) -> None:
        from carrel.demo.sample_calls import Desk, shown_calls

        try:
            for shown in shown_calls(Desk(address), self._wait_for_meaning):
                self._progress.end()
                _say_call(shown)
            self.status = 0
        except CarrelError as error:
            click.echo(f"carrel: {error}", err=True)
        _say_ways(address)
        if self._is_short:
            signal.raise_signal(signal.SIGINT)  # the server ends as it does for a person

    def _wait_for_meaning(self) -> None:
        """Until all is embedded; else the first questions would be answered by words alone."""
        from carrel.workspace.index_backlog import counts

        deadline = time.monotonic() + MEANING_SECONDS
        while time.monotonic() < deadline:
            with suppress(CarrelError):
                if counts(self._workspace, "pending") == [0]:
                    return
            time.sleep(LOOK_SECONDS)


def _say_call(shown: "Shown") -> None:
    _say(f"\n{_bold(shown.about)}")
    _say(click.style(f"  {shown.call}", fg="cyan"))
    for line in shown.lines:
        _say(f"  {line}")


def _say_ways(address: str) -> None:
    _say("")
    _say(f"{_bold('Page')}          {address.removesuffix('/mcp')}{PAGE}")
    _say(f"{_bold('MCP endpoint')}  {address}")
    _say(f"{_bold('Claude Code')}   claude mcp add --transport http carrel-demo {address}")
    _say(
        f'{_bold("Then ask")}      "What do my notes say about the winter market, and which of my tasks are about it?"'
    )


def _say(text: str) -> None:
    """Colours only on a terminal, and not where NO_COLOR is set."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)
    sys.stdout.flush()


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def _port(port: int | None, *, is_short: bool) -> int:
    """The usual one, where nobody has it; a demo is to start beside whatever else runs."""
    if port is not None:
        return port
    if is_short:
        return 0
    import socket

    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            return 0
    return USUAL_PORT


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
