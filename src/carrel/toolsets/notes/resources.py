"""Each note as an MCP resource."""

import heapq
from collections.abc import Sequence
from urllib.parse import quote, unquote

from carrel.mcp.resources import Found, Listed, Listener
from carrel.notes.files import FileStore
from carrel.notes.names import key

SCHEME = "note://"


class NoteResources:
    template = SCHEME + "{+id}"
    name = "note"
    description = "A markdown note by its id, the path in the vault, such as ideas/garden.md"
    mime_type = "text/markdown"

    def __init__(self, store: FileStore) -> None:
        self._store = store

    async def listed(self, after: str, limit: int) -> list[Listed]:
        await self._store.index.settled()
        last = _id(after)
        graph = self._store.index.graph
        nodes = heapq.nsmallest(limit, (node for node in graph if node.id > last), key=lambda node: node.id)
        return [Listed(uri_of(node.id), node.id, node.facts.title) for node in nodes]

    async def read(self, uri: str) -> str | None:
        note = await self._store.get(_id(uri)) if uri.startswith(SCHEME) else None
        return None if note is None else note.content

    async def completions(self, start: str, limit: int) -> Found:
        """Ids that begin so; then those of which a folder or the file name does."""
        await self._store.index.settled()
        wanted = key(start)
        inner = f"/{wanted}"
        first: list[str] = []
        second: list[str] = []
        for node in self._store.index.graph:
            if node.path.startswith(wanted):
                first.append(node.id)
            elif inner in node.path:
                second.append(node.id)
        return Found(
            [*heapq.nsmallest(limit, first), *heapq.nsmallest(limit, second)][:limit], len(first) + len(second)
        )

    def listen(self, listener: Listener) -> None:
        def heard(changed: Sequence[str], gone: Sequence[str], has_others: bool) -> None:
            listener([uri_of(note_id) for note_id in (*changed, *gone)], has_others)

        self._store.index.listeners.append(heard)


def uri_of(note_id: str) -> str:
    return SCHEME + quote(note_id, safe="/!$&'()*+,;=:@~")


def _id(uri: str) -> str:
    return unquote(uri.removeprefix(SCHEME))
