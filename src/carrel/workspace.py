"""The composition root: reads the settings, opens the stores, builds the toolsets. Nothing else does."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from carrel import settings as settings_module
from carrel.content.projects import ProjectRepository
from carrel.errors import SettingsError, StoreError
from carrel.mcp.limits import RateLimiter
from carrel.mcp.observers import log_call
from carrel.mcp.pipeline import Observer, Pipeline
from carrel.mcp.toolset import Toolset, tool_names
from carrel.settings import FILE_NAME, Overrides, Settings
from carrel.storage.database import Database
from carrel.storage.location import Location, PostgresLocation, locate
from carrel.storage.opening import open_database
from carrel.storage.sqlite import OWN_FOLDER, make_folder

if TYPE_CHECKING:
    from fastapi import FastAPI

    from carrel.notes.files import FileStore
    from carrel.notes.index import Index
    from carrel.notes.restoring import Restorer
    from carrel.search.engine import SearchEngine
    from carrel.search.providers.protocol import Provider
    from carrel.search.source import Source
    from carrel.search.store import Store as SearchStore

log = logging.getLogger("carrel.workspace")

TOOLSETS = ("catalog", "bridge", "notes", "tasks")
CONTENT = ("catalog", "bridge")
"""Two contracts over the same content, whose tools share names: where both are served, catalog has its own endpoint."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder and its settings; nothing is open yet."""

    folder: Path
    settings: Settings

    @property
    def location(self) -> Location:
        return locate(self.settings.database.url, self.folder)

    @property
    def named_toolsets(self) -> tuple[str, ...]:
        """The toolsets that the settings name, in our order; none where every one that is configured is served."""
        named = self.settings.server.toolsets
        for name in named:
            if name not in TOOLSETS:
                raise SettingsError(f"server.toolsets: unknown toolset {name!r}; known: {', '.join(TOOLSETS)}")
        return tuple(name for name in TOOLSETS if name in named)

    @asynccontextmanager
    async def open(self, *observers: Observer, is_trial: bool = False) -> "AsyncGenerator[Desk]":
        """Ready to be served; a trial begins nothing in the background, and is only to see what stands in the way."""
        rate = self.settings.server.rate_limit
        async with AsyncExitStack() as stack:
            if self.named_toolsets == ("bridge",) and self.settings.content.backend_url:
                database, toolsets = None, {"bridge": self._remote_bridge(stack)}
            else:
                database = await open_database(self.location, pool_size=self.settings.database.pool_size)
                stack.push_async_callback(database.close)
                served = await self._served(database)
                toolsets = {name: await self._toolset(name, database, stack, is_trial=is_trial) for name in served}
            yield Desk(self.settings, database, toolsets, RateLimiter(rate) if rate else None, observers)

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
            from carrel.search.postgres.store import PostgresStore

            return PostgresStore(location.url)
        from carrel.search.local.store import LocalStore

        folder = self.folder / OWN_FOLDER / "search"
        make_folder(folder)
        return LocalStore(folder)

    def _embedding_provider(self, environment: Mapping[str, str]) -> "Provider | None":
        from carrel.search.providers.opening import open_provider
        from carrel.search.providers.protocol import ProviderMissing

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

    @asynccontextmanager
    async def sources(self, wait: "Callable[[Index], Awaitable[None]]") -> "AsyncGenerator[list[Source]]":
        """What there is to index; `wait` for a vault to be read."""
        from carrel.content.searchable import SearchableContent

        async with AsyncExitStack() as stack:
            database = await open_database(self.location, pool_size=1)
            stack.push_async_callback(database.close)
            sources: list[Source] = [SearchableContent(database)]
            if self.settings.notes.store == "files" and self.vault_folder.is_dir():
                from carrel.notes.search import NotesSource

                store = await self.note_files(stack, watch=False)
                await wait(store.index)
                sources.append(NotesSource(store.index))
            yield sources

    async def _served(self, database: Database) -> tuple[str, ...]:
        missing = await self._unconfigured(database)
        for name in self.named_toolsets:
            if name in missing:
                raise SettingsError(f"server.toolsets: {name} cannot be served: {missing[name]}")
        return self.named_toolsets or tuple(name for name in TOOLSETS if name not in missing)

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
        return missing

    async def _toolset(
        self, name: str, database: Database, stack: AsyncExitStack, *, is_trial: bool = False
    ) -> Toolset:
        if name == "tasks":
            from carrel.toolsets.tasks import tasks_toolset

            return tasks_toolset(database, user=self.settings.tasks.user or None)
        if name == "catalog":
            from carrel.toolsets.catalog import catalog_toolset

            return catalog_toolset(database)
        if name == "notes":
            return await self._notes(stack, is_trial=is_trial)
        if self.settings.content.backend_url:
            return self._remote_bridge(stack)
        from carrel.toolsets.bridge import InProcessBackend, bridge_toolset

        return bridge_toolset(InProcessBackend(content_api(self.settings, database)))

    @property
    def vault_folder(self) -> Path:
        return self.folder / self.settings.notes.vault

    def require_vault(self) -> None:
        if not self.vault_folder.is_dir():
            raise SettingsError(
                f"there is no vault: {self.vault_folder} is no folder; make it, or set notes.vault to the folder "
                "that your notes are in"
            )

    def note_restorer(self) -> "Restorer":
        from carrel.notes.restoring import Restorer
        from carrel.notes.vault import Vault

        self.require_vault()
        return Restorer(Vault(self.vault_folder, self.settings.notes.ignore), self.folder / OWN_FOLDER)

    async def note_files(self, stack: AsyncExitStack, *, watch: bool = True, start: bool = True) -> "FileStore":
        """The vault, being indexed if it is to start."""
        from carrel.notes.files import FileStore
        from carrel.notes.vault import Vault

        store = FileStore(Vault(self.vault_folder, self.settings.notes.ignore), self.folder / OWN_FOLDER)
        stack.push_async_callback(store.close)
        if start:
            await store.open(watch=watch)
        return store

    async def _notes(self, stack: AsyncExitStack, *, is_trial: bool) -> Toolset:
        from carrel.toolsets.notes import notes_toolset
        from carrel.toolsets.notes.resources import NoteResources

        store = await self.note_files(stack, start=not is_trial)
        resources = NoteResources(store)
        if self.settings.embeddings.provider == "none":
            return notes_toolset(store, None, resources, store.prepared)
        from carrel.notes.search import NotesSearch, NotesSource

        engine = await stack.enter_async_context(self.search())
        search = NotesSearch(engine, NotesSource(store.index))
        store.index.listeners.append(search.note)
        stack.push_async_callback(search.close)
        if not is_trial:
            search.start()
        return notes_toolset(store, search, resources, store.prepared)

    def _remote_bridge(self, stack: AsyncExitStack) -> Toolset:
        from carrel.toolsets.bridge import RemoteBackend, bridge_toolset

        backend = RemoteBackend(self.settings.content.backend_url)
        stack.push_async_callback(backend.close)
        return bridge_toolset(backend)


