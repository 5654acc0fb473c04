"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

import sys
from pathlib import Path

from carrel.errors import CarrelError
from carrel.server.launcher import run_server

INTERRUPTED = 130


def main() -> None:
    try:
        match sys.argv[1:]:
            case ["serve"]:
                status = run_server(None)
            case ["serve", "--workspace", folder]:
                status = run_server(Path(folder))
            case _:
                status = _run_command()
    except CarrelError as error:
        sys.stderr.write(f"carrel: {error}\n")
        status = error.exit_status
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


def _run_command() -> int:
    import click

    from carrel.cli.app import app

    try:
        return app.main(prog_name="carrel", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
