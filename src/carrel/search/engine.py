"""The search engine: collections of documents that are kept in step with their sources and queried.

A collection is a set of documents: an id, a title, passages of about 480 characters, filters, and a version. A domain
implements `Source`, and `update_index` compares versions and writes the difference. Full-text search covers a document
as soon as it is put; embeddings follow in the background, in one process at a time (`Store.work_lock`), newest first.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import Protocol, TypeVar

from carrel import common
from carrel.common import TotalProgress
from carrel.concurrency import Threads
from carrel.search.documents import Document, Progress, SearchResults
from carrel.search.embedder import Embedder, QueryEmbedder
from carrel.search.index_store import Filters, Query, Store, WorkLock
from carrel.search.providers.provider import Provider

T = TypeVar("T")

ENGINE_THREADS = 2
LOCK_POLL_INTERVAL_SECONDS = 0.5
"""Between looks whether another process has done its work."""

MAX_QUERY_CHARACTERS = 4096
"""Characters of a query that count."""
SMALL_BACKLOG_PASSAGES = 64
"""Passages whose meaning is worth waiting for,"""
EMBEDDING_WAIT_TIMEOUT_SECONDS = 1.0
"""for so many seconds;"""
EMBEDDING_WAIT_COOLDOWN_SECONDS = 5.0
"""after a vain wait, not again for so many."""


class SearchEngine:
    """Waits on threads of its own. Nothing is loaded before something is put in or asked for."""

    def __init__(self, store: Callable[[], Store], provider: Provider | None) -> None:
        self._open = store
        self._open_lock = Lock()
        self._store: Store | None = None
        self._provider = provider
        self._embedder: Embedder | None = None
        self._fully_embedded: set[str] = set()
        """Collections of which nothing is pending."""
        self._no_wait_until = 0.0
        self._threads = Threads("carrel-search", ENGINE_THREADS)
        self._query_embedder = QueryEmbedder(provider) if provider is not None else None

    @property
    def has_embeddings(self) -> bool:
        """Whether more than words is compared."""
        return self._provider is not None

    async def put(self, collection: str, documents: Sequence[Document]) -> int:
        """Add or change documents; how many were new or had another version."""
        changed = await self._run(lambda store: store.put(collection, documents))
        if changed:
            self._fully_embedded.discard(collection)
            if self._embedder:
                self._embedder.wake()
        return changed

    async def remove(self, collection: str, ids: Sequence[str]) -> None:
        await self._run(lambda store: store.remove(collection, ids))

    async def versions(self, collection: str) -> dict[str, str]:
        """The version in which each document is indexed, by its id."""
        return await self._run(lambda store: store.versions(collection))

    async def search(
        self, collection: str, query: str, *, filters: Filters | None = None, limit: int = 10
    ) -> SearchResults:
        """The best documents. Where the provider fails, words alone decide, and the answer says so."""
        query = query[:MAX_QUERY_CHARACTERS]

        def by(asked: Query) -> SearchResults:
            return self._get_store().search(collection, asked, filters=filters or {}, limit=limit)

        failure = ""
        if self._query_embedder is not None:
            found = await self._query_embedder.search(query, by)
            if isinstance(found, SearchResults):
                return found
            failure = found
        return (await self._run(lambda _: by(Query(query))))._replace(failure=failure)

    async def progress(self) -> dict[str, Progress]:
        return await self._run(lambda store: store.progress())

    async def tidy(self) -> None:
        """Give back what is kept for texts that are in no document any more."""
        await self._run(lambda store: store.tidy())

    async def clear(self) -> None:
        """Forget everything, so that it is made again."""
        await self._run(lambda store: store.clear())

    @asynccontextmanager
    async def work_lock(self, work: str) -> AsyncGenerator[None]:
        """Wait until no other process does this work, and hold others off it."""
        work_lock = WorkLock(work)
        try:
            while True:
                if await self._run(work_lock.acquire):
                    break
                await asyncio.sleep(LOCK_POLL_INTERVAL_SECONDS)
            yield
        finally:
            await asyncio.shield(self._run(work_lock.release))

    def on_remote_change(self, collection: str | None) -> None:
        """Another process has put something in, or has embedded all; None where nobody knows into which."""
        if collection is None:
            self._fully_embedded.clear()
        else:
            self._fully_embedded.discard(collection)
        if self._embedder:
            self._embedder.wake()

    async def embed_in_background(self, on_progress: common.Progress | None = None) -> Embedder | None:
        """Begin to index meaning; None where there is no provider."""
        if self._provider is not None and self._embedder is None:
            provider, query_embedder = self._provider, self._query_embedder

            def embedded(count: int) -> None:
                if query_embedder:
                    query_embedder.record_success()
                if on_progress:
                    on_progress(count)

            self._embedder = await self._run(lambda store: Embedder(store, provider, embedded))
            self._embedder.start()
        return self._embedder

    async def wait_for_small_backlog(self, collection: str) -> None:
        """Wait a moment for the meaning of what was just put in, if it is not much."""
        if self._embedder is None or collection in self._fully_embedded or time.monotonic() < self._no_wait_until:
            return
        progress = (await self.progress()).get(collection)
        is_small = progress is not None and progress.pending <= SMALL_BACKLOG_PASSAGES
        if is_small and await asyncio.to_thread(self._embedder.wait, EMBEDDING_WAIT_TIMEOUT_SECONDS):
            self._fully_embedded.add(collection)
        else:
            self._no_wait_until = time.monotonic() + EMBEDDING_WAIT_COOLDOWN_SECONDS

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._embedder:
            self._embedder.stop()
        if self._provider:
            self._provider.close()  # wakes whoever waits for it
        if self._embedder:
            self._embedder.join()
        if self._query_embedder:
            self._query_embedder.close()
        self._threads.close()
        if self._store:
            self._store.close()

    async def _run(self, job: Callable[[Store], T]) -> T:
        return await self._threads.begin(lambda: job(self._get_store()))

    def _get_store(self) -> Store:
        with self._open_lock:
            if self._store is None:
                self._store = self._open()
            return self._store


INDEX_BATCH_SIZE = 256
EARLY_FLUSH_DOCUMENTS = 2048
"""Documents that are put in before all others are known: what takes long is found from early on."""


class Source(Protocol):
    """The origin of a collection's documents, which a domain implements."""

    @property
    def collection(self) -> str: ...

    def versions(self) -> AsyncIterator[tuple[str, str]]:
        """The id of every document, and its version."""
        ...

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        """Those of these that are still there."""
        ...


