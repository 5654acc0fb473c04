"""Queries with their vectors. Somebody waits for them: a provider that keeps them waiting is left alone for a while."""

import asyncio
import time
from collections.abc import Callable
from threading import Event

from carrel.search.document import Found
from carrel.search.providers.protocol import EmbeddingFailed, Provider
from carrel.search.store import Query
from carrel.threads import Threads

THREADS = 2
SLOW = 0.5
"""Seconds after which a failure has kept somebody waiting;"""
REST = 30.0
"""then no query waits for so many, and one tries again. What fails faster than that is asked each time."""


class Asking:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._threads = Threads("carrel-query", THREADS)
        self._failure = ""
        self._rests_until = 0.0

    async def search(self, text: str, by: Callable[[Query], Found]) -> Found | str:
        """What `by` finds with the query's vector, in the thread that embedded it; or why there is no vector."""
        began = time.monotonic()
        if began < self._rests_until:
            return f"{self._failure} (asked again in {self._rests_until - began:.0f} seconds)"
        if self._failure:
            self._rests_until = began + REST  # the others do not wait for this try
        provider, seconds, has_vector = self._provider, self._provider.limits.query_seconds, Event()

        def embed_and_search() -> Found | str:
            try:
                vector = provider.embed_query(text)
            except EmbeddingFailed as error:
                return str(error)
            self.answered()
            has_vector.set()
            return by(Query(text, provider.name, vector))

        def give_up() -> None:
            if not has_vector.is_set() and not future.done():
                future.set_result(f"the embedding provider gave no answer within {seconds:g} seconds")

        future = self._threads.begin(embed_and_search)
        late = asyncio.get_running_loop().call_later(seconds, give_up)
        try:
            found = await future
        finally:
            late.cancel()
        return found if isinstance(found, Found) else self._failed(found, began)

    def answered(self) -> None:
        """The provider gave vectors, to whomever."""
        self._failure, self._rests_until = "", 0.0

    def close(self) -> None:
        self._threads.close()

    def _failed(self, why: str, began: float) -> str:
        now = time.monotonic()
        self._failure, self._rests_until = (why, now + REST) if now - began >= SLOW else ("", 0.0)
        return why
