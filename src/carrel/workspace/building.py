"""Building the toolsets of a workspace over its stores."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from carrel.mcp.toolset import Toolset
from carrel.storage.database import Database
from carrel.storage.notices import Notices
from carrel.workspace.desk import content_api
from carrel.workspace.guarding import backend_token
from carrel.workspace.hearing import follow_search

if TYPE_CHECKING:
    from carrel.notes.search import NotesSearch
    from carrel.notes.store import NoteStore
    from carrel.search.engine import SearchEngine
    from carrel.search.source import Source
    from carrel.settings import Settings
    from carrel.workspace.folder import Workspace


def remote_bridge(workspace: "Workspace", stack: AsyncExitStack) -> Toolset:
    from carrel.toolsets.bridge import RemoteBackend, bridge_toolset

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
    notices: Notices
    notes: "NoteStore | None" = None
    """Once their toolset is built."""
    _engine: "SearchEngine | None" = None

    async def toolset(self, name: str) -> Toolset:
        match name:
            case "tasks":
                return self._tasks()
            case "catalog":
                return self._catalog()
            case "bridge":
                return self._bridge()
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

    def _bridge(self) -> Toolset:
        if self._settings.content.backend_url:
            return remote_bridge(self.workspace, self.stack)
        from carrel.toolsets.bridge import InProcessBackend, bridge_toolset

        return bridge_toolset(InProcessBackend(content_api(self._settings, self.database)))

    async def _notes(self) -> Toolset:
        from carrel.notes.search import NotesSource
        from carrel.toolsets.notes import notes_toolset
        from carrel.toolsets.notes.recent import recent_notes
        from carrel.toolsets.notes.resources import NoteResources

        self.notes = store = await self.workspace.note_files(self.stack, start=not self.is_trial)
        search = await self._notes_search(NotesSource(store.index, self.workspace.notes_collection))
        if search:
            store.listen(search.note)
        notes = notes_toolset(store, search, NoteResources(store), store.prepared)
        return replace(notes, suggestions={**notes.suggestions, "recent note": recent_notes(store.index.vault)})

    async def _notes_in_neo4j(self) -> Toolset:
        from carrel.notes.neo4j.source import Neo4jSource
        from carrel.toolsets.notes import notes_toolset
        from carrel.toolsets.notes.resources import NoteResources

        self.notes = store = self.workspace.note_database(self.stack)
        search = await self._notes_search(Neo4jSource(store, self.workspace.notes_collection))
        if search:
            store.listen(search.note)
            if not self.is_trial:
                store.follow()
        return notes_toolset(store, search, NoteResources(store))

    async def _notes_search(self, source: "Source") -> "NotesSearch | None":
        if self._settings.embeddings.provider == "none":
            return None
        from carrel.notes.search import NotesSearch

        search = NotesSearch(await self._search_engine(), source)
        self.stack.push_async_callback(search.close)
        if not self.is_trial:
            search.start()
        return search

    async def _code(self) -> Toolset:
        from carrel.code.context import ContextSearch
        from carrel.code.grep.searching import CodeSearcher
        from carrel.code.knowledge.accesses import AccessCounter
        from carrel.code.listing import list_files
        from carrel.toolsets.code import code_toolset
        from carrel.toolsets.code.names import CodeNames

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
            files=partial(list_files, workspace.code_root, workspace.denied),
            is_denied=workspace.denied.path,
            answers_without_meaning=self._settings.code.answer_without_meaning,
        )
        self.stack.push_async_callback(context.close)
        if not self.is_trial:
            context.start()
        searcher = CodeSearcher(workspace.code_root, workspace.denied)
        code = code_toolset(reader, searcher, context, accesses)
        files = partial(list_files, workspace.code_root, workspace.denied)
        return replace(code, suggestions={"module": CodeNames(files, reader.module_of).suggest})

    def _journal(self) -> Toolset:
        from carrel.toolsets.journal import journal_toolset

        return journal_toolset(self.database, self.workspace.code_base)

    async def _search_engine(self) -> "SearchEngine":
        """One for all toolsets."""
        if self._engine is None:
            self._engine = await self.stack.enter_async_context(self.workspace.search())
            if not self.is_trial:
                follow_search(self.notices, self._engine)
        return self._engine
