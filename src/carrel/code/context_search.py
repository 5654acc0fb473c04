"""Searching what is known about a code base: discoveries, session summaries and the code itself, ranked together."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from carrel.code.file_access import Denied
from carrel.code.knowledge.accesses import Access, AccessCounter, boost, boosted
from carrel.code.knowledge.code_files import ListedFile
from carrel.code.knowledge.discoveries import Discovery, DiscoveryRepository
from carrel.code.knowledge.knowledge_source import (
    CODE,
    DISCOVERY,
    SESSION,
    CombinedSource,
    code_key,
    key_of,
    learned,
    source_of,
)
from carrel.code.knowledge.sessions import SessionRepository, SessionSummary
from carrel.common import AsyncProgress, now
from carrel.errors import CarrelError
from carrel.search.documents import Hit
from carrel.search.engine import SearchEngine, Source, update_index
from carrel.storage.database import Database

log = logging.getLogger("carrel.code")

CANDIDATES = 50
"""Hits that a boost may bring into the answer."""
QUICK_SECONDS = 0.1
"""If it takes no longer to see that no file has changed, every search waits for that; else it goes on beside them,"""
BELIEVED = 5
"""and is believed for so many times as long as it took."""
AT_ONCE = 256
PATIENCE = 0.5
"""Seconds that a search waits for the index to be brought up to date."""
FIRST_PATIENCE = 3.0
"""The same where there is none yet."""
TELL_SECONDS = 0.25
START = 2.0
"""Seconds after the start that indexing begins, if nobody has searched before."""


class Result(NamedTuple):
    """Something that answers the query: a discovery, a summary of a session, or a passage of code."""

    id: str
    type: str
    content: str
    module: str | None
    session: str | None
    date: int
    """Milliseconds since 1970, UTC."""
    score: float
    source: str


class Results(NamedTuple):
    results: list[Result]
    """The best first."""
    total: int
    """What passed the filters and the floor, before the limit."""
    milliseconds: int


class NothingIndexed(NamedTuple):
    """There is nothing at all to search."""


class NotEmbedded(NamedTuple):
    """The provider did not embed the query."""

    details: str


class Known(NamedTuple):
    """What the hits are about."""

    discoveries: Mapping[str, Discovery]
    sessions: Mapping[str, SessionSummary]


class ContextSearch:
    """Brings its index up to date in the background, and once more before it answers if that is quickly done."""

    def __init__(
        self,
        engine: SearchEngine,
        source: Source,
        database: Database,
        code_base: str,
        root: Path,
        module_of: Callable[[str], str | None],
        accesses: AccessCounter,
        *,
        files: Callable[[], Sequence[ListedFile]],
        denied: Denied,
        answers_without_meaning: bool = False,
    ) -> None:
        self._engine = engine
        self._source = source
        self._knowledge = CombinedSource(source.collection, *learned(database, code_base))
        self._followed: dict[str, str] = {}
        """The versions of what was learned, as they were last put into the index."""
        self._database = database
        self._code_base = code_base
        self._root = root
        self._module_of = module_of
        self._accesses = accesses
        self._files = files
        self._indexed: Sequence[ListedFile] | None = None
        """The files as they were when the index was last brought up to date."""
        self._denied = denied
        self._answers_without_meaning = answers_without_meaning
        self._starting: asyncio.TimerHandle | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._fresh_until = 0.0
        self._done = (0, 0)
        self._took = 0.0
        """Seconds, to see whether a file has changed."""

    def start(self) -> None:
        """Index in the background, soon: a start has enough to do."""
        self._starting = asyncio.get_running_loop().call_later(START, self._refresh)

    async def close(self) -> None:
        if self._starting:
            self._starting.cancel()
        if self._refreshing:
            self._refreshing.cancel()
            await asyncio.wait((self._refreshing,))

    async def search(
        self,
        query: str,
        *,
        type_: str,
        module: str | None,
        limit: int,
        tell: AsyncProgress | None = None,
        denied: Denied | None = None,
    ) -> Results | NothingIndexed | NotEmbedded:
        """`denied` is for a caller who is shown nothing of the vault."""
        started = time.perf_counter()
        await self._brought_up_to_date(tell)
        await self._follow_knowledge()
        collection = self._source.collection
        await self._engine.wait_for_small_backlog(collection)
        filters = _filters(type_, module, has_vault=denied is None)
        found = await self._engine.search(collection, query, filters=filters, limit=CANDIDATES)
        if not found.hits and not await self._has_documents():
            return NothingIndexed()
        if found.failure and not self._answers_without_meaning:
            return NotEmbedded(found.failure)
        results = await self._results(found.hits, denied or self._denied)
        results.sort(key=lambda result: (-result.score, result.id))
        total = found.total - (len(found.hits) - len(results))
        return Results(results[:limit], total, round((time.perf_counter() - started) * 1000))

    async def _has_documents(self) -> bool:
        progress = (await self._engine.progress()).get(self._source.collection)
        return progress is not None and progress.documents > 0

    async def _brought_up_to_date(self, tell: AsyncProgress | None) -> None:
        if time.monotonic() >= self._fresh_until:
            self._refresh()
        if self._refreshing is None or self._refreshing.done():
            return
        deadline = time.monotonic() + self._patience()
        told = 0
        while not self._refreshing.done() and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait((self._refreshing,), timeout=min(left, TELL_SECONDS) if tell else left)
            done, total = self._done
            if tell and done > told:
                await tell(done, total, "passages of code indexed")
                told = done

    def _patience(self) -> float:
        if self._indexed is None:
            return FIRST_PATIENCE
        return PATIENCE if self._took <= QUICK_SECONDS else 0.0

    async def _follow_knowledge(self) -> None:
        """What was learned is little, and is searched as it is now; it does not wait for the files."""
        versions = {document: version async for document, version in self._knowledge.versions()}
        changed = [each for each, version in versions.items() if self._followed.get(each) != version]
        gone = [each for each in self._followed if each not in versions]
        collection = self._source.collection
        for start in range(0, len(changed), AT_ONCE):
            documents = await self._knowledge.documents(changed[start : start + AT_ONCE])
            await self._engine.put(collection, documents)
        if gone:
            await self._engine.remove(collection, gone)
        self._followed = versions

    def _refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._bring_up_to_date())
            self._refreshing.add_done_callback(_tell_failure)

    async def _bring_up_to_date(self) -> None:
        started = time.monotonic()
        self._done = (0, 0)

        def progress(more: int, total: int) -> None:
            self._done = (self._done[0] + more, total)

        try:
            files = await asyncio.to_thread(self._files)
            took = self._took = time.monotonic() - started
            if has_changed := files != self._indexed:
                await update_index(self._engine, self._source, progress)
                await self._engine.embed_in_background()
                self._indexed = files
        except CarrelError as error:
            log.warning("the index of the code base could not be brought up to date: %s", error)
        else:
            is_believed = not has_changed and took > QUICK_SECONDS
            self._fresh_until = time.monotonic() + (BELIEVED * took if is_believed else 0)

    async def _results(self, hits: Sequence[Hit], denied: Denied) -> list[Result]:
        known = await self._known(hits)
        paths = [key.path for hit in hits if (key := code_key(hit.id))]
        reads: Mapping[str, Access] = await self._accesses.among(paths) if paths else {}
        moment = now()
        results: list[Result] = []
        for hit in hits:
            if (key := code_key(hit.id)) is not None:
                if denied.path(key.path) or (date := self._changed(key.path)) is None:
                    continue  # gone since it was indexed, or not to be shown any more
                read = reads.get(key.path)
                gain = boost(read.reads, read.last, moment) if read else 0.0
                score = round(boosted(hit.score, gain), 4)
                module = self._module_of(key.path)
                results.append(Result(key.place, CODE, hit.passage.text, module, None, date, score, CODE))
            elif (discovery := known.discoveries.get(key_of(hit.id))) and source_of(hit.id) == DISCOVERY:
                results.append(_of_discovery(discovery, hit.score))
            elif summary := known.sessions.get(key_of(hit.id)):
                results.append(_of_session(summary, hit.score))
        return results

    async def _known(self, hits: Sequence[Hit]) -> Known:
        discoveries = [key_of(hit.id) for hit in hits if source_of(hit.id) == DISCOVERY]
        sessions = [key_of(hit.id) for hit in hits if source_of(hit.id) == SESSION]
        found = Known({}, {})
        if discoveries:
            rows = await self._database.read(lambda s: DiscoveryRepository(s, self._code_base).among(discoveries))
            found = found._replace(discoveries={each.id: each for each, _ in rows})
        if sessions:
            summaries = await self._database.read(lambda s: SessionRepository(s, self._code_base).among(sessions))
            found = found._replace(sessions={each.id: each for each in summaries})
        return found

    def _changed(self, path: str) -> int | None:
        try:
            return os.lstat(self._root / path).st_mtime_ns // 1_000_000
        except OSError:
            return None


def _filters(type_: str, module: str | None, *, has_vault: bool) -> dict[str, list[str]]:
    filters: dict[str, list[str]] = {} if has_vault else {"source": [DISCOVERY, SESSION, CODE]}
    if type_ != "all":
        filters |= {"source": [DISCOVERY], "type": [type_]}
    if module is not None:
        filters["module"] = [module]
    return filters


def _of_discovery(found: Discovery, score: float) -> Result:
    return Result(found.id, found.type, found.content, found.module, found.session, found.date, score, DISCOVERY)


def _of_session(found: SessionSummary, score: float) -> Result:
    return Result(found.id, SESSION, found.content, found.module, found.id, found.date, score, SESSION)


def _tell_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("the code base could not be indexed", exc_info=error)
