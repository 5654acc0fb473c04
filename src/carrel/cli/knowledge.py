"""`carrel discoveries` and `carrel sessions`: what was learned about the code base, and summaries of sessions."""

import json
import os
import re
import sys
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from carrel.cli.db import json_option
from carrel.cli.terminal import bars, counter, workspace_option
from carrel.code.knowledge.discoveries import TYPES, Discovery, InvalidDiscovery, NewDiscovery, validated
from carrel.common import INSTANT_FORMATS, instant, iso
from carrel.errors import CarrelError, UsageError

if TYPE_CHECKING:
    from carrel.code.knowledge.discoveries import DiscoveryRepository
    from carrel.storage.database import Database

T = TypeVar("T")

MAX_SHOWN_CHARACTERS = 100

type_option = click.option("--type", "type_", type=click.Choice(TYPES), help="Show only this type.")
module_option = click.option("--module", metavar="NAME", help="Show only this module.")
limit_option = click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Maximum number to show."
)
date_option = click.option("--date", metavar="DATE", help=f"When it happened: {INSTANT_FORMATS}.  [default: now]")


def read_text(argument: str) -> str:
    """Return an argument, or stdin without its trailing newlines if the argument is `-`."""
    if argument != "-":
        return argument
    try:
        return sys.stdin.buffer.read().decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError("stdin must be UTF-8") from error


def parse_date(text: str | None) -> int | None:
    moment = None if text is None else instant(text)
    if text is not None and moment is None:
        raise UsageError(f"--date must be {INSTANT_FORMATS}")
    return moment


def with_database(workspace: Path | None, work: "Callable[[Database, str], Awaitable[T]]") -> T:
    """Run `work` with the workspace's database and the name of its code base."""
    import asyncio

    from carrel.storage.schema_version import open_database
    from carrel.workspace import find_workspace

    found = find_workspace(workspace)

    async def run() -> T:
        database = await open_database(found.location, pool_size=1)
        try:
            return await work(database, found.code_base)
        finally:
            await database.close()

    return asyncio.run(run())


EXPORT_TIMEOUT_SECONDS = 600


@click.group()
def discoveries() -> None:
    """Group the commands; the help text is in `carrel.cli.app`, which imports this module lazily."""


@discoveries.command("add")
@workspace_option
@json_option
@click.option("--type", "type_", type=click.Choice(TYPES), required=True, help="Kind of discovery.")
@click.option("--module", metavar="NAME", help="Module that it is about.")
@click.option("--session", metavar="ID", help="Session in which it was learned.")
@date_option
@click.argument("content")
def add_discovery(
    workspace: Path | None, as_json: bool, type_: str, content: str, date: str | None, **fields: Any
) -> None:
    """Record a discovery.

    If CONTENT is -, it is read from stdin.

    \b
    carrel discoveries add --type pattern --module auth "Tokens live in httpOnly cookies"
    git log -1 --format=%B | carrel discoveries add --type decision -
    """
    given = _valid(validated(type_, read_text(content), fields["module"] or None, fields["session"] or None))
    moment = parse_date(date)
    added = _write(workspace, lambda repository: repository.add(given, moment))
    click.echo(_json(added) if as_json else f"added {added.id}")


@discoveries.command("list")
@workspace_option
@json_option
@type_option
@module_option
@limit_option
def list_discoveries(workspace: Path | None, as_json: bool, type_: Any, module: str | None, limit: int) -> None:
    """List discoveries, newest first.

    \b
    carrel discoveries list --type rule --module auth
    """
    found = _read(workspace, lambda repository: repository.newest(limit, type=type_, module=module))
    if as_json:
        value = {"discoveries": [each.as_json() for each in found.discoveries], "total": found.total}
        click.echo(json.dumps(value, ensure_ascii=False))
        return
    for each in found.discoveries:
        text = textwrap.shorten(each.content, MAX_SHOWN_CHARACTERS, placeholder=" ...")
        click.echo(f"{each.id[:8]}  {iso(each.date)[:10]}  {each.type:8}  {each.module or '-':12}  {text}")
    if found.total > len(found.discoveries):
        click.echo(f"{found.total - len(found.discoveries)} more; see --limit", err=True)


