"""`carrel status` and `carrel doctor`: tool usage, and problems of a workspace."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from carrel.cli.db import json_option
from carrel.cli.terminal import workspace_option

if TYPE_CHECKING:
    from carrel.calls.counters import ToolUse
    from carrel.code.knowledge.accesses import Access
    from carrel.doctor import Finding
    from carrel.storage.database import Database

FILES = 10


@click.command()
@workspace_option
@json_option
@click.option(
    "--files",
    type=click.IntRange(0, 1000),
    default=FILES,
    show_default=True,
    metavar="N",
    help="Maximum number of files to show.",
)
def status(workspace: Path | None, as_json: bool, files: int) -> None:
    """Show tool calls, errors, latency, and most-read files.

    Counts cover all servers of this workspace since it was created. p50, p95, and p99 are latency percentiles. Refused
    calls had invalid arguments, limited calls exceeded a rate limit, and errors are failures of the server.
    """
    from carrel.cli.knowledge import with_database

    async def look(database: "Database", code_base: str) -> "tuple[list[ToolUse], list[Access]]":
        from carrel.calls.counters import tool_uses
        from carrel.code.knowledge.accesses import AccessRepository

        uses = await tool_uses(database, code_base)
        return uses, await database.read(lambda session: AccessRepository(session, code_base).most_read(files))

    uses, most_read = with_database(workspace, look)
    if as_json:
        click.echo(json.dumps(_use_as_json(uses, most_read)))
        return
    if not uses:
        click.echo("no tools have been called yet", err=True)
        return
    click.echo(
        f"{'':32} {'calls':>8} {'errors':>7} {'refused':>8} {'limited':>8} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9}"
    )
    for use in uses:
        numbers = f"{use.calls:8} {use.errors:7} {use.refused:8} {use.limited:8}"
        click.echo(f"{use.toolset + ' ' + use.tool:32} {numbers} {use.p50:9.2f} {use.p95:9.2f} {use.p99:9.2f}")
    if most_read:
        click.echo(f"\n{'reads':>8}  file")
    for each in most_read:
        click.echo(f"{each.reads:8}  {each.path}")


def _use_as_json(uses: "list[ToolUse]", most_read: "list[Access]") -> dict[str, object]:
    from carrel.common import iso

    return {
        "tools": [use._asdict() for use in uses],
        "files": [{"path": each.path, "reads": each.reads, "lastRead": iso(each.last)} for each in most_read],
    }


COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@workspace_option
@json_option
@click.pass_context
def doctor(context: click.Context, workspace: Path | None, as_json: bool) -> None:
    """Check the workspace and suggest fixes.

    Checks settings, database, programs, vault, embeddings, port, permissions, and auth. Each line shows what was found
    and, for warnings and problems, how to fix it. Nothing is created or changed. Exits with status 1 if there is a
    problem; warnings do not count.
    """
    from carrel.doctor import examine

    logging.disable(logging.CRITICAL)  # findings are printed below; the log would repeat them
    try:
        findings = examine(workspace, os.environ, _hint)
    finally:
        logging.disable(logging.NOTSET)
        _clear_hint()
    counts = {state: sum(each.state == state for each in findings) for state in COLOURS}
    if as_json:
        value = {
            "ok": not counts["problem"],
            "counts": counts,
            "findings": [_finding_as_json(each) for each in findings],
        }
        click.echo(json.dumps(value))
    else:
        _show(findings)
        many = {"warning": "warnings", "problem": "problems"}
        told = (f"{count} {many.get(state, state) if count != 1 else state}" for state, count in counts.items())
        click.echo(f"{len(findings)} findings: {', '.join(told)}")
    context.exit(1 if counts["problem"] else 0)


def _finding_as_json(finding: "Finding") -> dict[str, str]:
    return {"check": finding.check, "state": finding.state, "seen": finding.seen, "cure": finding.cure}


def _show(findings: "Sequence[Finding]") -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        state = click.style(f"{each.state:7}", fg=COLOURS[each.state])
        click.echo(f"{state}  {each.check:{width}}  {each.seen}")
        if each.cure:
            click.echo(f"{'':{width + 11}}cure: {each.cure}")


def _hint(names: Sequence[str]) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kstill checking {', '.join(names)} ...", err=True, nl=False)


def _clear_hint() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
