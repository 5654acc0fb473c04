"""Notes as MCP resources, and notes changed recently."""

import asyncio
import heapq
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from carrel.concurrency import Deferred
from carrel.mcp.resources import Completions, Listener, ResourceEntry
from carrel.mcp.toolset import Caller, Suggest
from carrel.notes.vault import Vault

if TYPE_CHECKING:
    from carrel.notes.note_store import NoteStore

RECENT_SECONDS = 7 * 24 * 3600


def recent_notes(vault: Vault) -> Suggest:
    """Suggest the IDs of notes that changed within a week, newest first."""

    def look(start: str, limit: int) -> Completions:
        since = time.time_ns() - RECENT_SECONDS * 1_000_000_000
        changed = [(stamp.mtime_ns, note_id) for note_id, stamp in vault.scan() if stamp.mtime_ns >= since]
        found = [(when, note_id) for when, note_id in changed if note_id.startswith(start)]
        newest = heapq.nsmallest(limit, found, key=lambda each: (-each[0], each[1]))
        return Completions([note_id for _, note_id in newest], len(found))

    async def suggest(start: str, _caller: Caller, limit: int) -> Completions:
        return await asyncio.to_thread(look, start, limit)

    return suggest


SCHEME = "note://"
MAX_URI_LENGTH = 64 * 1024
"""Characters. No path of a note takes as many, however it is written."""


class NoteResources:
    """Notes as MCP resources."""

    template = SCHEME + "{+id}"
    name = "note"
    description = "A markdown note by its id, the path in the vault, such as ideas/garden.md"
    mime_type = "text/markdown"

    def __init__(self, store: "Deferred[NoteStore]") -> None:
        self._store = store

    async def list_after(self, after: str, limit: int) -> list[ResourceEntry]:
        """Return the notes after a URI."""
        notes = await (await self._store.get()).page(_id(after[:MAX_URI_LENGTH]), limit)
        return [ResourceEntry(uri_of(note.id), note.id, note.title) for note in notes]

    async def read(self, uri: str) -> str | None:
        """Return a note's content; None if there is none."""
        store = await self._store.get()
        is_one = len(uri) <= MAX_URI_LENGTH and uri.startswith(SCHEME) and _is_text(uri)
        note = await store.get(_id(uri)) if is_one else None
        return None if note is None else note.content

    async def completions(self, start: str, limit: int) -> Completions:
        """Complete a note's ID."""
        store = await self._store.get()
        return Completions(*await store.completions(start, limit)) if _is_text(start) else Completions([], 0)

    def listen(self, listener: Listener) -> None:
        """Call the listener with the URIs of changed notes."""

        def notify(changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
            listener([uri_of(note_id) for note_id in (*changed, *gone)], has_others)

        self._store.when_open(lambda store: store.listen(notify))

    def watch(self) -> Callable[[], None]:
        """Look for changes until the returned function is called."""
        stops: list[Callable[[], None]] = []
        self._store.when_open(lambda store: stops.append(store.watch()))

        def stop() -> None:
            for each in stops:
                each()

        return stop


def _is_text(text: str) -> bool:
    from carrel.notes.vault import is_text

    return is_text(text)


def uri_of(note_id: str) -> str:
    """Return a note's URI."""
    return SCHEME + quote(note_id, safe="/!$&'()*+,;=:@~")


def _id(uri: str) -> str:
    return unquote(uri.removeprefix(SCHEME))