def content_api(settings: Settings, database: Database) -> "FastAPI":
    from carrel.api import build_api

    return build_api(database, default_project=settings.content.default_project.lower())


def refuse_collision(workspace: Workspace) -> None:
    """Where there is one endpoint only, toolsets whose tools share names cannot be served together."""
    if set(CONTENT) <= set(workspace.named_toolsets):
        from carrel.toolsets.bridge.toolset import ROUTES

        shared = ", ".join(name for name in ROUTES if name in tool_names("carrel.toolsets.catalog"))
        raise SettingsError(
            f"server.toolsets: catalog and bridge both have {shared}; on stdio name one of the two, "
            "or serve over HTTP, where each has an endpoint of its own"
        )


@dataclass(frozen=True, slots=True)
class Desk:
    """A workspace that is open: its stores answer, its toolsets can be called."""

    settings: Settings
    database: Database | None
    """None where all that is served is a bridge to elsewhere."""
    toolsets: Mapping[str, Toolset]
    limiter: RateLimiter | None = None
    observers: tuple[Observer, ...] = ()

    @property
    def together(self) -> tuple[str, ...]:
        """The toolsets that can be served at one endpoint."""
        return tuple(name for name in self.toolsets if name != "catalog" or "bridge" not in self.toolsets)

    def api(self) -> "FastAPI | None":
        """The backend API; None where the content is elsewhere, or what is served was named and it is not among it."""
        server, content = self.settings.server, self.settings.content
        is_unwanted = server.toolsets and not set(CONTENT) & set(server.toolsets)
        if self.database is None or content.backend_url or is_unwanted:
            return None
        return content_api(self.settings, self.database)

    def pipeline(self, *names: str) -> Pipeline:
        """The pipeline of the toolsets named, or of all that go together."""
        server = self.settings.server
        return Pipeline(
            [self.toolsets[name] for name in names or self.together],
            timeout=server.call_timeout,
            limiter=self.limiter,
            read_only=server.read_only,
            observers=(log_call, *self.observers),
        )

    def instructions(self, *names: str) -> str:
        lines = [f"- {name}: {self.toolsets[name].about}" for name in names or self.together]
        return "\n".join(["Carrel is your desk in this project. On it:", *lines])

    async def readiness(self) -> dict[str, str]:
        if self.database is None:
            return {}
        try:
            await self.database.ping()
        except StoreError:
            return {"database": "unreachable"}
        return {"database": "ok"}


def find_workspace(
    folder: Path | None = None,
    overrides: Overrides | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Workspace:
    """The workspace at `folder`; without one, the nearest upwards with a `carrel.toml`, else right here."""
    if folder is None:
        here = Path.cwd()
        folder = next((each for each in (here, *here.parents) if os.path.isfile(each / FILE_NAME)), here)
    elif not os.path.isdir(folder):
        raise SettingsError(f"--workspace: there is no folder {folder}")
    return Workspace(folder.resolve(), settings_module.load(folder, environment, overrides or {}))
