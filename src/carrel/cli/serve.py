"""`carrel serve`."""

import sys
from pathlib import Path
from typing import Any

import click

from carrel.cli.options import workspace_option
from carrel.cli.server import run_server


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
    if toolsets is not None:
        server["toolsets"] = [name.strip() for name in toolsets.split(",") if name.strip()]
    given = {"server": server, "tasks": {"user": user}, "database": {"url": database}}
    overrides = {
        section: {key: value for key, value in keys.items() if value is not None} for section, keys in given.items()
    }
    sys.exit(run_server(workspace, overrides, http=http))
