"""Each note as an MCP resource."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from carrel.deferred import Deferred
from carrel.mcp.resources import Found, Listed, Listener

if TYPE_CHECKING:
    from carrel.notes.store import NoteStore

SCHEME = "note://"
MAX_URI = 64 * 1024
"""Characters. No path of a note takes as many, however it is written."""


class NoteResources:
    template = SCHEME + "{+id}"
    name = "note"
    description = "A markdown note by its id, the path in the vault, such as ideas/garden.md"
    mime_type = "text/markdown"

    def __init__(self, store: "Deferred[NoteStore]") -> None:
        self._store = store

    async def listed(self, after: str, limit: int) -> list[Listed]:
        notes = await (await self._store.get()).page(_id(after[:MAX_URI]), limit)
        return [Listed(uri_of(note.id), note.id, note.title) for note in notes]

    async def read(self, uri: str) -> str | None:
        store = await self._store.get()
        is_one = len(uri) <= MAX_URI and uri.startswith(SCHEME) and _is_text(uri)
        note = await store.get(_id(uri)) if is_one else None
        return None if note is None else note.content

    async def completions(self, start: str, limit: int) -> Found:
        store = await self._store.get()
        return Found(*await store.completions(start, limit)) if _is_text(start) else Found([], 0)

    def listen(self, listener: Listener) -> None:
        def heard(changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
            listener([uri_of(note_id) for note_id in (*changed, *gone)], has_others)

        self._store.when_open(lambda store: store.listen(heard))

    def watch(self) -> Callable[[], None]:
        """Somebody is to be told, until what this returns is called."""
        stops: list[Callable[[], None]] = []
        self._store.when_open(lambda store: stops.append(store.follow()))

        def stop() -> None:
            for each in stops:
                each()

        return stop


def _is_text(text: str) -> bool:
    from carrel.notes.vault import is_text

    return is_text(text)


def uri_of(note_id: str) -> str:
    return SCHEME + quote(note_id, safe="/!$&'()*+,;=:@~")


def _id(uri: str) -> str:
    return unquote(uri.removeprefix(SCHEME))
