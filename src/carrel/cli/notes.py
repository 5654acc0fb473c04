"""`carrel notes`: list, show, check, restore, and copy the notes of a vault.

Commands read the vault's files themselves, without a watcher, and reuse the index cache of a server if there is one.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from carrel.cli.db import json_option
from carrel.cli.terminal import bars, workspace_option
from carrel.common import StepProgress
from carrel.errors import CarrelError, UsageError
from carrel.notes.vault_report import KINDS, Finding

if TYPE_CHECKING:
    from carrel.notes.file_store import FileStore
    from carrel.notes.graph import Node
    from carrel.notes.index import Index

T = TypeVar("T")

POLL_INTERVAL_SECONDS = 0.2


async def read_vault(index: "Index", progress: StepProgress) -> None:
    """Wait until the index has read every note, reporting progress meanwhile."""
    import asyncio

    waiting = asyncio.create_task(index.wait_until_ready(no_timeout=True))
    reported = 0
    try:
        while not (await asyncio.wait([waiting], timeout=POLL_INTERVAL_SECONDS))[0]:
            done, total = index.progress
            if total:
                progress("reading", done - reported, total)
                reported = done
        await waiting
    finally:
        waiting.cancel()


def with_vault(workspace: Path | None, job: "Callable[[FileStore, StepProgress], Awaitable[T]]") -> T:
    """Run `job` on the store of the workspace's vault, once its index is complete, and return the job's result."""
    import asyncio
    from contextlib import AsyncExitStack

    from carrel.workspace import find_workspace

    found = find_workspace(workspace)
    found.vault()

    async def run() -> T:
        async with AsyncExitStack() as stack:
            progress = stack.enter_context(bars())
            store = await found.note_files(stack, watch=False)
            await read_vault(store.index, progress)
            return await job(store, progress)

    return asyncio.run(run())


def line(text: str) -> str:
    """Escape characters that a terminal would not print, so that the text stays on one line."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


MAX_STATS_ROWS = 10
"""Tags and hubs that `carrel notes stats` lists."""


@click.group()
def notes() -> None:
    """Group the commands; the help text is in `carrel.cli.app`, which imports this module lazily."""


@notes.command("list")
@workspace_option
@json_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Show only notes with this tag; repeat for several.")
@click.option("--folder", metavar="DIR", default="", help="Show only notes in this folder or below it.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Maximum number to show."
)
def list_(workspace: Path | None, as_json: bool, tags: Sequence[str], folder: str, limit: int) -> None:
    """List notes with their links, titles, and tags.

    \b
    carrel notes list --tag idea --folder projects/2026
    """
    from carrel.notes.note_names import key

    below = "/".join(part for part in key(folder).split("/") if part not in ("", "."))

    async def job(store: "FileStore", _progress: StepProgress) -> "list[Node]":
        graph = store.index.graph
        wanted = [tag.lstrip("#") for tag in tags]
        found = graph.find_by_tags(wanted, all_of_them=True, limit=len(graph)) if tags else sorted(graph, key=_id)
        return [node for node in found if node.folder.startswith(f"{below}/")] if below else found

    found = with_vault(workspace, job)
    if as_json:
        _print_json({"notes": [_listed(node) for node in found[:limit]], "total": len(found)})
        return
    for node in found[:limit]:
        marks = "".join(f"  #{tag}" for tag in node.facts.tags)
        click.echo(f"{line(node.id):40} {len(node.into):4} in {len(node.out):4} out  {line(node.facts.title + marks)}")
    if len(found) > limit:
        click.echo(f"{len(found) - limit} more; see --limit", err=True)
    elif not found:
        click.echo("no matching notes" if tags or below else "the vault has no notes", err=True)


@notes.command()
@workspace_option
@json_option
@click.argument("note_id", metavar="ID")
def show(workspace: Path | None, as_json: bool, note_id: str) -> None:
    """Show a note's text, links, and backlinks.

    ID is the note's path in the vault, in any case, with or without `.md`. With --json, the output is the result of the
    tool get_node at depth 1, with the full content.

    \b
    carrel notes show ideas/garden
    """

    async def job(store: "FileStore", _progress: StepProgress) -> None:
        from carrel.notes.note_names import key

        note = await store.get(note_id)
        graph = store.index.graph
        if note is None or (node := graph.get(note.id)) is None:
            suggestion = graph.resolve(key(note_id), "")
            raise UsageError(f"no note {note_id}" + (f"; did you mean {suggestion.id}?" if suggestion else ""))
        if as_json:
            _print_json(await _as_tool(store, note.id) | {"content": note.content})
            return
        click.echo(f"{line(note.title)}  ({line(note.id)})")
        if note.tags:
            click.echo("tags: " + ", ".join(map(line, note.tags)))
        for label, others in (("links to", graph.outgoing(node)), ("linked from", graph.incoming(node))):
            for other in others:
                click.echo(f"{label}: {line(other.id)}  {line(other.facts.title)}")
        for warning in note.warnings:
            click.echo(f"warning: {line(warning)}", err=True)
        click.echo(f"\n{note.content}", nl=not note.content.endswith("\n"))

    with_vault(workspace, job)


