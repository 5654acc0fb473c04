"""The search engine: domains put documents in, keep them up to date with their source, and query it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import Protocol, TypeVar

from carrel import common
from carrel.common import TotalProgress
from carrel.concurrency import Threads
from carrel.search.documents import Document, Found, Progress
from carrel.search.embedder import Asking, Embedder
from carrel.search.index_store import Filters, HeldTurn, Query, Store
from carrel.search.providers.provider import Provider

T = TypeVar("T")

THREADS = 2
TURN_SECONDS = 0.5
"""Between looks whether another process has done its work."""

MAX_QUERY = 4096
"""Characters of a query that count."""
FEW = 64
"""Passages whose meaning is worth waiting for,"""
PATIENCE = 1.0
"""for so many seconds;"""
IMPATIENCE = 5.0
"""after a vain wait, not again for so many."""


class SearchEngine:
    """Waits on threads of its own. Nothing is loaded before something is put in or asked for."""

    def __init__(self, store: Callable[[], Store], provider: Provider | None) -> None:
        self._open = store
        self._opening = Lock()
        self._store: Store | None = None
        self._provider = provider
        self._embedder: Embedder | None = None
        self._is_embedded: set[str] = set()
        """Collections of which nothing is pending."""
        self._patient_again = 0.0
        self._threads = Threads("carrel-search", THREADS)
        self._asking = Asking(provider) if provider is not None else None

    @property
    def has_meaning(self) -> bool:
        """Whether more than words is compared."""
        return self._provider is not None

    async def put(self, collection: str, documents: Sequence[Document]) -> int:
        """Add or change documents; how many were new or had another version."""
        changed = await self._do(lambda store: store.put(collection, documents))
        if changed:
            self._is_embedded.discard(collection)
            if self._embedder:
                self._embedder.notice()
        return changed

    async def remove(self, collection: str, ids: Sequence[str]) -> None:
        await self._do(lambda store: store.remove(collection, ids))

    async def versions(self, collection: str) -> dict[str, str]:
        """The version in which each document is indexed, by its id."""
        return await self._do(lambda store: store.versions(collection))

    async def search(self, collection: str, query: str, *, filters: Filters | None = None, limit: int = 10) -> Found:
        """The best documents. Where the provider fails, words alone decide, and the answer says so."""
        query = query[:MAX_QUERY]

        def by(asked: Query) -> Found:
            return self._opened().search(collection, asked, filters=filters or {}, limit=limit)

        failure = ""
        if self._asking is not None:
            found = await self._asking.search(query, by)
            if isinstance(found, Found):
                return found
            failure = found
        return (await self._do(lambda _: by(Query(query))))._replace(failure=failure)

    async def progress(self) -> dict[str, Progress]:
        return await self._do(lambda store: store.progress())

    async def tidy(self) -> None:
        """Give back what is kept for texts that are in no document any more."""
        await self._do(lambda store: store.tidy())

    async def clear(self) -> None:
        """Forget everything, so that it is made again."""
        await self._do(lambda store: store.clear())

    @asynccontextmanager
    async def turn(self, work: str) -> AsyncGenerator[None]:
        """Wait until no other process does this work, and hold others off it."""
        turn = HeldTurn(work)
        try:
            while True:
                if await self._do(turn.take):
                    break
                await asyncio.sleep(TURN_SECONDS)
            yield
        finally:
            await asyncio.shield(self._do(turn.leave))

    def noticed(self, collection: str | None) -> None:
        """Another process has put something in, or has embedded all; None where nobody knows into which."""
        if collection is None:
            self._is_embedded.clear()
        else:
            self._is_embedded.discard(collection)
        if self._embedder:
            self._embedder.notice()

    async def embed_in_background(self, on_progress: common.Progress | None = None) -> Embedder | None:
        """Begin to index meaning; None where there is no provider."""
        if self._provider is not None and self._embedder is None:
            provider, asking = self._provider, self._asking

            def embedded(count: int) -> None:
                if asking:
                    asking.answered()
                if on_progress:
                    on_progress(count)

            self._embedder = await self._do(lambda store: Embedder(store, provider, embedded))
            self._embedder.start()
        return self._embedder

    async def meaning_of_a_few(self, collection: str) -> None:
        """Wait a moment for the meaning of what was just put in, if it is not much."""
        if self._embedder is None or collection in self._is_embedded or time.monotonic() < self._patient_again:
            return
        progress = (await self.progress()).get(collection)
        is_little = progress is not None and progress.pending <= FEW
        if is_little and await asyncio.to_thread(self._embedder.wait, PATIENCE):
            self._is_embedded.add(collection)
        else:
            self._patient_again = time.monotonic() + IMPATIENCE

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._embedder:
            self._embedder.stop()
        if self._provider:
            self._provider.close()  # wakes whoever waits for it
        if self._embedder:
            self._embedder.join()
        if self._asking:
            self._asking.close()
        self._threads.close()
        if self._store:
            self._store.close()

    async def _do(self, job: Callable[[Store], T]) -> T:
        return await self._threads.begin(lambda: job(self._opened()))

    def _opened(self) -> Store:
        with self._opening:
            if self._store is None:
                self._store = self._open()
            return self._store


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
