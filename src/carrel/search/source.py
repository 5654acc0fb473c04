"""Bringing an index up to date with what it is about."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from carrel.common import TotalProgress
from carrel.search.document import Document
from carrel.search.engine import SearchEngine

BATCH = 256
SOON = 2048
"""Documents that are put in before all others are known: what takes long is found from early on."""


class Source(Protocol):
    """What a collection's documents are made from."""

    @property
    def collection(self) -> str: ...

    def versions(self) -> AsyncIterator[tuple[str, str]]:
        """The id of every document, and its version."""
        ...

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        """Those of these that are still there."""
        ...


async def bring_up_to_date(engine: SearchEngine, source: Source, on_progress: TotalProgress | None = None) -> int:
    """Index what is new or changed and remove what is gone; how many documents that were.

    One process at a time does; the next then finds most of it done. `on_progress` is told how many more were done, of
    how many that are known so far.
    """
    async with engine.turn(f"indexing {source.collection}"):
        return await _bring_up_to_date(engine, source, on_progress)


async def _bring_up_to_date(engine: SearchEngine, source: Source, on_progress: TotalProgress | None) -> int:
    indexed = await engine.versions(source.collection)
    known = 0

    async def put(ids: Sequence[str]) -> None:
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            await engine.put(source.collection, await source.documents(batch))
            if on_progress:
                on_progress(len(batch), known)

    changed: list[str] = []
    async for document_id, version in source.versions():
        if indexed.pop(document_id, None) != version:
            changed.append(document_id)
            known += 1
            if len(changed) == SOON:
                await put(changed)
                changed.clear()
    gone = list(indexed)
    known += len(gone)
    for start in range(0, len(gone), BATCH):
        batch = gone[start : start + BATCH]
        await engine.remove(source.collection, batch)
        if on_progress:
            on_progress(len(batch), known)
    await put(changed)
    return known
