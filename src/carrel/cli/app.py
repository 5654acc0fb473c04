"""`carrel`: its commands, and `carrel serve`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from carrel.cli.db import db
from carrel.cli.diagnostics import status
from carrel.cli.search import index, search
from carrel.cli.terminal import workspace_option
from carrel.server.launcher import run_server
from carrel.version import __version__


@click.command()
@workspace_option
@click.option("--http", is_flag=True, help="Serve over HTTP instead of stdio.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, metavar="N", help="Port to listen on; 0 picks a free one.  [default: 8765]")
@click.option("--workers", type=int, metavar="N", help="Number of worker processes.  [default: 1]")
@click.option("--toolsets", metavar="A,B", help="Serve only these toolsets.  [default: all that are configured]")
@click.option("--read-only", is_flag=True, default=None, help="Do not offer tools that write.")
@click.option("--user", metavar="NAME", help="Serve only this user's tasks.")
@click.option("--database", metavar="URL", help="Database URL: sqlite:///FILE or postgresql://USER@HOST/NAME.")
def serve(
    workspace: Path | None,
    http: bool,
    user: str | None,
    database: str | None,
    toolsets: str | None,
    **server: Any,
) -> None:
    """Serve the desk to MCP clients, over stdio or HTTP.

    Clients that start their servers run `carrel serve`. For clients that connect to a URL, run `carrel serve --http`
    and give them http://127.0.0.1:8765/mcp, or /tasks/mcp, /catalog/mcp and so on for a single toolset. The desk's
    web page is at http://127.0.0.1:8765/. Options override environment variables, which override carrel.toml.
    """
    if toolsets is not None:
        server["toolsets"] = [name.strip() for name in toolsets.split(",") if name.strip()]
    options = {"server": server, "tasks": {"user": user}, "database": {"url": database}}
    overrides = {
        section: {key: value for key, value in keys.items() if value is not None} for section, keys in options.items()
    }
    sys.exit(run_server(workspace, overrides, http=http))


class _LazyGroup(click.Group):
    """A command group whose module is imported only when one of its commands is used."""

    def __init__(self, name: str, target: str, **more: Any) -> None:
        super().__init__(name, **more)
        self._module, _, self._name = target.partition(":")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._command.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._command.get_command(ctx, cmd_name)

    @property
    def _command(self) -> click.Group:
        return getattr(import_module(self._module), self._name)


class _LazyCommand(click.Command):
    """A command whose module is imported only when the command is used."""

    def __init__(self, name: str, target: str, **more: Any) -> None:
        super().__init__(name, **more)
        self._module, _, self._name = target.partition(":")

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self._command.make_context(info_name, args, parent, **extra)

    def get_help(self, ctx: click.Context) -> str:
        return self._command.get_help(ctx)

    @property
    def _command(self) -> click.Command:
        return getattr(import_module(self._module), self._name)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="carrel %(version)s")
def app() -> None:
    """Give an AI assistant your project's notes, tasks, content, and code, as one MCP server.

    Try it on a sample with `carrel demo`. Serve any folder with `carrel serve`; no settings are required. To change
    settings, start from the carrel.toml that `carrel init` writes.
    """


@app.command()
@workspace_option
def init(workspace: Path | None) -> None:
    """Write a carrel.toml with every setting explained.

    Each setting is commented out and shows its default. An existing carrel.toml is left unchanged.
    """
    from carrel.cli.setup import write_settings_file

    click.echo(f"wrote {write_settings_file(workspace or Path.cwd())}", err=True)


app.add_command(serve)
app.add_command(status)
app.add_command(db)
app.add_command(index)
app.add_command(search)
for name, target, text in (
    ("import", "import_export:import_", "Import content bundles and Search Console tables."),
    ("export", "import_export:export", "Export content as a bundle."),
    (
        "content",
        "content:content",
        """List, show, add, and edit content by hand.

        A REF identifies a record. It can be an entity's type and slug, such as "guide:intro" (add --project if several
        projects have one); a source's URL or title, such as "sourceItem:https://..." (likewise "video:..." and
        "distributionEvent:..."); a project's slug; or any record's ID.
        """,
    ),
    (
        "discoveries",
        "knowledge:discoveries",
        """Record and look up what was learned about the code base.

        A discovery is a pattern, a rule, a decision, or an issue. The tool context_search searches the discoveries
        that you record here.
        """,
    ),
    (
        "notes",
        "notes:notes",
        """List, show, check, restore, and copy notes.

        A note's ID is its path in the vault, such as ideas/garden.md.
        """,
    ),
    (
        "token",
        "auth:token",
        """Create, list, and revoke access tokens.

        Clients need a token to reach this desk over HTTP if auth.tokens is set. Tokens suit a small team; a larger one
        sets auth.issuer instead and lets its own OAuth server issue them.
        """,
    ),
    ("audit", "auth:audit", "Show or prune the audit log.\n\nThe log is in the database only if audit.to is database."),
    ("sessions", "knowledge:sessions", "Record and look up summaries of work sessions."),
):
    app.add_command(_LazyGroup(name, f"carrel.cli.{target}", help=text))
for name, target, text in (
    ("doctor", "diagnostics:doctor", "Check the workspace and suggest fixes."),
    ("demo", "demo:demo", "Try Carrel on a sample workspace."),
    ("connect", "setup:connect", "Register this desk with an MCP client."),
    ("completions", "setup:completions", "Print a shell completion script."),
):
    app.add_command(_LazyCommand(name, f"carrel.cli.{target}", help=text))