@discoveries.command()
@workspace_option
@json_option
@click.argument("discovery_id", metavar="ID")
def show(workspace: Path | None, as_json: bool, discovery_id: str) -> None:
    """Show a discovery.

    ID may be shortened as long as it is unambiguous.
    """
    found = _read(workspace, lambda repository: _find(repository, discovery_id))
    if as_json:
        click.echo(_json(found))
        return
    for name, value in found.as_json().items():
        if value is not None and name != "content":
            click.echo(f"{name + ':':10} {value}")
    click.echo(f"\n{found.content}")


@discoveries.command()
@workspace_option
@json_option
@click.option("--type", "type_", type=click.Choice(TYPES), help="Kind of discovery.")
@click.option("--module", metavar="NAME", help='Module that it is about; "" for none.')
@click.option("--session", metavar="ID", help='Session in which it was learned; "" for none.')
@click.option("--content", metavar="TEXT", help="New text; - reads it from stdin.")
@click.argument("discovery_id", metavar="ID")
def edit(workspace: Path | None, as_json: bool, discovery_id: str, type_: str | None, **fields: str | None) -> None:
    """Change fields of a discovery.

    Its date and all other fields keep their values.

    \b
    carrel discoveries edit 3f2a --type rule --module ""
    """
    if type_ is None and all(value is None for value in fields.values()):
        raise UsageError("nothing to change; pass an option for each field to change, such as --content")
    content = None if fields["content"] is None else read_text(fields["content"])

    async def change(repository: "DiscoveryRepository") -> tuple[bool, Discovery]:
        found = await _find(repository, discovery_id)
        kept = {
            name: found._asdict()[name] if fields[name] is None else fields[name] or None for name in _OPTIONAL_FIELDS
        }
        given = validated(type_ or found.type, found.content if content is None else content, **kept)
        wanted = Discovery(found.id, *_valid(given), found.date)
        return wanted != found and await repository.change(wanted), wanted

    is_changed, now = _write(workspace, change)
    text = f"changed {now.id}" if is_changed else f"{now.id} is unchanged"
    click.echo(_json(now) if as_json else text)


_OPTIONAL_FIELDS = ("module", "session")


@discoveries.command()
@workspace_option
@json_option
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def remove(workspace: Path | None, as_json: bool, ids: Sequence[str]) -> None:
    """Remove discoveries.

    If any ID does not exist, nothing is removed.
    """

    async def work(repository: "DiscoveryRepository") -> list[str]:
        found = dict.fromkeys([(await _find(repository, each)).id for each in ids])
        return [each for each in found if await repository.remove(each)]

    removed = _write(workspace, work)
    click.echo(json.dumps({"removed": removed}) if as_json else "\n".join(f"removed {each}" for each in removed))


@discoveries.command("import")
@workspace_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
def import_(workspace: Path | None, as_json: bool, file: Path) -> None:
    """Import discoveries from FILE, or from stdin if it is -.

    FILE is JSON Lines. Each line is an object with type (pattern, rule, decision, or issue), content, and optionally
    module, session, date, and id. Importing the same line again changes nothing; a line with the ID of an existing
    discovery updates it. The import is all or nothing: if any line is invalid, nothing is written and every error is
    listed with its line number.

    \b
    carrel discoveries import learned.jsonl
    echo '{"type": "rule", "content": "No SQL outside repositories"}' | carrel discoveries import -
    """
    from carrel.code.knowledge.discovery_exchange import DiscoveryImportError, import_discoveries, read_lines

    try:
        with click.open_file(str(file), "rb") as lines:
            incoming = read_lines(lines)
    except DiscoveryImportError as rejection:
        if not as_json:
            raise
        faults = [{"line": fault.line, "message": fault.message} for fault in rejection.errors]
        click.echo(json.dumps({"ok": False, "faults": faults}, ensure_ascii=False))
        click.get_current_context().exit(rejection.exit_status)
    except OSError as error:
        raise CarrelError(f"cannot read {file}: {error.strerror}") from error
    with bars() as progress:
        report = _write(
            workspace,
            lambda repository: import_discoveries(
                repository, incoming, lambda more: progress("writing", more, max(1, len(incoming)))
            ),
        )
    counts = {"added": report.added, "updated": report.updated, "unchanged": report.unchanged}
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    click.echo(json.dumps({"ok": True, **counts}) if as_json else text)


