"""Embedding of queries, behind a circuit breaker, and of passages, on a background thread.

A provider that fails slowly would delay every query, so the circuit opens after such a failure: for
`COOLDOWN_SECONDS`, queries use full-text search alone; then one query tries the provider again.
"""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from threading import Event

from carrel.common import Progress
from carrel.concurrency import Threads
from carrel.errors import StoreError
from carrel.search.documents import SearchResults
from carrel.search.index_store import ModelChanged, Pending, Query, Store
from carrel.search.providers.provider import EmbeddingFailed, Provider

QUERY_THREADS = 2
SLOW_FAILURE_SECONDS = 0.5
"""Seconds after which a failure has kept somebody waiting;"""
COOLDOWN_SECONDS = 30.0
"""then no query waits for so many, and one tries again. What fails faster than that is asked each time."""


class QueryEmbedder:
    """A circuit breaker around the embedding of queries."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._threads = Threads("carrel-query", QUERY_THREADS)
        self._failure = ""
        self._open_until = 0.0

    async def search(self, text: str, by: Callable[[Query], SearchResults]) -> SearchResults | str:
        """What `by` finds with the query's vector, in the thread that embedded it; or why there is no vector."""
        began = time.monotonic()
        if began < self._open_until:
            return f"{self._failure} (asked again in {self._open_until - began:.0f} seconds)"
        if self._failure:
            self._open_until = began + COOLDOWN_SECONDS  # the others do not wait for this try
        provider, seconds, has_vector = self._provider, self._provider.limits.query_seconds, Event()

        def embed_and_search() -> SearchResults | str:
            try:
                vector = provider.embed_query(text)
            except EmbeddingFailed as error:
                return str(error)
            self.record_success()
            has_vector.set()
            return by(Query(text, provider.name, vector))

        def time_out() -> None:
            if not has_vector.is_set() and not future.done():
                future.set_result(f"the embedding provider gave no answer within {seconds:g} seconds")

        future = self._threads.begin(embed_and_search)
        late = asyncio.get_running_loop().call_later(seconds, time_out)
        try:
            found = await future
        finally:
            late.cancel()
        return found if isinstance(found, SearchResults) else self._failed(found, began)

    def record_success(self) -> None:
        """The provider gave vectors, to whomever."""
        self._failure, self._open_until = "", 0.0

    def close(self) -> None:
        self._threads.close()

    def _failed(self, why: str, began: float) -> str:
        now = time.monotonic()
        self._failure, self._open_until = (
            (why, now + COOLDOWN_SECONDS) if now - began >= SLOW_FAILURE_SECONDS else ("", 0.0)
        )
        return why


EMBEDDING_BATCH_SIZE = 64
NICENESS = 10
POLL_INTERVAL_SECONDS = 2.0
"""Between looks for what other processes have put in."""
RETRY_SECONDS = (1.0, 300.0)
"""After a first failure, and at most."""

log = logging.getLogger("carrel.search")


class Embedder:
    """A thread that embeds what is pending, as long as it holds the store's turn: one process at a time does."""

    def __init__(self, store: Store, provider: Provider, on_progress: Progress | None = None) -> None:
        """`on_progress` is told how many passages were embedded just now."""
        self._store = store
        self._provider = provider
        self._on_progress = on_progress
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._stopping = False
        self._model = ""
        self._thread = threading.Thread(target=self._run, name="carrel-embedder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something was put in."""
        self._idle.clear()
        self._wake.set()

    def pause(self) -> None:
        """End with the batch at hand."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing is pending; whether that came to be."""
        return self._idle.wait(seconds)

    def stop(self) -> None:
        """Begin to end; `join` waits for it."""
        self._stopping = True
        self._running.set()
        self._wake.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        _lower_priority()
        seconds = RETRY_SECONDS[0]
        while True:
            self._wake.clear()
            if self._stopping:
                return
            try:
                if self._embed_pending():
                    self._idle.set()
                seconds = RETRY_SECONDS[0]
                self._wake.wait(POLL_INTERVAL_SECONDS)
            except (EmbeddingFailed, StoreError) as error:
                if self._stopping:  # the provider may be closed already
                    return
                log.warning("embedding failed", extra={"fields": {"reason": str(error), "retry_seconds": seconds}})
                self._wake.wait(seconds)
                seconds = min(2 * seconds, RETRY_SECONDS[1])
            except ModelChanged:
                log.warning("another process indexes with another embedding model now; this one searches words only")
                return

    def _embed_pending(self) -> bool:
        """Whether nothing is left."""
        if not self._model:
            # Once: where another process has taken another model since, that is not to be undone.
            model = self._provider.name
            self._store.use_model(model, self._provider.dimensions)
            self._model = model
        with self._store.work_lock() as has_lock:
            while has_lock and not self._stopping:
                self._running.wait()
                batch = self._store.pending(EMBEDDING_BATCH_SIZE)
                if not batch:
                    return True
                if not self._stopping:
                    self._embed(batch)
        return False

    def _embed(self, batch: list[Pending]) -> None:
        matrix = self._provider.embed([each.text for each in batch])
        self._store.embed(self._model, [each.hash for each in batch], matrix)
        if self._on_progress:
            self._on_progress(len(batch))


def _lower_priority() -> None:
    """Of this thread alone, which only Linux can."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