@notes.command()
@workspace_option
@json_option
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="KIND",
    type=click.Choice(KINDS),
    help="Do not report this kind; repeat for several.",
)
@click.pass_context
def check(context: click.Context, workspace: Path | None, as_json: bool, ignored: Sequence[str]) -> None:
    """Check the vault for problems.

    Exits with status 1 if it finds any of these:

    \b
    broken-link      a link to a note or file that does not exist
    ambiguous-name   a link that matches several notes
    orphan           a note without links to or from other notes
    duplicate-title  notes with the same title
    case-clash       notes whose IDs differ only in case
    broken-yaml      frontmatter that is not valid YAML
    not-utf8         a file in another encoding than UTF-8
    unreadable       a file that you may not read

    Line numbers count from the top of the file, including frontmatter.

    \b
    carrel notes check --ignore orphan
    """
    from carrel.notes.vault import Attachments
    from carrel.notes.vault_report import Checker

    async def job(store: "FileStore", progress: StepProgress) -> tuple[int, list[Finding]]:
        vault, graph = store.index.vault, store.index.graph
        checker = Checker(graph, lambda each: (vault.read(each) or (None,))[0], Attachments(vault).has, ignored)
        ids = sorted({note_id for note_id, _ in vault.scan()} | {node.id for node in graph})
        found: list[Finding] = []
        for note_id in ids:
            found.extend(checker.findings(note_id))
            progress("checking", 1, len(ids))
        return len(ids), found

    total, found = with_vault(workspace, job)
    if as_json:
        _print_json([each._asdict() for each in found])
    else:
        _print_findings(found)
    click.echo(_summary(total, found), err=True)
    context.exit(1 if found else 0)


@notes.command()
@workspace_option
@json_option
@click.option("--list", "only_list", is_flag=True, help="List the trash without restoring anything.")
@click.option("--as", "as_id", metavar="NEW_ID", help="Restore it under another ID.")
@click.argument("note_id", metavar="[ID]", required=False)
def restore(workspace: Path | None, as_json: bool, only_list: bool, as_id: str | None, note_id: str | None) -> None:
    """Restore a deleted note, or list the trash.

    If several notes with this ID were deleted, the last one is restored. Without ID, the trash is listed. Nothing is
    ever overwritten. A running server sees the note immediately.

    \b
    carrel notes restore ideas/garden.md
    carrel notes restore ideas/garden.md --as ideas/old-garden.md
    """
    from carrel.workspace import find_workspace

    restorer = find_workspace(workspace).note_restorer()
    found = restorer.trashed(note_id)
    if only_list or note_id is None:
        if as_id is not None:
            raise UsageError("--as requires the ID of a note to restore")
        times = [each.deleted.isoformat(timespec="seconds").replace("+00:00", "Z") for each in found]
        if as_json:
            _print_json([{"id": each.id, "deletedAt": time} for each, time in zip(found, times, strict=True)])
            return
        for each, time in zip(found, times, strict=True):
            click.echo(f"{time}  {line(each.id)}")
        if not found:
            click.echo("the trash is empty" if note_id is None else f"{note_id} is not in the trash", err=True)
        return
    if not found:
        raise UsageError(f"{note_id} is not in the trash; carrel notes restore --list shows what is")
    restored = restorer.restore(found[0], as_id or found[0].id)
    if as_json:
        _print_json({"id": restored, "older": len(found) - 1})
    else:
        click.echo(f"restored {line(restored)}")


