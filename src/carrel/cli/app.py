"""`carrel` and its commands."""

from pathlib import Path

import click

from carrel.cli.db import db
from carrel.cli.options import workspace_option
from carrel.cli.serve import serve
from carrel.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="carrel %(version)s")
def app() -> None:
    """A desk for an AI assistant in your project, as one MCP server.

    Start with `carrel serve` in any folder: it needs no settings. `carrel init` writes a carrel.toml with every
    setting explained.
    """


@app.command()
@workspace_option
def init(workspace: Path | None) -> None:
    """Write a carrel.toml with every setting, explained and commented out."""
    from carrel.cli.init import write_settings_file

    click.echo(f"wrote {write_settings_file(workspace or Path.cwd())}", err=True)


app.add_command(serve)
app.add_command(db)
