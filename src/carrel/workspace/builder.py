"""Building the toolsets of a workspace over its stores."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.concurrency import Deferred, already_open
from carrel.mcp.toolset import Arguments, Caller, Handler, Toolset
from carrel.settings import EmbeddingsSettings
from carrel.storage.database import Database
from carrel.storage.notifications import Notifications
from carrel.workspace.access_policy import backend_token
from carrel.workspace.desk import content_api
from carrel.workspace.subscriptions import follow_search

if TYPE_CHECKING:
    from carrel.api.dispatcher import Dispatcher
    from carrel.mcp.resources import Completions
    from carrel.notes.file_store import FileStore
    from carrel.notes.note_search import NotesSearch
    from carrel.notes.note_store import NoteStore
    from carrel.search.engine import SearchEngine, Source
    from carrel.settings import Settings
    from carrel.toolsets.code.suggestions import CodeNames
    from carrel.workspace.folder import Workspace

T = TypeVar("T")

SEARCH_MODULES = ("carrel.search.engine", "carrel.search.providers.bundled", "carrel.search.providers.provider_factory")


def remote_bridge(workspace: "Workspace", stack: AsyncExitStack) -> Toolset:
    from carrel.toolsets.bridge import bridge_toolset
    from carrel.toolsets.bridge.http_backend import RemoteBackend

    given = workspace.settings
    backend = RemoteBackend(given.content.backend_url, token=backend_token(given))
    stack.push_async_callback(backend.close)
    return bridge_toolset(backend)


@dataclass(slots=True)
class Builder:
    """What it opens is closed with the stack. On trial, nothing begins in the background."""

    workspace: "Workspace"
    database: Database
    stack: AsyncExitStack
    is_trial: bool
    is_deferring: bool
    """Whether what the first answers do not need is opened behind them."""
    notices: Notifications
    notes: "NoteStore | None" = None
    """Once their toolset is built, unless that is deferred."""
    _engine: "SearchEngine | None" = None

    async def toolset(self, name: str) -> Toolset:
        match name:
            case "tasks":
                return self._tasks()
            case "catalog":
                return self._catalog()
            case "bridge":
                return await self._bridge()
            case "notes":
                return await (self._notes() if self._settings.notes.store == "files" else self._notes_in_neo4j())
            case "code":
                return await self._code()
            case _:
                return self._journal()

    @property
    def _settings(self) -> "Settings":
        return self.workspace.settings

    def _tasks(self) -> Toolset:
        from carrel.toolsets.tasks import tasks_toolset

        return tasks_toolset(self.database, user=self._settings.tasks.user or None)

    def _catalog(self) -> Toolset:
        from carrel.toolsets.catalog import catalog_toolset

        return catalog_toolset(self.database)

    async def _bridge(self) -> Toolset:
        if self._settings.content.backend_url:
            return remote_bridge(self.workspace, self.stack)
        from carrel.toolsets.bridge import InProcessBackend, bridge_toolset

        api = self._deferred(self._open_content_api)
        if not self.is_deferring:
            await api.get()  # else with the first call: FastAPI is 30 MB that many sessions do without
        return bridge_toolset(InProcessBackend(api))

    async def _open_content_api(self) -> "Dispatcher":
        await asyncio.to_thread(_load, "carrel.api")
        return content_api(self._settings, self.database)

    async def _notes(self) -> Toolset:
        from carrel.toolsets.notes import TOOLS, notes_toolset
        from carrel.toolsets.notes.note_resources import NoteResources

        store = self._deferred(self._open_note_files)
        handlers = self._deferred(partial(self._open_note_handlers, store))

        async def recent(start: str, caller: Caller, limit: int) -> "Completions":
            from carrel.toolsets.notes.note_resources import recent_notes

            return await recent_notes((await store.get()).index.vault)(start, caller, limit)

        await self._open_in_time(handlers)
        if not self.is_deferring:
            self.notes = await store.get()
        names = [name for name in TOOLS if name != "search" or self._settings.embeddings.provider != "none"]
        return notes_toolset(_later(names, handlers), NoteResources(store), {"recent note": recent})

    async def _open_note_files(self) -> "FileStore":
        await asyncio.to_thread(_load, "carrel.notes.file_store", "carrel.toolsets.notes.handlers", *SEARCH_MODULES)
        return await self.workspace.note_files(self.stack, start=not self.is_trial)

    async def _open_note_handlers(self, deferred: "Deferred[FileStore]") -> Mapping[str, Handler]:
        store = await deferred.get()
        from carrel.notes.note_search import NotesSource
        from carrel.toolsets.notes.handlers import note_handlers

        search = await self._notes_search(NotesSource(store.index, self.workspace.notes_collection))
        if search:
            store.listen(search.note)
        return note_handlers(store, search, store.wait_until_indexed)

    async def _notes_in_neo4j(self) -> Toolset:
        from carrel.notes.neo4j.neo4j_store import Neo4jSource
        from carrel.toolsets.notes import notes_toolset
        from carrel.toolsets.notes.handlers import note_handlers
        from carrel.toolsets.notes.note_resources import NoteResources

        self.notes = store = self.workspace.note_database(self.stack)
        search = await self._notes_search(Neo4jSource(store, self.workspace.notes_collection))
        if search:
            store.listen(search.note)
            if not self.is_trial:
                store.watch()
        return notes_toolset(note_handlers(store, search), NoteResources(already_open(store)))

    async def _notes_search(self, source: "Source") -> "NotesSearch | None":
        if self._settings.embeddings.provider == "none":
            return None
        from carrel.notes.note_search import NotesSearch

        search = NotesSearch(await self._search_engine(), source)
        self.stack.push_async_callback(search.close)
        if not self.is_trial:
            search.start()
        return search

    async def _code(self) -> Toolset:
        from carrel.toolsets.code import TOOLS, code_toolset

        names = self._deferred(self._open_code_names)
        handlers = self._deferred(self._open_code_handlers)

        async def modules(start: str, caller: Caller, limit: int) -> "Completions":
            return await (await names.get()).suggest(start, caller, limit)

        await self._open_in_time(handlers)
        return code_toolset(_later(TOOLS, handlers), {"module": modules})

    async def _open_code_names(self) -> "CodeNames":
        from carrel.code.source_files import list_source_files
        from carrel.toolsets.code.suggestions import CodeNames

        workspace = self.workspace
        files = partial(list_source_files, workspace.code_root, workspace.denied)
        return CodeNames(files, workspace.code_reader().module_of, workspace.denied_without_notes)

    async def _open_code_handlers(self) -> Mapping[str, Handler]:
        await asyncio.to_thread(_load, "carrel.code.source_files", "carrel.toolsets.code.handlers", *SEARCH_MODULES)
        from carrel.code.context_search import ContextSearch
        from carrel.code.grep.searcher import CodeSearcher
        from carrel.code.knowledge.accesses import AccessCounter
        from carrel.code.source_files import list_source_files
        from carrel.toolsets.code.handlers import code_handlers

        workspace = self.workspace
        reader = workspace.code_reader()
        accesses = AccessCounter(self.database, workspace.code_base)
        self.stack.push_async_callback(accesses.close)
        engine = await self._search_engine()
        context = ContextSearch(
            engine,
            workspace.code_source(self.database, engine, reader),
            self.database,
            workspace.code_base,
            workspace.code_root,
            reader.module_of,
            accesses,
            files=partial(list_source_files, workspace.code_root, workspace.denied),
            denied=workspace.denied,
            answers_without_meaning=self._settings.code.answer_without_meaning,
        )
        self.stack.push_async_callback(context.close)
        if not self.is_trial:
            context.start()
        searcher = CodeSearcher(workspace.code_root, workspace.denied)
        return code_handlers(reader, searcher, context, accesses, workspace.denied_without_notes)

    def _journal(self) -> Toolset:
        from carrel.toolsets.journal import journal_toolset

        return journal_toolset(self.database, self.workspace.code_base)

    def _deferred(self, opener: Callable[[], Awaitable[T]]) -> Deferred[T]:
        deferred = Deferred(opener)
        self.stack.push_async_callback(deferred.close)
        return deferred

    async def _open_in_time(self, deferred: Deferred[Any]) -> None:
        """At once, or behind the first answers. What is wrong with the settings of search is told at once anyway."""
        if self._settings.embeddings != EmbeddingsSettings():
            await self._search_engine()
        if self.is_deferring:
            deferred.start_in_background()
        else:
            await deferred.get()

    async def _search_engine(self) -> "SearchEngine":
        """One for all toolsets."""
        if self._engine is None:
            self._engine = await self.stack.enter_async_context(self.workspace.search())
            if not self.is_trial:
                follow_search(self.notices, self._engine)
        return self._engine


def _load(*modules: str) -> None:
    """Import them: on a thread, so that calls are answered meanwhile."""
    for module in modules:
        import_module(module)


def _later(names: Iterable[str], handlers: Deferred[Mapping[str, Handler]]) -> dict[str, Handler]:
    """Handlers for the tools named that wait for the real ones to be opened."""

    def later(name: str) -> Handler:
        async def handler(arguments: Arguments, caller: Caller) -> Any:
            return await (await handlers.get())[name](arguments, caller)

        return handler

    return {name: later(name) for name in names}
