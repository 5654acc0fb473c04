"""`carrel index` and `carrel search`: the search index, by hand."""

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

LOOK_SECONDS = 0.5
SHOWN_CHARACTERS = 300


@click.command()
@workspace_option
@json_option
@click.option("--rebuild", is_flag=True, help="Forget the index and make it again.")
@click.option("--status", is_flag=True, help="Only tell how far it is.")
def index(workspace: Path | None, as_json: bool, rebuild: bool, status: bool) -> None:
    """Bring the search index up to date: words first, then meaning, which takes longer.

    It can be stopped at any time, and goes on from there the next time. A server that runs meanwhile sees what is
    added at once.
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
    click.echo(f"{'':12} {'documents':>10} {'passages':>10} {'with meaning':>13}")
    for name, each in progress.items():
        click.echo(f"{name:12} {each.documents:10} {each.passages:10} {each.embedded:13}")
    if not progress:
        click.echo(
            "nothing is indexed"
            + (": run carrel index" if status else ", since there is neither content nor a note yet"),
            err=True,
        )


@click.command()
@workspace_option
@json_option
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N", help="Hits at most.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only what has this, such as type=guide; repeatable.",
)
@click.option("--collection", metavar="NAME", help="Only in this one: content or notes.  [default: all there are]")
@click.argument("query", nargs=-1, required=True)
def search(
    workspace: Path | None,
    as_json: bool,
    limit: int,
    filters: Sequence[str],
    collection: str | None,
    query: Sequence[str],
) -> None:
    """Search what `carrel index` has indexed, by meaning and by words, the best first.

    Each hit has a score from 0 to 1, which means the same for every query, and its best passage.

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
        click.echo(f"only words were compared: {found.failure}", err=True)
    if not found.hits:
        click.echo("nothing found", err=True)
    for name, hit in found.hits:
        label = f", {hit.passage.label}" if hit.passage.label else ""
        click.echo(f"{hit.score:.2f}  {hit.title}{label}  ({name} {hit.id})")
        shown = textwrap.shorten(hit.passage.text, SHOWN_CHARACTERS, placeholder=" ...")
        if shown:
            click.echo(textwrap.indent(textwrap.fill(shown, 100), "      "))
    if found.total > len(found.hits):
        click.echo(f"{len(found.hits)} of {found.total}", err=True)


async def _status(workspace: "Workspace") -> "dict[str, Progress]":
    async with workspace.search() as engine:
        return await _progress(workspace, engine)


async def _progress(workspace: "Workspace", engine: "SearchEngine") -> "dict[str, Progress]":
    """Of what is ours, in an index that others may share."""
    found = await engine.progress()
    return {name: found[kept] for name, kept in workspace.collections.items() if kept in found}


async def _forget(workspace: "Workspace", engine: "SearchEngine") -> None:
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
            await _forget(workspace, engine)
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
    """Until nothing is pending, whichever process does it."""
    import asyncio

    embedder = await engine.embed_in_background()
    if embedder is None:
        return
    total = left = await _pending(workspace, engine)
    while left:
        await asyncio.sleep(LOOK_SECONDS)
        now = await _pending(workspace, engine)
        progress("meaning", max(0, left - now), total)
        left = now


async def _pending(workspace: "Workspace", engine: "SearchEngine") -> int:
    return sum(each.pending for each in (await _progress(workspace, engine)).values())


class _Found(NamedTuple):
    """What was found in several collections."""

    hits: "list[tuple[str, Hit]]"
    """Each with its collection, the best first."""
    total: int
    failure: str


async def _search(
    workspace: "Workspace", collection: str | None, query: str, filters: Mapping[str, Sequence[str]], limit: int
) -> _Found:
    async with workspace.search() as engine:
        indexed = sorted(await _progress(workspace, engine))
        if not indexed:
            raise CarrelError("nothing is indexed yet: run carrel index")
        if collection is not None and collection not in indexed:
            raise CarrelError(f"{collection} is not indexed: run carrel index; what is: {', '.join(indexed)}")
        names = indexed if collection is None else [collection]
        kept = workspace.collections
        found = [(name, await engine.search(kept[name], query, filters=filters, limit=limit)) for name in names]
    hits = sorted(
        ((name, hit) for name, each in found for hit in each.hits),
        key=lambda pair: (-pair[1].score, pair[0], pair[1].id),
    )
    return _Found(hits[:limit], sum(each.total for _, each in found), found[0][1].failure)


def _filters(given: Sequence[str]) -> dict[str, list[str]]:
    filters: dict[str, list[str]] = {}
    for each in given:
        key, separator, value = each.partition("=")
        if not (key and separator):
            raise UsageError(f"--filter: {each!r} is not KEY=VALUE, such as type=guide")
        filters.setdefault(key, []).append(value)
    return filters


def _as_json(query: str, found: _Found) -> dict[str, Any]:
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
