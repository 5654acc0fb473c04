"""`carrel serve`."""

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from carrel.cli.options import workspace_option

if TYPE_CHECKING:
    from carrel.settings import ServerSettings


@click.command()
@workspace_option
@click.option("--http", is_flag=True, help="Serve HTTP instead of stdin and stdout.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, metavar="N", help="Port to listen on; 0 takes a free one.  [default: 8765]")
@click.option("--workers", type=int, metavar="N", help="Processes that share the port.  [default: 1]")
@click.option("--toolsets", metavar="A,B", help="Serve only these.  [default: all that are configured]")
@click.option("--read-only", is_flag=True, default=None, help="Leave out every tool that writes.")
@click.option("--user", metavar="NAME", help="Serve this user's tasks only.")
@click.option("--database", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/NAME.")
def serve(
    workspace: Path | None,
    http: bool,
    user: str | None,
    database: str | None,
    toolsets: str | None,
    **server: Any,
) -> None:
    """Serve the desk to MCP clients, over stdio unless told otherwise.

    A client that starts programs runs `carrel serve`; one that connects to addresses needs `carrel serve --http` and
    http://127.0.0.1:8765/mcp (or /tasks/mcp, /catalog/mcp ... for one toolset alone). People look at
    http://127.0.0.1:8765/. Options beat the environment and carrel.toml.
    """
    gc.disable()  # importing makes many objects and no garbage; looking for it is a tenth of the start
    from carrel import logs
    from carrel.workspace import find_workspace

    if toolsets is not None:
        server["toolsets"] = [name.strip() for name in toolsets.split(",") if name.strip()]
    given = {"server": server, "tasks": {"user": user}, "database": {"url": database}}
    found = find_workspace(
        workspace,
        {section: {key: value for key, value in keys.items() if value is not None} for section, keys in given.items()},
    )
    logs.configure(found.settings.server.log_format, found.settings.server.log_level)
    names = ", ".join(found.named_toolsets) or "whatever is configured"
    if http:  # after the settings, so that what is wrong with them is told before this second
        from carrel.serving.http_server import run_http

        run = partial(run_http, found, partial(_announce, found.settings.server))
    else:
        from carrel.serving.stdio_server import run_stdio

        run = partial(run_stdio, found)
    gc.freeze()
    gc.enable()
    _on_signals(_end)
    if not http and sys.stdin.isatty():
        click.echo(f"carrel: serving {names} over stdio, for an MCP client to speak to; Ctrl-C stops", err=True)
    status = run()
    if status > 128:
        _on_signals(signal.SIG_IGN)  # Python gives its own handlers up while it ends; more signals change nothing
    sys.exit(status)


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    """Before the server takes signals itself, and after: no moment is left in which one would just kill the process."""
    sys.exit(128 + number)


def _announce(server: "ServerSettings", address: str, toolsets: Sequence[str]) -> None:
    click.echo(f"carrel: serving {', '.join(toolsets)} at {address}", err=True)
    if server.page:
        click.echo(f"carrel: the page is at {server.public_url or address.removesuffix('/mcp')}/", err=True)
