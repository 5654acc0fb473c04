"""`carrel sessions`: summaries of what was done, by hand."""

import json
import textwrap
from pathlib import Path

import click

from carrel.cli.db import json_option
from carrel.cli.knowledge import (
    SHOWN_CHARACTERS,
    date_option,
    given_date,
    given_text,
    limit_option,
    module_option,
    with_database,
)
from carrel.cli.options import workspace_option
from carrel.common import iso
from carrel.errors import UsageError


@click.group()
def sessions() -> None:
    """The help of this group is in `carrel.cli.app`, which does not read this module for it."""


@sessions.command()
@workspace_option
@json_option
@click.option("--title", metavar="TEXT", help="What the session was about, in a few words.")
@click.option("--module", metavar="NAME", help="The part of the code base that it was about.")
@date_option
@click.argument("summary")
def add(
    workspace: Path | None, as_json: bool, title: str | None, module: str | None, date: str | None, summary: str
) -> None:
    """Write down what was done in a session. SUMMARY - is read from stdin.

    The ID that it prints is what `carrel discoveries add --session ID` takes.

    \b
    carrel sessions add --title "Token refresh" --module auth "Found the race; a mutex around the refresh cures it."
    """
    from carrel.code.knowledge.sessions import InvalidSession, SessionRepository, checked

    given = checked(given_text(summary), title or None, module or None)
    if isinstance(given, InvalidSession):
        raise UsageError("; ".join(map(str, given.faults)))
    moment = given_date(date)
    added = with_database(
        workspace,
        lambda database, name: database.write(lambda session: SessionRepository(session, name).add(given, moment)),
    )
    click.echo(json.dumps(added.as_json(), ensure_ascii=False) if as_json else f"added {added.id}")


@sessions.command("list")
@workspace_option
@json_option
@module_option
@limit_option
def list_(workspace: Path | None, as_json: bool, module: str | None, limit: int) -> None:
    """List summaries of sessions, the newest first."""
    from carrel.code.knowledge.sessions import SessionRepository

    found = with_database(
        workspace,
        lambda database, name: database.read(
            lambda session: SessionRepository(session, name).newest(limit, module=module)
        ),
    )
    if as_json:
        value = {"sessions": [each.as_json() for each in found.sessions], "total": found.total}
        click.echo(json.dumps(value, ensure_ascii=False))
        return
    for each in found.sessions:
        heading = f"{each.title}: " if each.title else ""
        text = textwrap.shorten(heading + each.content, SHOWN_CHARACTERS, placeholder=" ...")
        click.echo(f"{each.id}  {iso(each.date)[:10]}  {each.module or '-':12}  {text}")
    if found.total > len(found.sessions):
        click.echo(f"{found.total - len(found.sessions)} more; see --limit", err=True)