async def update_index(engine: SearchEngine, source: Source, on_progress: TotalProgress | None = None) -> int:
    """Index what is new or changed and remove what is gone; how many documents that were.

    One process at a time does; the next then finds most of it done. `on_progress` is told how many more were done, of
    how many that are known so far.
    """
    async with engine.work_lock(f"indexing {source.collection}"):
        return await _update_index(engine, source, on_progress)


async def _update_index(engine: SearchEngine, source: Source, on_progress: TotalProgress | None) -> int:
    indexed = await engine.versions(source.collection)
    known = 0

    async def put(ids: Sequence[str]) -> None:
        for start in range(0, len(ids), INDEX_BATCH_SIZE):
            batch = ids[start : start + INDEX_BATCH_SIZE]
            await engine.put(source.collection, await source.documents(batch))
            if on_progress:
                on_progress(len(batch), known)

    changed: list[str] = []
    async for document_id, version in source.versions():
        if indexed.pop(document_id, None) != version:
            changed.append(document_id)
            known += 1
            if len(changed) == EARLY_FLUSH_DOCUMENTS:
                await put(changed)
                changed.clear()
    gone = list(indexed)
    known += len(gone)
    for start in range(0, len(gone), INDEX_BATCH_SIZE):
        batch = gone[start : start + INDEX_BATCH_SIZE]
        await engine.remove(source.collection, batch)
        if on_progress:
            on_progress(len(batch), known)
    await put(changed)
    return known
