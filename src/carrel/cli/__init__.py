"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

import sys

import click

from carrel.cli.app import app
from carrel.errors import CarrelError

INTERRUPTED = 130


def main() -> None:
    try:
        status = app.main(prog_name="carrel", standalone_mode=False)
    except CarrelError as error:
        sys.stderr.write(f"carrel: {error}\n")
        status = error.exit_status
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = INTERRUPTED
    sys.exit(status or 0)
