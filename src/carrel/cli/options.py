"""Options that commands share."""

from pathlib import Path

import click

workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The project's folder. Default: the nearest one upwards with a carrel.toml, else the current one.",
)
