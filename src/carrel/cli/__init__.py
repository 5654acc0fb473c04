"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

import sys

from carrel.cli.app import app
from carrel.errors import CarrelError


def main() -> None:
    try:
        app(prog_name="carrel")
    except CarrelError as error:
        sys.stderr.write(f"carrel: {error}\n")
        sys.exit(error.exit_status)
