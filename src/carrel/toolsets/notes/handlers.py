"""The handlers of the notes tools, thin on top of a store of notes."""

from collections.abc import Awaitable, Callable
from typing import Any

from carrel.common import AsyncProgress
from carrel.mcp.toolset import Arguments, Caller, Failure, Handler
from carrel.notes.note_search import NotesSearch
from carrel.notes.note_store import NO_OBSERVER, NotesError, NoteStore, NoteView, Refusal, WriteObserver
from carrel.notes.parser import EXCERPT_LENGTH, truncated
from carrel.toolsets.notes.dialect import error

READ_SCOPE = "notes:read"
MAX_CONTENT_LENGTH = 10_000
MAX_NEIGHBOR_CONTENT_LENGTH = 200
MAX_NEIGHBORS = 20
MAX_WARNINGS = 20

Result = dict[str, Any]


def note_handlers(
    store: NoteStore,
    search: NotesSearch | None = None,
    prepare: Callable[[AsyncProgress], Awaitable[None]] | None = None,
) -> dict[str, Handler]:
    """Return the handlers by tool, without `search` if there is none. Calls with progress wait for `prepare`."""
    notes = _Handlers(store, search)
    handlers: dict[str, Handler] = {
        "search": notes.search,
        "get_node": notes.get,
        "get_neighbors": notes.neighbors,
        "find_path": notes.path,
        "get_hubs": notes.hubs,
        "search_by_tags": notes.tagged,
        "random_node": notes.random,
        "create_node": notes.create,
        "update_node": notes.update,
        "delete_node": notes.delete,
    }
    if search is None:
        del handlers["search"]
    return {name: _with_store_errors(each, prepare) for name, each in handlers.items()}


def _with_store_errors(handler: Handler, prepare: Callable[[AsyncProgress], Awaitable[None]] | None) -> Handler:
    async def guarded(arguments: Arguments, caller: Caller) -> Any:
        try:
            if prepare and caller.progress:
                await prepare(caller.progress)
            return await handler(arguments, caller)
        except NotesError as failure:
            return Failure(error("PROVIDER_ERROR", str(failure)), is_ours=True)

    return guarded


class _Handlers:
    def __init__(self, store: NoteStore, search: NotesSearch | None) -> None:
        self._store = store
        self._search = search

    async def search(self, arguments: Arguments, _caller: Caller) -> Any:
        if self._search is None:
            raise AssertionError("search is served only where there is one")
        found = await self._search.find(arguments["query"], int(arguments.get("limit", 10)))
        notes = {note.id: note for note in await self._store.get_many([hit.id for hit in found])}
        return [_excerpt_object(notes[hit.id]) | {"score": hit.score} for hit in found if hit.id in notes]

    async def get(self, arguments: Arguments, _caller: Caller) -> Any:
        note = await self._store.get(arguments["id"])
        if note is None:
            return None
        result = _note_object(note, MAX_CONTENT_LENGTH)
        if arguments.get("depth", 0) == 1:
            around = await self._store.neighborhood(note.id, "both", MAX_NEIGHBORS)
            neighbors = around.neighbors if around else ()
            result["neighbors"] = [
                _note_object(each.note, MAX_NEIGHBOR_CONTENT_LENGTH) | {"direction": each.direction}
                for each in neighbors
            ]
            result["incomingCount"] = around.incoming if around else 0
            result["outgoingCount"] = around.outgoing if around else 0
        return self._with_warnings(result, note)

    async def neighbors(self, arguments: Arguments, _caller: Caller) -> Any:
        limit = int(arguments.get("limit", 20))
        around = await self._store.neighborhood(arguments["id"], arguments.get("direction", "both"), limit)
        return [_excerpt_object(each.note) for each in around.neighbors] if around else []

    async def path(self, arguments: Arguments, _caller: Caller) -> Any:
        path = await self._store.path(arguments["source"], arguments["target"])
        return None if path is None else self._with_warnings({"path": path, "length": len(path) - 1})

    async def hubs(self, arguments: Arguments, _caller: Caller) -> Any:
        hubs = await self._store.hubs(arguments.get("metric", "in_degree"), int(arguments.get("limit", 10)))
        return [{"id": hub.id, "title": hub.title, "score": hub.score} for hub in hubs]

    async def tagged(self, arguments: Arguments, _caller: Caller) -> Any:
        tags, limit = _tags(arguments["tags"]), int(arguments.get("limit", 20))
        found = await self._store.find_by_tags(tags, all_of_them=arguments.get("mode", "any") == "all", limit=limit)
        return [_excerpt_object(note) for note in found]

    async def random(self, arguments: Arguments, _caller: Caller) -> Any:
        note = await self._store.random(_tags(arguments.get("tags", [])))
        return None if note is None else self._with_warnings(_note_object(note, MAX_CONTENT_LENGTH), note)

    async def create(self, arguments: Arguments, caller: Caller) -> Any:
        return await self._written(
            self._store.create(
                arguments["title"], arguments["content"], arguments.get("tags", []), arguments.get("directory", "")
            ),
            caller,
        )

    async def update(self, arguments: Arguments, caller: Caller) -> Any:
        title, content, tags = (arguments.get(name) for name in ("title", "content", "tags"))
        if title is None and content is None and tags is None:
            return Failure(error("INVALID_PARAMS", "At least one of title, content and tags must be given"))
        observer = WriteObserver(caller.progress, caller.deadline.lift) if caller.deadline else NO_OBSERVER
        updating = self._store.update(arguments["id"], title=title, content=content, tags=tags, observer=observer)
        return await self._written(updating, caller)

    async def delete(self, arguments: Arguments, caller: Caller) -> Any:
        result = {"deleted": await self._store.delete(arguments["id"])}
        return self._with_warnings(result) if caller.may(READ_SCOPE) else result

    async def _written(self, writing: Awaitable[NoteView | Refusal], caller: Caller) -> Any:
        """The note as it is now, or its id and title for a caller who may write notes but not read them."""
        outcome = await writing
        if isinstance(outcome, Refusal):
            return Failure(error(outcome.code, outcome.message))
        if not caller.may(READ_SCOPE):
            return {"id": outcome.id, "title": outcome.title}
        return self._with_warnings(_note_object(outcome, MAX_CONTENT_LENGTH), outcome)

    def _with_warnings(self, result: Result, note: NoteView | None = None) -> Result:
        warnings = [*(note.warnings if note else ()), *self._store.take_warnings()][:MAX_WARNINGS]
        return result | {"_warnings": warnings} if warnings else result


def _note_object(note: NoteView, most: int) -> Result:
    return {
        "id": note.id,
        "title": note.title,
        "content": truncated(note.content, most),
        "tags": list(note.tags),
        "links": [{"id": link.id, "title": link.title} for link in note.links],
    }


def _excerpt_object(note: NoteView) -> Result:
    return _note_object(note, EXCERPT_LENGTH)


def _tags(tags: list[str]) -> list[str]:
    return [tag.lstrip("#") for tag in tags]
