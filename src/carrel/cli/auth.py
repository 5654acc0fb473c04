"""`carrel token` and `carrel audit`: access tokens and the audit log."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carrel.auth.access import SCOPES, SUBJECT_PATTERN
from carrel.cli.db import json_option
from carrel.cli.knowledge import limit_option, with_database
from carrel.cli.terminal import workspace_option
from carrel.errors import UsageError

if TYPE_CHECKING:
    from carrel.auth.tokens import Token


@click.group()
def token() -> None:
    """Group the commands; the help text is in `carrel.cli.app`, which imports this module lazily."""


@token.command()
@workspace_option
@json_option
@click.option(
    "--user",
    required=True,
    metavar="NAME",
    help="The user that the token authenticates, which is also the user_id of their tasks.",
)
@click.option("--scopes", required=True, metavar="A,B", help=f"What it gives access to: {', '.join(SCOPES)}.")
@click.option(
    "--days", type=click.IntRange(1, 3650), default=90, show_default=True, metavar="N", help="Days until it expires."
)
@click.option("--projects", metavar="A,B", help="Limit it to these projects, by slug or ID.  [default: all]")
@click.option("--label", default="", metavar="TEXT", help="A note to yourself, shown by carrel token list.")
def create(
    workspace: Path | None, as_json: bool, user: str, scopes: str, days: int, projects: str | None, label: str
) -> None:
    """Create a token and print it. It cannot be shown again.

    \b
    carrel token create --user ana --scopes notes:read,tasks --days 30
    """
    from carrel.auth.tokens import TokenRepository

    if SUBJECT_PATTERN.fullmatch(user) is None:
        raise UsageError("--user must have 1 to 500 characters and no control characters")
    wanted_scopes = _words(scopes)
    for each in wanted_scopes:
        if each not in SCOPES:
            raise UsageError(f"--scopes: unknown scope {each!r}; the scopes are {', '.join(SCOPES)}")
    if not wanted_scopes:
        raise UsageError("--scopes: give at least one")
    allowed_projects = None if projects is None else _words(projects)
    if allowed_projects == ():
        raise UsageError("--projects: give at least one, or leave the option out")
    secret, token = with_database(
        workspace,
        lambda database, _: database.write(
            lambda session: TokenRepository(session).create(
                user, wanted_scopes, days=days, projects=allowed_projects, label=label
            )
        ),
    )
    if as_json:
        click.echo(json.dumps({"token": secret, **_token_as_json(token)}, ensure_ascii=False))
        return
    click.echo(secret)
    click.echo(
        f"token {token.id} for {user}, valid until {_day(token.expires_at)}; save it now, it cannot be shown again",
        err=True,
    )
    if not _accepts_tokens(workspace):
        click.echo("warning: auth.tokens is not set, so the server does not ask for tokens yet", err=True)


@token.command("list")
@workspace_option
@json_option
def list_(workspace: Path | None, as_json: bool) -> None:
    """List tokens, oldest first, without their secrets."""
    from carrel.auth.tokens import TokenRepository

    found = with_database(workspace, lambda database, _: database.read(lambda session: TokenRepository(session).all()))
    if as_json:
        click.echo(json.dumps({"tokens": [_token_as_json(each) for each in found]}, ensure_ascii=False))
        return
    for each in found:
        shown = _token_as_json(each)
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
    """Revoke a token, effective with the next request."""
    from carrel.auth.tokens import PREFIX, TokenRepository

    public_id = token_id.removeprefix(PREFIX).partition("_")[0]
    was_revoked = with_database(
        workspace, lambda database, _: database.write(lambda session: TokenRepository(session).revoke(public_id))
    )
    if not was_revoked:
        raise UsageError(f"no active token {public_id}; see carrel token list")
    click.echo(f"revoked {public_id}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


def _token_as_json(token: "Token") -> dict[str, Any]:
    from carrel.auth.tokens import now_ms

    return {
        "id": token.id,
        "user": token.subject,
        "scopes": token.scopes.split(),
        "projects": None if token.projects is None else token.projects.split(),
        "label": token.label,
        "state": token.state(now_ms()),
        "createdAt": _time(token.created_at),
        "expiresAt": _time(token.expires_at),
        "revokedAt": None if token.revoked_at is None else _time(token.revoked_at),
    }


def _time(milliseconds: int) -> str:
    from carrel.common import iso

    return iso(milliseconds)


def _day(milliseconds: int) -> str:
    return _time(milliseconds)[:10]


def _accepts_tokens(workspace: Path | None) -> bool:
    from carrel.workspace import find_workspace

    return find_workspace(workspace).settings.auth.tokens


DAY_MS = 86_400_000


@click.group()
def audit() -> None:
    """Group the commands; the help text is in `carrel.cli.app`, which imports this module lazily."""


@audit.command()
@workspace_option
@json_option
@click.option("--user", metavar="NAME", help="Show only this user; an empty name shows requests without one.")
@click.option("--days", type=click.IntRange(1), metavar="N", help="Show only the last N days.")
@limit_option
def show(workspace: Path | None, as_json: bool, user: str | None, days: int | None, limit: int) -> None:
    """Show the audit log, newest first.

    Each line has the time, user, client address, tool or path, target, and outcome.
    """
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
        subject = each.subject or "-"
        click.echo(
            f"{iso(each.at)}  {subject}  {each.client or '-'}  {each.action}  {each.target or '-'}  {each.outcome}"
        )


@audit.command()
@workspace_option
@click.option("--days", type=click.IntRange(1), required=True, metavar="N", help="Keep only the last N days.")
def prune(workspace: Path | None, days: int) -> None:
    """Delete old lines of the audit log."""
    from carrel.auth.audit_repository import AuditRepository

    deleted = with_database(
        workspace, lambda database, _: database.write(lambda session: AuditRepository(session).prune(_days_ago(days)))
    )
    click.echo(f"deleted {deleted} lines")


def _days_ago(days: int) -> int:
    return time.time_ns() // 1_000_000 - days * DAY_MS
