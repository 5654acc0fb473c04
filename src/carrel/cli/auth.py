"""`carrel token` and `carrel audit`: access tokens, and who wrote or was refused what."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carrel.auth.access import SCOPES, SUBJECT
from carrel.cli.db import json_option
from carrel.cli.knowledge import limit_option, with_database
from carrel.cli.terminal import workspace_option
from carrel.errors import UsageError

if TYPE_CHECKING:
    from carrel.auth.tokens import Token


@click.group()
def token() -> None:
    """The help of this group is in `carrel.cli.app`, which does not read this module for it."""


@token.command()
@workspace_option
@json_option
@click.option("--user", required=True, metavar="NAME", help="Whom it speaks for; also the user_id of their tasks.")
@click.option("--scopes", required=True, metavar="A,B", help=f"What it opens: {', '.join(SCOPES)}.")
@click.option(
    "--days", type=click.IntRange(1, 3650), default=90, show_default=True, metavar="N", help="How long it is valid."
)
@click.option("--projects", metavar="A,B", help="The only projects that it opens, by slug or id.  [default: all]")
@click.option("--label", default="", metavar="TEXT", help="What it is for, shown in the list.")
def create(
    workspace: Path | None, as_json: bool, user: str, scopes: str, days: int, projects: str | None, label: str
) -> None:
    """Make a token and print it; it is shown this once.

    \b
    carrel token create --user ana --scopes notes:read,tasks --days 30
    """
    from carrel.auth.tokens import TokenRepository

    if SUBJECT.fullmatch(user) is None:
        raise UsageError("--user must have 1 to 500 characters, none of them control characters")
    wanted = _words(scopes)
    for each in wanted:
        if each not in SCOPES:
            raise UsageError(f"--scopes: there is no {each!r}; known: {', '.join(SCOPES)}")
    if not wanted:
        raise UsageError("--scopes: name at least one")
    only = None if projects is None else _words(projects)
    if only == ():
        raise UsageError("--projects: name at least one, or leave it out")
    text, kept = with_database(
        workspace,
        lambda database, _: database.write(
            lambda session: TokenRepository(session).create(user, wanted, days=days, projects=only, label=label)
        ),
    )
    if as_json:
        click.echo(json.dumps({"token": text, **_shown(kept)}, ensure_ascii=False))
        return
    click.echo(text)
    click.echo(
        f"token {kept.id} for {user}, valid until {_day(kept.expires_at)}; keep it, nobody can show it again", err=True
    )
    if not _takes_tokens(workspace):
        click.echo("auth.tokens is not set yet: until it is, the server asks nobody for a token", err=True)


@token.command("list")
@workspace_option
@json_option
def list_(workspace: Path | None, as_json: bool) -> None:
    """List tokens, the oldest first; never what they are, only whose and for what."""
    from carrel.auth.tokens import TokenRepository

    found = with_database(workspace, lambda database, _: database.read(lambda session: TokenRepository(session).all()))
    if as_json:
        click.echo(json.dumps({"tokens": [_shown(each) for each in found]}, ensure_ascii=False))
        return
    for each in found:
        shown = _shown(each)
        projects = f"  projects {','.join(shown['projects'])}" if shown["projects"] is not None else ""
        label = f"  {each.label}" if each.label else ""
        until = f"until {_day(each.expires_at)}"
        click.echo(
            f"{each.id}  {shown['state']:7}  {until}  {each.subject}  {','.join(shown['scopes'])}{projects}{label}"
        )


@token.command()
@workspace_option
@click.argument("token_id", metavar="ID")
def revoke(workspace: Path | None, token_id: str) -> None:
    """Make a token open nothing any more, from the next request on."""
    from carrel.auth.tokens import PREFIX, TokenRepository

    name = token_id.removeprefix(PREFIX).partition("_")[0]
    done = with_database(
        workspace, lambda database, _: database.write(lambda session: TokenRepository(session).revoke(name))
    )
    if not done:
        raise UsageError(f"there is no token {name} that is not revoked already; see carrel token list")
    click.echo(f"revoked {name}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def _shown(kept: "Token") -> dict[str, Any]:
    from carrel.auth.tokens import now_ms

    return {
        "id": kept.id,
        "user": kept.subject,
        "scopes": kept.scopes.split(),
        "projects": None if kept.projects is None else kept.projects.split(),
        "label": kept.label,
        "state": kept.state(now_ms()),
        "createdAt": _time(kept.created_at),
        "expiresAt": _time(kept.expires_at),
        "revokedAt": None if kept.revoked_at is None else _time(kept.revoked_at),
    }


def _time(milliseconds: int) -> str:
    from carrel.common import iso

    return iso(milliseconds)


def _day(milliseconds: int) -> str:
    return _time(milliseconds)[:10]


def _takes_tokens(workspace: Path | None) -> bool:
    from carrel.workspace import find_workspace

    return find_workspace(workspace).settings.auth.tokens


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
    from carrel.auth.audit_repository import AuditRepository
    from carrel.common import iso

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
    from carrel.auth.audit_repository import AuditRepository

    gone = with_database(
        workspace, lambda database, _: database.write(lambda session: AuditRepository(session).prune(_days_ago(days)))
    )
    click.echo(f"forgot {gone} lines")


def _days_ago(days: int) -> int:
    return time.time_ns() // 1_000_000 - days * DAY_MS
