"""Running a server, however its command was understood.

Every session of an assistant starts one, most of them by `carrel serve` or `carrel serve --workspace DIR`. For these
Click is not loaded: it would be a sixth of the start.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carrel.settings import Overrides, ServerSettings
    from carrel.workspace import Workspace


def run_server(workspace: Path | None, overrides: "Overrides | None" = None, *, http: bool = False) -> int:
    """Serve the workspace, over stdio unless told otherwise, until somebody asks to stop; the exit status."""
    gc.disable()  # importing makes many objects and no garbage; looking for it is a tenth of the start
    from carrel import logs
    from carrel.workspace import find_workspace

    found = find_workspace(workspace, overrides)
    logs.configure(found.settings.server.log_format, found.settings.server.log_level)
    names = ", ".join(found.named_toolsets) or "whatever is configured"
    if http:  # after the settings, so that what is wrong with them is told before these imports
        from carrel.server.http_server import run_http

        run = partial(run_http, found, partial(_announce, found.settings.server))
    else:
        run = partial(_run_stdio, found)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # a call makes hundreds of objects and next to no cycles: 5 % of its time
    gc.enable()
    _on_signals(_exit)
    if not http and sys.stdin.isatty():
        _print(f"carrel: serving {names} over stdio, for an MCP client to speak to; Ctrl-C stops")
    status = run()
    if status > 128:
        _on_signals(signal.SIG_IGN)  # Python gives its own handlers up while it ends; more signals change nothing
    return status


def _run_stdio(workspace: "Workspace") -> int:
    """Serve the process's stdin and stdout; return the exit status."""
    from carrel.mcp.stdio import serve_stdio
    from carrel.workspace import refuse_collision

    refuse_collision(workspace)

    async def run() -> int:
        async with workspace.open(is_deferring=True) as desk:
            return await serve_stdio(desk.description(desk.pipeline(), has_channel=True))

    return asyncio.run(run())


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _exit(number: int, _frame: FrameType | None) -> None:
    """Before the server takes signals itself, and after: no moment is left in which one would just kill the process."""
    sys.exit(128 + number)


def _announce(server: "ServerSettings", address: str, toolsets: Sequence[str]) -> None:
    _print(f"carrel: serving {', '.join(toolsets)} at {address}")
    if server.page:
        _print(f"carrel: the page is at {server.public_url or address.removesuffix('/mcp')}/")


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