@notes.command()
@workspace_option
@json_option
def stats(workspace: Path | None, as_json: bool) -> None:
    """Count notes, links, and tags, and list the hubs."""
    import time

    from carrel.notes.file_store import FileStore
    from carrel.notes.vault import Attachments
    from carrel.notes.vault_report import vault_statistics

    start = time.perf_counter()

    async def job(store: FileStore, _progress: StepProgress) -> dict[str, Any]:
        seconds = time.perf_counter() - start
        index = store.index
        found = vault_statistics(index.graph, Attachments(index.vault).has)
        sizes = (entry.stamp.size for note_id, _ in index.versions() if (entry := index.entry(note_id)))
        return {
            "notes": found.notes,
            "folders": found.folders,
            "bytes": sum(sizes),
            "links": found.links,
            "brokenLinks": found.broken_links,
            "orphans": found.orphans,
            "tags": len(found.tags),
            "topTags": [{"tag": tag, "notes": count} for tag, count in found.tags[:MAX_STATS_ROWS]],
            "hubs": [hub._asdict() for hub in await store.hubs("in_degree", MAX_STATS_ROWS)],
            "indexing": {"seconds": round(seconds, 3), "notesRead": index.progress.total},
        }

    found = with_vault(workspace, job)
    if as_json:
        _print_json(found)
    else:
        _print_stats(found)


async def _as_tool(store: "FileStore", note_id: str) -> dict[str, Any]:
    from carrel.mcp.toolset import Caller, Failure
    from carrel.toolsets.notes.handlers import note_handlers

    result = await note_handlers(store)["get_node"]({"id": note_id, "depth": 1}, Caller("command line"))
    if isinstance(result, Failure) or result is None:
        raise CarrelError(f"{note_id} has just been changed; try again")
    return result


def _listed(node: "Node") -> dict[str, Any]:
    return {
        "id": node.id,
        "title": node.facts.title,
        "tags": list(node.facts.tags),
        "incomingCount": len(node.into),
        "outgoingCount": len(node.out),
    }


def _print_findings(found: Sequence[Finding]) -> None:
    width = max((len(each.kind) for each in found), default=0)
    last = None
    for each in found:
        if each.id != last:
            click.echo(line(each.id))
            last = each.id
        click.echo(f"{each.line or '':>6}  {each.kind:{width}}  {line(each.message)}")


def _summary(total: int, found: Sequence[Finding]) -> str:
    if not found:
        return f"{total} notes, no problems"
    counts = {kind: sum(each.kind == kind for each in found) for kind in KINDS}
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    affected = len({each.id for each in found})
    return f"{total} notes, {affected} of them with problems: {kinds}"


def _print_stats(found: dict[str, Any]) -> None:
    rows = {
        "notes": found["notes"],
        "folders": found["folders"],
        "size": f"{found['bytes'] / 1024:.1f} KB",
        "links": f"{found['links']}, {found['brokenLinks']} broken",
        "orphans": found["orphans"],
        "tags": found["tags"],
        "indexing": f"{found['indexing']['seconds']:.2f} s, {found['indexing']['notesRead']} notes read",
    }
    for name, value in rows.items():
        click.echo(f"{name:10} {value}")
    for title, lines in (
        ("most used tags", [(each["notes"], f"#{each['tag']}") for each in found["topTags"]]),
        ("most linked to", [(each["score"], f"{each['id']}  {each['title']}") for each in found["hubs"]]),
    ):
        if lines:
            click.echo(f"\n{title}")
        for count, words in lines:
            click.echo(f"{count:8}  {line(words)}")


def _id(node: "Node") -> str:
    return node.id


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


@notes.command()
@workspace_option
@json_option
def push(workspace: Path | None, as_json: bool) -> None:
    """Copy the vault into the Neo4j of notes.neo4j_url.

    Notes that exist only in the database stay there. Copying an unchanged vault again changes nothing.
    """
    import asyncio
    from contextlib import AsyncExitStack

    from carrel.notes.neo4j.vault_import import Pushed, notes_of
    from carrel.notes.neo4j.vault_import import push as push_notes
    from carrel.workspace import find_workspace

    found = find_workspace(workspace)
    vault = found.vault()

    async def copy() -> Pushed:
        async with AsyncExitStack() as stack:
            progress = stack.enter_context(bars())
            store = found.note_database(stack)
            reported = 0

            def report(done: int, total: int) -> None:
                nonlocal reported
                progress("pushing", done - reported, total)
                reported = done

            return await push_notes(store, notes_of(vault), sum(1 for _ in vault.scan()), report)

    pushed = asyncio.run(copy())
    if as_json:
        click.echo(json.dumps(pushed._asdict()))
    else:
        click.echo(f"{pushed.written} of {pushed.total} notes written, {pushed.removed} removed")
