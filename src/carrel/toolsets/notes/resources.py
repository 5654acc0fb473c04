"""Each note as an MCP resource."""

from collections.abc import Callable, Sequence
from urllib.parse import quote, unquote

from carrel.mcp.resources import Found, Listed, Listener
from carrel.notes.store import NoteStore
from carrel.notes.vault import is_text

SCHEME = "note://"


class NoteResources:
    template = SCHEME + "{+id}"
    name = "note"
    description = "A markdown note by its id, the path in the vault, such as ideas/garden.md"
    mime_type = "text/markdown"

    def __init__(self, store: NoteStore) -> None:
        self._store = store

    async def listed(self, after: str, limit: int) -> list[Listed]:
        notes = await self._store.page(_id(after), limit)
        return [Listed(uri_of(note.id), note.id, note.title) for note in notes]

    async def read(self, uri: str) -> str | None:
        note = await self._store.get(_id(uri)) if uri.startswith(SCHEME) and is_text(uri) else None
        return None if note is None else note.content

    async def completions(self, start: str, limit: int) -> Found:
        return Found(*await self._store.completions(start, limit)) if is_text(start) else Found([], 0)

    def listen(self, listener: Listener) -> None:
        def heard(changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
            listener([uri_of(note_id) for note_id in (*changed, *gone)], has_others)

        self._store.listen(heard)

    def watch(self) -> Callable[[], None]:
        """Somebody is to be told, until what this returns is called."""
        return self._store.follow()


def uri_of(note_id: str) -> str:
    return SCHEME + quote(note_id, safe="/!$&'()*+,;=:@~")


def _id(uri: str) -> str:
    return unquote(uri.removeprefix(SCHEME))
