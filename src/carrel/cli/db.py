"""`carrel db`: the database's upkeep."""

import json
from pathlib import Path

import click

from carrel.cli.terminal import counter, workspace_option
from carrel.storage.database import Location

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")


@click.group()
def db() -> None:
    """Look after the database: upgrade, check, back up, restore."""


@db.command()
@workspace_option
@json_option
def upgrade(workspace: Path | None, as_json: bool) -> None:
    """Bring the schema to this program's revision.

    A SQLite file is copied aside first (and a server does all this by itself when it starts). On PostgreSQL
    an advisory lock lets one upgrade run at a time.
    """
    from carrel.storage.admin import upgrade as upgrade_schema

    location = _location(workspace)
    before, after = upgrade_schema(location)
    done = "already at" if before == after else f"upgraded from {before or 'nothing'} to"
    _report(as_json, {"before": before, "after": after}, f"{location}: {done} revision {after}")


@db.command()
@workspace_option
@json_option
@click.pass_context
def check(context: click.Context, workspace: Path | None, as_json: bool) -> None:
    """Check integrity and schema; exit status 1 when anything is wrong."""
    from carrel.storage.admin import integrity_problems

    location = _location(workspace)
    found = integrity_problems(location)
    _report(as_json, {"ok": not found, "integrity_problems": found}, "\n".join(found) or f"{location}: all is well")
    context.exit(1 if found else 0)


@db.command()
@workspace_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(workspace: Path | None, as_json: bool, file: Path) -> None:
    """Write everything to FILE, consistently, while servers go on.

    The file is the same for SQLite and PostgreSQL: restore it into either, which is also how to move from one
    to the other.
    """
    from carrel.storage.backup import write_backup

    location = _location(workspace)
    with counter("backing up", "rows") as progress:
        counts = write_backup(location, file, progress)
    _report(as_json, {"file": str(file), "rows": counts}, f"wrote {sum(counts.values())} rows to {file}")


@db.command()
@workspace_option
@json_option
@click.option("--replace", is_flag=True, help="Put the backup in the place of what is there.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def restore(workspace: Path | None, as_json: bool, replace: bool, file: Path) -> None:
    """Put back what FILE holds, all of it or nothing.

    A database that has rows is left alone unless --replace is given; a SQLite file is then copied aside
    first.
    """
    from carrel.storage.backup import restore as restore_backup

    location = _location(workspace)
    with counter("restoring", "rows") as progress:
        counts = restore_backup(location, file, replace=replace, progress=progress)
    _report(as_json, {"file": str(file), "rows": counts}, f"restored {sum(counts.values())} rows from {file}")


def _location(workspace: Path | None) -> Location:
    from carrel.workspace import find_workspace

    return find_workspace(workspace).location


def _report(as_json: bool, value: object, text: str) -> None:
    click.echo(json.dumps(value) if as_json else text)
