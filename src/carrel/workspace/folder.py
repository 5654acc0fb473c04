"""A folder and its settings, and the stores that they name."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from carrel import settings as settings_module
from carrel.calls.call_store import CallStore
from carrel.content.projects import ProjectRepository
from carrel.errors import SettingsError
from carrel.mcp.toolset import tool_names
from carrel.settings import FILE_NAME, Overrides, Settings
from carrel.settings.definitions import CONTENT_TOOLSETS, OPT_IN_TOOLSETS, TOOLSETS
from carrel.storage.database import Database, Location, PostgresLocation, locate
from carrel.storage.schema_version import open_database
from carrel.storage.sqlite import OWN_FOLDER, create_folder
from carrel.workspace.access_policy import open_audit, open_limits
from carrel.workspace.builder import Builder, remote_bridge
from carrel.workspace.database_traces import TracedDatabase, open_configured_tracing
from carrel.workspace.desk import Desk
from carrel.workspace.index_backlog import counts
from carrel.workspace.subscriptions import await_content, open_notices

if TYPE_CHECKING:
    from carrel.code.file_access import DenyList
    from carrel.code.reader import CodeReader
    from carrel.notes.file_store import FileStore
    from carrel.notes.index import Index
    from carrel.notes.neo4j import Neo4jStore
    from carrel.notes.trash import Restorer
    from carrel.notes.vault import Vault
    from carrel.search.engine import SearchEngine, Source
    from carrel.search.index_store import Store as SearchStore
    from carrel.search.providers.provider import Provider

log = logging.getLogger("carrel.workspace")


@dataclass(frozen=True, slots=True)
class Workspace:
    """Nothing is open yet."""

    folder: Path
    settings: Settings

    @property
    def location(self) -> Location:
        given = self.settings.database
        return locate(given.url, self.folder, direct_url=given.direct_url, replica_url=given.replica_url)

    @property
    def own_folder(self) -> Path:
        return self.folder / OWN_FOLDER

    # --- what is served

    @property
    def named_toolsets(self) -> tuple[str, ...]:
        """The toolsets that the settings name, in our order; none where every one that is configured is served."""
        named = self.settings.server.toolsets
        for name in named:
            if name not in TOOLSETS:
                raise SettingsError(f"server.toolsets: unknown toolset {name!r}; known: {', '.join(TOOLSETS)}")
        return tuple(name for name in TOOLSETS if name in named)

    @asynccontextmanager
    async def open(
        self,
        calls: CallStore | None = None,
        *,
        is_trial: bool = False,
        is_deferring: bool = False,
        environment: Mapping[str, str] = os.environ,
    ) -> "AsyncGenerator[Desk]":
        """Ready to be served, its calls noted in `calls`. A trial begins nothing in the background, and is only to see
        what stands in the way.

        With `is_deferring`, what a client's first questions do not need is opened behind them, or when it is needed.
        """
        calls = calls or CallStore()
        tracing = None if is_trial else open_configured_tracing(self.settings.server.tracing, environment)
        async with AsyncExitStack() as stack:
            limits = await open_limits(self.settings, self.location, stack)
            if tracing:
                stack.push_async_callback(asyncio.to_thread, tracing.close)
            if self.named_toolsets == ("bridge",) and self.settings.content.backend_url:
                bridge = remote_bridge(self, stack)
                yield Desk(
                    self.folder,
                    self.settings,
                    None,
                    {"bridge": bridge},
                    limits,
                    open_audit(self.settings, None),
                    tracing,
                    calls=calls,
                )
                return
            database = await open_database(self.location, pool_size=self.settings.database.pool_size)
            stack.push_async_callback(database.close)
            notices = open_notices(self.location, database, stack)
            if tracing:
                database = TracedDatabase(database, tracing, self.location)
            builder = Builder(self, database, stack, is_trial, is_deferring, notices)
            toolsets = {name: await builder.toolset(name) for name in await self._served(database)}
            if not is_trial:
                if not self.named_toolsets and not set(CONTENT_TOOLSETS) & toolsets.keys():
                    await_content(notices)
                self._count(calls, database, stack)
            audit = open_audit(self.settings, database)
            if audit:
                stack.push_async_callback(audit.close)
            yield Desk(
                self.folder,
                self.settings,
                database,
                toolsets,
                limits,
                audit,
                tracing,
                calls=calls,
                count_backlog=partial(counts, self, "pending"),
                notes=builder.notes,
            )

    def _count(self, calls: CallStore, database: Database, stack: AsyncExitStack) -> None:
        """Keeps the counts that `carrel status` shows in the database."""
        from carrel.calls.counters import CallCounters

        stack.push_async_callback(CallCounters(database, self.code_base, calls).close)

    async def _served(self, database: Database) -> tuple[str, ...]:
        missing = await self._unconfigured(database)
        for name in self.named_toolsets:
            if name in missing:
                raise SettingsError(f"server.toolsets: {name} cannot be served: {missing[name]}")
        return self.named_toolsets or tuple(
            name for name in TOOLSETS if name not in missing and name not in OPT_IN_TOOLSETS
        )

    async def _unconfigured(self, database: Database) -> dict[str, str]:
        """The toolsets that have nothing to serve from, and what is missing."""
        missing: dict[str, str] = {}
        if not await database.read(lambda session: ProjectRepository(session).any()):
            missing["catalog"] = "there is no content yet; run carrel import content FILE"
            if not self.settings.content.backend_url:
                missing["bridge"] = f"{missing['catalog']}, or set content.backend_url"
        if self.settings.notes.store == "neo4j":
            if not self.settings.notes.neo4j_url:
                missing["notes"] = "notes.store is neo4j, and notes.neo4j_url is not set"
        elif not self.vault_folder.is_dir():
            missing["notes"] = f"there is no folder {self.settings.notes.vault}; make it, or set notes.vault"
        if not self.settings.code.root:
            missing["code"] = "code.root is empty"
        elif not self.code_root.is_dir():
            missing["code"] = f"there is no folder {self.settings.code.root}; set code.root"
        return missing

    # --- search

    @asynccontextmanager
    async def search(self, environment: Mapping[str, str] = os.environ) -> "AsyncGenerator[SearchEngine]":
        """The search engine over what is indexed in this workspace; nothing is loaded before it is used."""
        from carrel.search.engine import SearchEngine

        engine = SearchEngine(self._search_store, self._embedding_provider(environment))
        try:
            yield engine
        finally:
            await engine.close()

    def _search_store(self) -> "SearchStore":
        location = self.location
        if isinstance(location, PostgresLocation):
            from carrel.search.postgres.postgres_store import PostgresStore

            return PostgresStore(location.url, direct_url=location.direct)
        from carrel.search.local.local_store import LocalStore

        folder = self.own_folder / "search"
        create_folder(folder)
        return LocalStore(folder)

    def _embedding_provider(self, environment: Mapping[str, str]) -> "Provider | None":
        from carrel.search.providers.provider import ProviderMissing
        from carrel.search.providers.provider_factory import open_provider

        given = self.settings.embeddings
        try:
            return open_provider(
                given.provider,
                model=given.model,
                url=given.url,
                api_key_env=given.api_key_env,
                environ=environment,
                dimensions=given.dimensions or None,
            )
        except ProviderMissing as missing:
            log.warning("only words are searched: %s", missing)
            return None

    @property
    def collections(self) -> dict[str, str]:
        """What this workspace searches: as people call it, and as it is called in an index that several may share."""
        from carrel.code.knowledge.knowledge_source import collection_of

        return {"code": collection_of(self.code_base), "content": "content", "notes": self.notes_collection}

    @property
    def has_own_index(self) -> bool:
        """Whether nobody else's documents are in the search index."""
        return not isinstance(self.location, PostgresLocation)

    @asynccontextmanager
    async def sources(
        self, engine: "SearchEngine", wait: "Callable[[Index], Awaitable[None]]"
    ) -> "AsyncGenerator[list[Source]]":
        """What there is to index; `wait` for a vault to be read."""
        from carrel.content.content_source import ContentSource

        async with AsyncExitStack() as stack:
            database = await open_database(self.location, pool_size=1)
            stack.push_async_callback(database.close)
            sources: list[Source] = [ContentSource(database)]
            if self.settings.notes.store == "files" and self.vault_folder.is_dir():
                from carrel.notes.note_search import NotesSource

                store = await self.note_files(stack, watch=False)
                await wait(store.index)
                sources.append(NotesSource(store.index, self.notes_collection))
            if self.settings.code.root and self.code_root.is_dir():
                sources.append(self.code_source(database, engine, self.code_reader()))
            yield sources

    # --- notes

    @property
    def vault_folder(self) -> Path:
        return self.folder / self.settings.notes.vault

    @property
    def notes_collection(self) -> str:
        """Where several workspaces share a database, each has its own."""
        return f"notes:{self.code_base}" if isinstance(self.location, PostgresLocation) else "notes"

    def vault(self) -> "Vault":
        """Raises `SettingsError` where there is none."""
        from carrel.notes.vault import Vault

        if not self.vault_folder.is_dir():
            raise SettingsError(
                f"there is no vault: {self.vault_folder} is no folder; make it, or set notes.vault to the folder "
                "that your notes are in"
            )
        return Vault(self.vault_folder, self.settings.notes.ignore)

    def note_restorer(self) -> "Restorer":
        from carrel.notes.trash import Restorer

        return Restorer(self.vault(), self.own_folder)

    def note_database(self, stack: AsyncExitStack, environment: Mapping[str, str] = os.environ) -> "Neo4jStore":
        """The notes in Neo4j; it connects when it is first asked."""
        given = self.settings.notes
        if not given.neo4j_url:
            raise SettingsError("notes.neo4j_url is not set: name where Neo4j is, such as neo4j://localhost:7687")
        if given.neo4j_password_env and given.neo4j_password_env not in environment:
            raise SettingsError(f"notes.neo4j_password_env: the variable {given.neo4j_password_env} is not set")
        from carrel.notes.neo4j import Connection, Neo4jStore

        password = environment.get(given.neo4j_password_env, "")
        place = Connection(given.neo4j_url, user=given.neo4j_user, password=password, database=given.neo4j_database)
        store = Neo4jStore(place)
        stack.push_async_callback(store.close)
        return store

    async def note_files(self, stack: AsyncExitStack, *, watch: bool = True, start: bool = True) -> "FileStore":
        """The vault, being indexed if it is to start."""
        from carrel.notes.file_store import FileStore

        store = FileStore(self.vault(), self.own_folder)
        try:
            if start:
                await store.open(watch=watch)
        except BaseException:
            await store.close()
            raise
        # Only once it is open: a stack that closes meanwhile cancels the opening, and must not close it underneath.
        stack.push_async_callback(store.close)
        return store

    # --- code

    @property
    def code_root(self) -> Path:
        return self.folder / self.settings.code.root

    @property
    def code_base(self) -> str:
        """What this workspace is called in a database that several share."""
        from carrel.code.knowledge.code_base import code_base_of

        return code_base_of(self.folder, self.location, self.settings.code.name)

    @property
    def denied(self) -> "DenyList":
        from carrel.code.file_access import DenyList

        return DenyList(self.settings.code.deny)

    @property
    def denied_without_notes(self) -> "DenyList":
        """What is denied to callers who may not read notes: the vault's files too."""
        from carrel.code.file_access import DenyList, vault_patterns

        return DenyList([*self.settings.code.deny, *vault_patterns(self.code_root, self.vault_folder)])

    def code_reader(self) -> "CodeReader":
        from carrel.code.reader import CodeReader

        return CodeReader(self.code_root, self.denied, self.settings.code.source_roots)

    def code_source(self, database: Database, engine: "SearchEngine", reader: "CodeReader") -> "Source":
        """What was learned about the code base, and the code."""
        from carrel.code.file_access import DenyList, vault_patterns
        from carrel.code.knowledge.code_files import CodeFileSource, FileAccess
        from carrel.code.knowledge.knowledge_source import CombinedSource, collection_of, knowledge_sources
        from carrel.code.languages import language_of
        from carrel.code.source_files import list_source_files

        collection = collection_of(self.code_base)
        reading = FileAccess(
            files=partial(list_source_files, self.code_root, self.denied),
            text=reader.text,
            language=language_of,
            module=reader.module_of,
            is_of_vault=DenyList(list(vault_patterns(self.code_root, self.vault_folder))).path,
        )
        files = CodeFileSource(reading, partial(engine.versions, collection))
        return CombinedSource(collection, *knowledge_sources(database, self.code_base), files)


def refuse_collision(workspace: Workspace) -> None:
    """Where there is one endpoint only, toolsets whose tools share names cannot be served together."""
    if set(CONTENT_TOOLSETS) <= set(workspace.named_toolsets):
        from carrel.toolsets.bridge.toolset import ROUTES

        shared = ", ".join(name for name in ROUTES if name in tool_names("carrel.toolsets.catalog"))
        raise SettingsError(
            f"server.toolsets: catalog and bridge both have {shared}; on stdio name one of the two, "
            "or serve over HTTP, where each has an endpoint of its own"
        )


def find_workspace(
    folder: Path | None = None,
    overrides: Overrides | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Workspace:
    """The workspace at `folder`; without one, the nearest upwards with a `carrel.toml`, else right here."""
    place = find_folder(folder)
    return Workspace(place, settings_module.load(place, environment, overrides or {}))


def find_folder(folder: Path | None) -> Path:
    if folder is None:
        here = Path.cwd()
        folder = next((each for each in (here, *here.parents) if os.path.isfile(each / FILE_NAME)), here)
    elif not os.path.isdir(folder):
        raise SettingsError(f"--workspace: there is no folder {folder}")
    return folder.resolve()
