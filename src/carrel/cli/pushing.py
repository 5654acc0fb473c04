"""`carrel notes push`: a vault, copied into Neo4j."""

import json
from pathlib import Path

import click

from carrel.cli.db import json_option
from carrel.cli.options import workspace_option
from carrel.cli.progress import bars


@click.command()
@workspace_option
@json_option
def push(workspace: Path | None, as_json: bool) -> None:
    """Copy the vault into Neo4j, where notes.neo4j_url says.

    Notes that were made in the database stay there. The same again changes nothing.
    """
    import asyncio
    from contextlib import AsyncExitStack

    from carrel.notes.neo4j.vault_copy import Pushed, notes_of
    from carrel.notes.neo4j.vault_copy import push as push_notes
    from carrel.workspace import find_workspace

    found = find_workspace(workspace)
    vault = found.vault()

    async def copy() -> Pushed:
        async with AsyncExitStack() as stack:
            progress = stack.enter_context(bars())
            store = found.note_database(stack)
            told = 0

            def tell(done: int, total: int) -> None:
                nonlocal told
                progress("pushing", done - told, total)
                told = done

            return await push_notes(store, notes_of(vault), sum(1 for _ in vault.scan()), tell)

    pushed = asyncio.run(copy())
    if as_json:
        click.echo(json.dumps(pushed._asdict()))
    else:
        click.echo(f"{pushed.written} of {pushed.total} notes written, {pushed.removed} removed")
