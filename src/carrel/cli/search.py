"""`carrel index` and `carrel search`: build the search index and query it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from carrel.cli.db import json_option
from carrel.cli.terminal import bars, workspace_option
from carrel.errors import CarrelError, UsageError

if TYPE_CHECKING:
    from carrel.search.documents import Hit, Progress
    from carrel.search.engine import SearchEngine
    from carrel.workspace import Workspace

POLL_INTERVAL_SECONDS = 0.5
MAX_SHOWN_CHARACTERS = 300


@click.command()
@workspace_option
@json_option
@click.option("--rebuild", is_flag=True, help="Delete the index and build it again.")
@click.option("--status", is_flag=True, help="Show the index's progress without updating it.")
def index(workspace: Path | None, as_json: bool, rebuild: bool, status: bool) -> None:
    """Update the search index.

    Indexes words first; embeddings, which take longer, follow. You can stop it at any time: the next run resumes where
    it stopped. A running server sees new entries immediately.
    """
    import asyncio

    from carrel.workspace import find_workspace

    found = find_workspace(workspace)
    progress = asyncio.run(_status(found) if status else _index(found, rebuild=rebuild))
    if as_json:
        value = {
            name: {"documents": each.documents, "passages": each.passages, "embedded": each.embedded}
            for name, each in progress.items()
        }
        click.echo(json.dumps({"provider": found.settings.embeddings.provider, "collections": value}))
        return
    click.echo(f"{'':12} {'documents':>10} {'passages':>10} {'embedded':>13}")
    for name, each in progress.items():
        click.echo(f"{name:12} {each.documents:10} {each.passages:10} {each.embedded:13}")
    if not progress:
        click.echo(
            "the index is empty" + ("; run carrel index" if status else ": there is no content and no note yet"),
            err=True,
        )


@click.command()
@workspace_option
@json_option
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N", help="Maximum number of hits."
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Show only hits with this value, such as type=guide; repeat for several.",
)
@click.option("--collection", metavar="NAME", help="Search only content or only notes.  [default: both]")
@click.argument("query", nargs=-1, required=True)
def search(
    workspace: Path | None,
    as_json: bool,
    limit: int,
    filters: Sequence[str],
    collection: str | None,
    query: Sequence[str],
) -> None:
    """Search content and notes by meaning and by words.

    Searches the index that `carrel index` updates. Hits are sorted by score, from 0 to 1, which is comparable across
    queries. Each shows its best passage.

    \b
    carrel search how do corals survive heat
    carrel search --filter type=guide --limit 3 bleaching
    carrel search --collection notes what did we decide about the garden
    """
    import asyncio
    import textwrap

    from carrel.workspace import find_workspace

    text = " ".join(query)
    found = asyncio.run(_search(find_workspace(workspace), collection, text, _filters(filters), limit))
    if as_json:
        click.echo(json.dumps(_as_json(text, found)))
        return
    if found.failure:
        click.echo(f"searched by words only: {found.failure}", err=True)
    if not found.hits:
        click.echo("no hits", err=True)
    for name, hit in found.hits:
        label = f", {hit.passage.label}" if hit.passage.label else ""
        click.echo(f"{hit.score:.2f}  {hit.title}{label}  ({name} {hit.id})")
        shown = textwrap.shorten(hit.passage.text, MAX_SHOWN_CHARACTERS, placeholder=" ...")
        if shown:
            click.echo(textwrap.indent(textwrap.fill(shown, 100), "      "))
    if found.total > len(found.hits):
        click.echo(f"showing {len(found.hits)} of {found.total}; see --limit", err=True)


async def _status(workspace: "Workspace") -> "dict[str, Progress]":
    async with workspace.search() as engine:
        return await _progress(workspace, engine)


async def _progress(workspace: "Workspace", engine: "SearchEngine") -> "dict[str, Progress]":
    """Return the progress of this workspace's collections, in an index that others may share."""
    found = await engine.progress()
    return {name: found[kept] for name, kept in workspace.collections.items() if kept in found}


async def _clear_index(workspace: "Workspace", engine: "SearchEngine") -> None:
    if workspace.has_own_index:
        await engine.clear()
        return
    for collection in workspace.collections.values():
        await engine.remove(collection, list(await engine.versions(collection)))
    await engine.tidy()


async def _index(workspace: "Workspace", *, rebuild: bool) -> "dict[str, Progress]":
    from carrel.cli.notes import read_vault
    from carrel.search.engine import update_index

    async with workspace.search() as engine:
        if rebuild:
            await _clear_index(workspace, engine)
        names = {kept: name for name, kept in workspace.collections.items()}
        with bars() as progress:
            async with workspace.sources(engine, lambda vault: read_vault(vault, progress)) as sources:
                for source in sources:
                    await update_index(
                        engine,
                        source,
                        lambda more, total, name=names[source.collection]: progress(name, more, total),
                    )
            await _embed(workspace, engine, progress)
        await engine.tidy()
        return await _progress(workspace, engine)


async def _embed(workspace: "Workspace", engine: "SearchEngine", progress: Any) -> None:
    """Embed until nothing is pending; another process may do part of it."""
    import asyncio

    embedder = await engine.embed_in_background()
    if embedder is None:
        return
    total = left = await _pending(workspace, engine)
    while left:
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
        now = await _pending(workspace, engine)
        progress("embedding", max(0, left - now), total)
        left = now


async def _pending(workspace: "Workspace", engine: "SearchEngine") -> int:
    return sum(each.pending for each in (await _progress(workspace, engine)).values())


class _SearchResult(NamedTuple):
    """Hits from several collections, best first."""

    hits: "list[tuple[str, Hit]]"
    """Pairs of a collection and a hit."""
    total: int
    failure: str


async def _search(
    workspace: "Workspace", collection: str | None, query: str, filters: Mapping[str, Sequence[str]], limit: int
) -> _SearchResult:
    async with workspace.search() as engine:
        indexed = sorted(await _progress(workspace, engine))
        if not indexed:
            raise CarrelError("the index is empty; run carrel index")
        if collection is not None and collection not in indexed:
            raise CarrelError(
                f"{collection} is not indexed; run carrel index. Indexed collections: {', '.join(indexed)}"
            )
        names = indexed if collection is None else [collection]
        kept = workspace.collections
        found = [(name, await engine.search(kept[name], query, filters=filters, limit=limit)) for name in names]
    hits = sorted(
        ((name, hit) for name, each in found for hit in each.hits),
        key=lambda pair: (-pair[1].score, pair[0], pair[1].id),
    )
    return _SearchResult(hits[:limit], sum(each.total for _, each in found), found[0][1].failure)


def _filters(arguments: Sequence[str]) -> dict[str, list[str]]:
    filters: dict[str, list[str]] = {}
    for each in arguments:
        key, separator, value = each.partition("=")
        if not (key and separator):
            raise UsageError(f"--filter: {each!r} must be KEY=VALUE, such as type=guide")
        filters.setdefault(key, []).append(value)
    return filters


def _as_json(query: str, found: _SearchResult) -> dict[str, Any]:
    hits = [
        {
            "collection": name,
            "id": hit.id,
            "title": hit.title,
            "score": hit.score,
            "passage": {"text": hit.passage.text, "label": hit.passage.label, "place": hit.place},
        }
        for name, hit in found.hits
    ]
    return {"query": query, "total": found.total, "hits": hits, **({"failure": found.failure} if found.failure else {})}
