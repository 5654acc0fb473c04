"""`carrel db`: database maintenance."""

import json
from pathlib import Path

import click

from carrel.cli.terminal import counter, workspace_option
from carrel.storage.database import Location

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")


@click.group()
def db() -> None:
    """Upgrade, check, back up, or restore the database."""


@db.command()
@workspace_option
@json_option
def upgrade(workspace: Path | None, as_json: bool) -> None:
    """Upgrade the database schema to this version.

    A SQLite file is backed up first; a server upgrades its own SQLite file when it starts. On PostgreSQL an advisory
    lock ensures that only one upgrade runs at a time.
    """
    from carrel.storage.admin import upgrade as upgrade_schema

    location = _location(workspace)
    before, after = upgrade_schema(location)
    verb = "already at" if before == after else f"upgraded from {before or 'nothing'} to"
    _report(as_json, {"before": before, "after": after}, f"{location}: {verb} revision {after}")


@db.command()
@workspace_option
@json_option
@click.pass_context
def check(context: click.Context, workspace: Path | None, as_json: bool) -> None:
    """Check the database's integrity and schema.

    Exits with status 1 if it finds a problem.
    """
    from carrel.storage.admin import integrity_problems

    location = _location(workspace)
    problems = integrity_problems(location)
    _report(as_json, {"ok": not problems, "faults": problems}, "\n".join(problems) or f"{location}: no problems found")
    context.exit(1 if problems else 0)


@db.command()
@workspace_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(workspace: Path | None, as_json: bool, file: Path) -> None:
    """Back up the database to FILE while servers run.

    The backup is a consistent snapshot. Its format is the same for SQLite and PostgreSQL, so you can restore it into
    either; that is also how you move from one to the other.
    """
    from carrel.storage.backup import write_backup

    location = _location(workspace)
    with counter("backing up", "rows") as progress:
        counts = write_backup(location, file, progress)
    _report(as_json, {"file": str(file), "rows": counts}, f"wrote {sum(counts.values())} rows to {file}")


@db.command()
@workspace_option
@json_option
@click.option("--replace", is_flag=True, help="Replace the data that is in the database.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def restore(workspace: Path | None, as_json: bool, replace: bool, file: Path) -> None:
    """Restore a backup from FILE, in one transaction.

    A database that is not empty is left unchanged unless you pass --replace; a SQLite file is then backed up first.
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
