"""`carrel audit`: who wrote what, and who was refused."""

import json
import time
from pathlib import Path

import click

from carrel.cli.db import json_option
from carrel.cli.knowledge import limit_option, with_database
from carrel.cli.options import workspace_option

DAY_MS = 86_400_000


@click.group()
def audit() -> None:
    """The help of this group is in `carrel.cli.app`, which does not read this module for it."""


@audit.command()
@workspace_option
@json_option
@click.option("--user", metavar="NAME", help="Of this subject only; an empty one is of nobody known.")
@click.option("--days", type=click.IntRange(1), metavar="N", help="Of the last N days only.")
@limit_option
def show(workspace: Path | None, as_json: bool, user: str | None, days: int | None, limit: int) -> None:
    """Print the newest lines, the newest first: time, subject, address, tool or path, target, outcome."""
    from carrel.common import iso
    from carrel.doors.audit_lines import AuditRepository

    since = 0 if days is None else _days_ago(days)
    found = with_database(
        workspace,
        lambda database, _: database.read(
            lambda session: AuditRepository(session).newest(limit, subject=user, since=since)
        ),
    )
    if as_json:
        lines = [{**each._asdict(), "at": iso(each.at)} for each in found]
        click.echo(json.dumps({"lines": lines}, ensure_ascii=False))
        return
    for each in found:
        who = each.subject or "-"
        click.echo(f"{iso(each.at)}  {who}  {each.client or '-'}  {each.action}  {each.target or '-'}  {each.outcome}")


@audit.command()
@workspace_option
@click.option("--days", type=click.IntRange(1), required=True, metavar="N", help="Keep the last N days.")
def prune(workspace: Path | None, days: int) -> None:
    """Forget lines that are older."""
    from carrel.doors.audit_lines import AuditRepository

    gone = with_database(
        workspace, lambda database, _: database.write(lambda session: AuditRepository(session).prune(_days_ago(days)))
    )
    click.echo(f"forgot {gone} lines")


def _days_ago(days: int) -> int:
    return time.time_ns() // 1_000_000 - days * DAY_MS