@discoveries.command()
@workspace_option
@json_option
@click.option("--replace", is_flag=True, help="Overwrite FILE if it exists.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-")
def export(workspace: Path | None, as_json: bool, replace: bool, file: Path) -> None:
    """Export discoveries as JSON Lines, to FILE or stdout.

    The export has every ID and date, so importing it, here or elsewhere, restores the same discoveries.
    """
    from carrel.code.knowledge.discovery_exchange import export_lines

    is_stdout = str(file) == "-"
    if not is_stdout and file.exists() and not replace:
        raise UsageError(f"{file} already exists; pass --replace to overwrite it")

    async def collect(repository: "DiscoveryRepository") -> list[str]:
        return [line async for line in export_lines(repository)]

    with counter("exporting", "discoveries") as progress:
        lines = _read(workspace, collect)
        progress(len(lines))
    if is_stdout:
        for line in lines:
            click.echo(line)
        return
    try:
        part = file.with_name(f".{file.name}.{os.getpid()}")
        part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        part.replace(file)
    except OSError as error:
        raise CarrelError(f"cannot write {file}: {error.strerror}") from error
    text = f"wrote {len(lines)} discoveries to {file}"
    click.echo(json.dumps({"file": str(file), "discoveries": len(lines)}) if as_json else text)


def _read(workspace: Path | None, work: "Callable[[DiscoveryRepository], Awaitable[T]]") -> T:
    from carrel.code.knowledge.discoveries import DiscoveryRepository

    return with_database(
        workspace,
        lambda database, name: database.snapshot(
            lambda session: work(DiscoveryRepository(session, name)), seconds=EXPORT_TIMEOUT_SECONDS
        ),
    )


def _write(workspace: Path | None, work: "Callable[[DiscoveryRepository], Awaitable[T]]") -> T:
    from carrel.code.knowledge.discoveries import DiscoveryRepository

    return with_database(
        workspace, lambda database, name: database.write(lambda session: work(DiscoveryRepository(session, name)))
    )


async def _find(repository: "DiscoveryRepository", prefix: str) -> Discovery:
    found = await repository.with_prefix(prefix) if re.fullmatch("[0-9a-fA-F-]+", prefix) else []
    if not found:
        raise UsageError(f"no discovery {prefix!r}; carrel discoveries list shows all")
    if len(found) > 1:
        raise UsageError(f"{prefix!r} is ambiguous; give more of the ID")
    return found[0]


def _valid(given: NewDiscovery | InvalidDiscovery) -> NewDiscovery:
    if isinstance(given, InvalidDiscovery):
        raise UsageError("; ".join(map(str, given.errors)))
    return given


def _json(discovery: Discovery) -> str:
    return json.dumps(discovery.as_json(), ensure_ascii=False)


@click.group()
def sessions() -> None:
    """Group the commands; the help text is in `carrel.cli.app`, which imports this module lazily."""


@sessions.command("add")
@workspace_option
@json_option
@click.option("--title", metavar="TEXT", help="Short title of the session.")
@click.option("--module", metavar="NAME", help="Module that it was about.")
@date_option
@click.argument("summary")
def add_session(
    workspace: Path | None, as_json: bool, title: str | None, module: str | None, date: str | None, summary: str
) -> None:
    """Record a summary of a session and print its ID.

    If SUMMARY is -, it is read from stdin. Pass the ID to `carrel discoveries add --session ID` to link discoveries to
    the session.

    \b
    carrel sessions add --title "Token refresh" --module auth "Found the race; a mutex around the refresh cures it."
    """
    from carrel.code.knowledge.sessions import InvalidSession, SessionRepository, validated

    given = validated(read_text(summary), title or None, module or None)
    if isinstance(given, InvalidSession):
        raise UsageError("; ".join(map(str, given.errors)))
    moment = parse_date(date)
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
def list_sessions(workspace: Path | None, as_json: bool, module: str | None, limit: int) -> None:
    """List summaries of sessions, newest first."""
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
        text = textwrap.shorten(heading + each.content, MAX_SHOWN_CHARACTERS, placeholder=" ...")
        click.echo(f"{each.id}  {iso(each.date)[:10]}  {each.module or '-':12}  {text}")
    if found.total > len(found.sessions):
        click.echo(f"{found.total - len(found.sessions)} more; see --limit", err=True)
