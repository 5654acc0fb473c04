"""`carrel` and its commands."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from carrel.cli.db import db
from carrel.cli.options import workspace_option
from carrel.cli.search import index, search
from carrel.cli.serve import serve
from carrel.cli.status import status
from carrel.version import __version__


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
    from carrel.cli.init import write_settings_file

    click.echo(f"wrote {write_settings_file(workspace or Path.cwd())}", err=True)


app.add_command(serve)
app.add_command(status)
app.add_command(db)
app.add_command(index)
app.add_command(search)
for name, place, text in (
    ("import", "imports:import_", "Bring content in: bundles, and Google Search Console's tables."),
    ("export", "imports:export", "Write content out, as a bundle."),
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
        "discoveries:discoveries",
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
        "token:token",
        """Make, list and revoke the tokens that open this desk over HTTP, where auth.tokens is set.

        For a small team. A larger one sets auth.issuer, and lets its own OAuth server make them.
        """,
    ),
    ("audit", "audit:audit", "Look at who wrote what and who was refused, where audit.to is database."),
    ("sessions", "sessions:sessions", "Write down and look up what was done in sessions."),
):
    app.add_command(_LazyGroup(name, f"carrel.cli.{place}", help=text))
for name, place, text in (
    ("doctor", "doctor:doctor", "Look everything over, and say what is wrong and its cure."),
    ("demo", "demo:demo", "Try Carrel on a sample workspace: a small bakery's notes, tasks, content and code."),
    ("connect", "connect:connect", "Tell an MCP client of this desk, in its own configuration file."),
    ("completions", "completions:completions", "Print a script that lets a shell complete commands and options."),
):
    app.add_command(_LazyCommand(name, f"carrel.cli.{place}", help=text))
