"""Searching notes by meaning and by words.

Changes go into the search index shortly after they happen, and at once when a query comes first, so that an edit shows
in the next search. What could not be indexed is kept for the next attempt.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from carrel.errors import CarrelError
from carrel.notes.frontmatter import read
from carrel.notes.index import Index
from carrel.notes.markdown import prose
from carrel.notes.parser import MAX_PARSED_LENGTH, decoded, shown
from carrel.notes.vault import VaultError
from carrel.search.documents import Document, Hit, Passage, split
from carrel.search.engine import SearchEngine, Source, update_index

UPDATE_TIMEOUT_SECONDS = 1.0
"""How long a query waits for the first update of the index."""
MAX_INLINE_UPDATES = 64
"""Pending changes up to which a query waits until they are indexed."""
START_DELAY_SECONDS = 2.0
"""Delay of the first update, unless a query comes first, to keep the start fast."""
DEBOUNCE_SECONDS = 0.1
"""Delay after a change in which others may join it."""
RETRY_SECONDS = 5.0

log = logging.getLogger("carrel.notes")

_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+)$", re.MULTILINE)


def passages(text: str) -> list[Passage]:
    """Split a note's content into passages by heading."""
    found: list[Passage] = []
    label, start = "", 0
    places = [match for span in prose(text) for match in _HEADING.finditer(text, span.start, span.end)]
    for match in [*places, None]:
        section = text[start : match.start() if match else len(text)]
        found.extend(Passage(part, label) for part in split(section) if part or label)
        if match:
            label, start = _heading_text(match[1]), match.end()
    return found or [Passage("")]


def _heading_text(heading: str) -> str:
    """Without the blanks and number signs that may end it."""
    return heading.rstrip(" \t").rstrip("#").rstrip(" \t") or heading[:1]


class NotesSource:
    """The notes of a vault as documents to search."""

    def __init__(self, index: Index, collection: str = "notes") -> None:
        self._index = index
        self.collection = collection

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        """Yield every note with its content hash."""
        await self._index.wait_until_ready(no_timeout=True)
        for note_id, version in self._index.versions():
            yield note_id, version

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        """Read these notes as documents; those that are gone are left out."""
        return await asyncio.to_thread(lambda: [found for each in ids if (found := self._document(each))])

    def _document(self, note_id: str) -> Document | None:
        entry = self._index.entry(note_id)
        try:
            content = self._index.vault.read(note_id)
        except VaultError as error:
            log.warning("a note is left out of the search index: %s", error)
            return None
        if entry is None or content is None:
            return None
        text = decoded(content[0])
        return Document(
            id=note_id,
            title=entry.facts.title,
            passages=passages(shown(text[(body := read(text).body) : body + MAX_PARSED_LENGTH])),
            version=entry.hash.hex(),
            newness=entry.stamp.mtime_ns // 1_000_000,
        )


class NotesSearch:
    """Search over a source that keeps changing: pending changes are indexed before the next query."""

    def __init__(self, engine: SearchEngine, source: Source) -> None:
        self._engine = engine
        self._source = source
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._has_changes = asyncio.Event()
        self._flush_lock = asyncio.Lock()
        self._was_queried = asyncio.Event()
        self._is_current = asyncio.Event()
        """All that there was at the start is in the index."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to bring the index up to date in the background."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop the background task."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def find(self, query: str, limit: int) -> list[Hit]:
        """Return the best notes for a query."""
        self._was_queried.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(UPDATE_TIMEOUT_SECONDS):
                await self._is_current.wait()
        if self._is_current.is_set() and len(self._changed) + len(self._gone) <= MAX_INLINE_UPDATES:
            await self._flush()
        await self._engine.wait_for_small_backlog(self._source.collection)
        return (await self._engine.search(self._source.collection, query, limit=limit)).hits

    def note(self, changed: Sequence[str], gone: Sequence[str], _has_others: bool = True) -> None:
        """Record that these notes have changed or are gone; a listener of the store."""
        self._changed.update(changed)
        self._gone.update(gone)
        self._gone.difference_update(changed)
        self._changed.difference_update(gone)
        self._has_changes.set()

    async def _run(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(START_DELAY_SECONDS):
                await self._was_queried.wait()
        while True:
            try:
                await update_index(self._engine, self._source)
                self._is_current.set()
                await self._engine.embed_in_background()
                while True:
                    await self._has_changes.wait()
                    await asyncio.sleep(DEBOUNCE_SECONDS)
                    self._has_changes.clear()
                    await self._flush()
            except CarrelError as error:
                log.warning("the search index of the notes could not be brought up to date: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _flush(self) -> None:
        async with self._flush_lock:
            changed, self._changed = self._changed, set()
            gone, self._gone = self._gone, set()
            try:
                if gone:
                    await self._engine.remove(self._source.collection, sorted(gone))
                if changed:
                    await self._engine.put(self._source.collection, await self._source.documents(sorted(changed)))
            except BaseException:  # for the next one to do
                # Keep them for the next attempt, unless they have changed the other way meanwhile.
                self._changed |= changed - self._gone
                self._gone |= gone - self._changed
                raise
