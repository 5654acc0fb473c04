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


class _LazyGroup(click.Group):
    """A group that stands in a module of its own, read when one of its commands is wanted."""

    def __init__(self, name: str, place: str, **more: Any) -> None:
        super().__init__(name, **more)
        self._module, _, self._name = place.partition(":")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._real.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._real.get_command(ctx, cmd_name)

    @property
    def _real(self) -> click.Group:
        return getattr(import_module(self._module), self._name)


class _LazyCommand(click.Command):
    """The same for a command alone."""

    def __init__(self, name: str, place: str, **more: Any) -> None:
        super().__init__(name, **more)
        self._module, _, self._name = place.partition(":")

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self._real.make_context(info_name, args, parent, **extra)

    def get_help(self, ctx: click.Context) -> str:
        return self._real.get_help(ctx)

    @property
    def _real(self) -> click.Command:
        return getattr(import_module(self._module), self._name)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="carrel %(version)s")
def app() -> None:
    """A desk for an AI assistant in your project, as one MCP server.

    `carrel demo` shows what it does, on a sample. `carrel serve` serves any folder, without settings; `carrel init`
    writes a carrel.toml with every setting explained.
    """


@app.command()
@workspace_option
def init(workspace: Path | None) -> None:
    """Write a carrel.toml with every setting, explained and commented out."""
    from carrel.cli.setup import write_settings_file

    click.echo(f"wrote {write_settings_file(workspace or Path.cwd())}", err=True)


app.add_command(serve)
app.add_command(status)
app.add_command(db)
app.add_command(index)
app.add_command(search)
for name, place, text in (
    ("import", "import_export:import_", "Bring content in: bundles, and Google Search Console's tables."),
    ("export", "import_export:export", "Write content out, as a bundle."),
    (
        "content",
        "content:content",
        """Look at content, and write it by hand.

        A REF names a record: "guide:intro" is an entity's type and slug (--project says of which project, where there
        are several), "sourceItem:https://..." a source's url or title (also "video:..." and "distributionEvent:..."). A
        project's slug is one, and so is any id.
        """,
    ),
    (
        "discoveries",
        "knowledge:discoveries",
        """Write down and look up what was learned about the code base.

        A discovery is a pattern, a rule, a decision or an issue. What is written down here is what context_search
        finds.
        """,
    ),
    (
        "notes",
        "notes:notes",
        """Look at the vault of notes, check it, bring deleted notes back, copy it into Neo4j.

        A note's ID is its path in the vault, such as ideas/garden.md.
        """,
    ),
    (
        "token",
        "auth:token",
        """Make, list and revoke the tokens that open this desk over HTTP, where auth.tokens is set.

        For a small team. A larger one sets auth.issuer, and lets its own OAuth server make them.
        """,
    ),
    ("audit", "auth:audit", "Look at who wrote what and who was refused, where audit.to is database."),
    ("sessions", "knowledge:sessions", "Write down and look up what was done in sessions."),
):
    app.add_command(_LazyGroup(name, f"carrel.cli.{place}", help=text))
for name, place, text in (
    ("doctor", "diagnostics:doctor", "Look everything over, and say what is wrong and its cure."),
    ("demo", "demo:demo", "Try Carrel on a sample workspace: a small bakery's notes, tasks, content and code."),
    ("connect", "setup:connect", "Tell an MCP client of this desk, in its own configuration file."),
    ("completions", "setup:completions", "Print a script that lets a shell complete commands and options."),
):
    app.add_command(_LazyCommand(name, f"carrel.cli.{place}", help=text))
