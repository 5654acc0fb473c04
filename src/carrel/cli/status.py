"""`carrel status`: how the tools of a workspace are used."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from carrel.cli.db import json_option
from carrel.cli.options import workspace_option

if TYPE_CHECKING:
    from carrel.calls.counters import ToolUse
    from carrel.code.knowledge.accesses import Access
    from carrel.storage.database import Database

FILES = 10


@click.command()
@workspace_option
@json_option
@click.option(
    "--files", type=click.IntRange(0, 1000), default=FILES, show_default=True, metavar="N", help="Files at most."
)
def status(workspace: Path | None, as_json: bool, files: int) -> None:
    """Show how often each tool was called, how long it took, and the files most read.

    Counted over all servers of this workspace since it was made; p50 is the time that half of the calls took at most.
    Refused are calls that were wrong, limited those past their rate limit, and errors those that failed here.
    """
    from carrel.cli.knowledge import with_database

    async def look(database: "Database", code_base: str) -> "tuple[list[ToolUse], list[Access]]":
        from carrel.calls.counters import tool_uses
        from carrel.code.knowledge.accesses import AccessRepository

        uses = await tool_uses(database, code_base)
        return uses, await database.read(lambda session: AccessRepository(session, code_base).most_read(files))

    uses, most_read = with_database(workspace, look)
    if as_json:
        click.echo(json.dumps(_as_json(uses, most_read)))
        return
    if not uses:
        click.echo("no tool was called yet", err=True)
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


def _as_json(uses: "list[ToolUse]", most_read: "list[Access]") -> dict[str, object]:
    from carrel.common import iso

    return {
        "tools": [use._asdict() for use in uses],
        "files": [{"path": each.path, "reads": each.reads, "lastRead": iso(each.last)} for each in most_read],
    }
