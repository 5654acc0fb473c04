"""Searching what is known about a code base: discoveries, session summaries and the code itself, ranked together."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from carrel.code.file_access import DenyList
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
    knowledge_sources,
    source_of,
)
from carrel.code.knowledge.sessions import SessionRepository, SessionSummary
from carrel.common import AsyncProgress, now
from carrel.errors import CarrelError
from carrel.search.documents import Hit
from carrel.search.engine import SearchEngine, Source, update_index
from carrel.storage.database import Database

log = logging.getLogger("carrel.code")

BOOST_CANDIDATES = 50
"""Hits that a boost may bring into the answer."""
FAST_CHECK_SECONDS = 0.1
"""If it takes no longer to see that no file has changed, every search waits for that; else it goes on beside them,"""
CHECK_VALIDITY_FACTOR = 5
"""and is believed for so many times as long as it took."""
PUT_BATCH_SIZE = 256
UPDATE_WAIT_TIMEOUT_SECONDS = 0.5
"""Seconds that a search waits for the index to be brought up to date."""
FIRST_UPDATE_WAIT_TIMEOUT_SECONDS = 3.0
"""The same where there is none yet."""
PROGRESS_INTERVAL_SECONDS = 0.25
START_DELAY_SECONDS = 2.0
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


class HitDetails(NamedTuple):
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
        denied: DenyList,
        answers_without_meaning: bool = False,
    ) -> None:
        self._engine = engine
        self._source = source
        self._knowledge = CombinedSource(source.collection, *knowledge_sources(database, code_base))
        self._knowledge_versions: dict[str, str] = {}
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
        self._start_timer: asyncio.TimerHandle | None = None
        self._refresh_task: asyncio.Task[None] | None = None
        self._fresh_until = 0.0
        self._progress = (0, 0)
        self._check_seconds = 0.0
        """Seconds, to see whether a file has changed."""

    def start(self) -> None:
        """Index in the background, soon: a start has enough to do."""
        self._start_timer = asyncio.get_running_loop().call_later(START_DELAY_SECONDS, self._refresh)

    async def close(self) -> None:
        if self._start_timer:
            self._start_timer.cancel()
        if self._refresh_task:
            self._refresh_task.cancel()
            await asyncio.wait((self._refresh_task,))

    async def search(
        self,
        query: str,
        *,
        type_: str,
        module: str | None,
        limit: int,
        report_progress: AsyncProgress | None = None,
        denied: DenyList | None = None,
    ) -> Results | NothingIndexed | NotEmbedded:
        """`denied` is for a caller who is shown nothing of the vault."""
        started = time.perf_counter()
        await self._wait_until_updated(report_progress)
        await self._index_knowledge()
        collection = self._source.collection
        await self._engine.wait_for_small_backlog(collection)
        filters = _filters(type_, module, has_vault=denied is None)
        found = await self._engine.search(collection, query, filters=filters, limit=BOOST_CANDIDATES)
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

    async def _wait_until_updated(self, report_progress: AsyncProgress | None) -> None:
        if time.monotonic() >= self._fresh_until:
            self._refresh()
        if self._refresh_task is None or self._refresh_task.done():
            return
        deadline = time.monotonic() + self._wait_timeout()
        reported = 0
        while not self._refresh_task.done() and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(
                (self._refresh_task,), timeout=min(left, PROGRESS_INTERVAL_SECONDS) if report_progress else left
            )
            done, total = self._progress
            if report_progress and done > reported:
                await report_progress(done, total, "passages of code indexed")
                reported = done

    def _wait_timeout(self) -> float:
        if self._indexed is None:
            return FIRST_UPDATE_WAIT_TIMEOUT_SECONDS
        return UPDATE_WAIT_TIMEOUT_SECONDS if self._check_seconds <= FAST_CHECK_SECONDS else 0.0

    async def _index_knowledge(self) -> None:
        """What was learned is little, and is searched as it is now; it does not wait for the files."""
        versions = {document: version async for document, version in self._knowledge.versions()}
        changed = [each for each, version in versions.items() if self._knowledge_versions.get(each) != version]
        gone = [each for each in self._knowledge_versions if each not in versions]
        collection = self._source.collection
        for start in range(0, len(changed), PUT_BATCH_SIZE):
            documents = await self._knowledge.documents(changed[start : start + PUT_BATCH_SIZE])
            await self._engine.put(collection, documents)
        if gone:
            await self._engine.remove(collection, gone)
        self._knowledge_versions = versions

    def _refresh(self) -> None:
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = asyncio.create_task(self._update_index())
            self._refresh_task.add_done_callback(_log_failure)

    async def _update_index(self) -> None:
        started = time.monotonic()
        self._progress = (0, 0)

        def progress(more: int, total: int) -> None:
            self._progress = (self._progress[0] + more, total)

        try:
            files = await asyncio.to_thread(self._files)
            seconds = self._check_seconds = time.monotonic() - started
            if has_changed := files != self._indexed:
                await update_index(self._engine, self._source, progress)
                await self._engine.embed_in_background()
                self._indexed = files
        except CarrelError as error:
            log.warning("the index of the code base could not be brought up to date: %s", error)
        else:
            is_valid_longer = not has_changed and seconds > FAST_CHECK_SECONDS
            self._fresh_until = time.monotonic() + (CHECK_VALIDITY_FACTOR * seconds if is_valid_longer else 0)

    async def _results(self, hits: Sequence[Hit], denied: DenyList) -> list[Result]:
        details = await self._load_details(hits)
        paths = [key.path for hit in hits if (key := code_key(hit.id))]
        accesses: Mapping[str, Access] = await self._accesses.get_many(paths) if paths else {}
        moment = now()
        results: list[Result] = []
        for hit in hits:
            if (key := code_key(hit.id)) is not None:
                if denied.path(key.path) or (date := self._modified_at(key.path)) is None:
                    continue  # gone since it was indexed, or not to be shown any more
                read = accesses.get(key.path)
                gain = boost(read.reads, read.last, moment) if read else 0.0
                score = round(boosted(hit.score, gain), 4)
                module = self._module_of(key.path)
                results.append(Result(key.place, CODE, hit.passage.text, module, None, date, score, CODE))
            elif (discovery := details.discoveries.get(key_of(hit.id))) and source_of(hit.id) == DISCOVERY:
                results.append(_discovery_result(discovery, hit.score))
            elif summary := details.sessions.get(key_of(hit.id)):
                results.append(_session_result(summary, hit.score))
        return results

    async def _load_details(self, hits: Sequence[Hit]) -> HitDetails:
        discoveries = [key_of(hit.id) for hit in hits if source_of(hit.id) == DISCOVERY]
        sessions = [key_of(hit.id) for hit in hits if source_of(hit.id) == SESSION]
        found = HitDetails({}, {})
        if discoveries:
            rows = await self._database.read(lambda s: DiscoveryRepository(s, self._code_base).get_many(discoveries))
            found = found._replace(discoveries={each.id: each for each, _ in rows})
        if sessions:
            summaries = await self._database.read(lambda s: SessionRepository(s, self._code_base).get_many(sessions))
            found = found._replace(sessions={each.id: each for each in summaries})
        return found

    def _modified_at(self, path: str) -> int | None:
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


def _discovery_result(found: Discovery, score: float) -> Result:
    return Result(found.id, found.type, found.content, found.module, found.session, found.date, score, DISCOVERY)


def _session_result(found: SessionSummary, score: float) -> Result:
    return Result(found.id, SESSION, found.content, found.module, found.id, found.date, score, SESSION)


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("the code base could not be indexed", exc_info=error)
