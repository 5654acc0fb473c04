"""A workspace that is open."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.calls.call_store import CallReaders, CallStore, log_call
from carrel.errors import CarrelError, StoreError
from carrel.mcp.description import ServerDescription
from carrel.mcp.limits import CallLimits
from carrel.mcp.metrics import InFlight, PoolConnections
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Toolset
from carrel.settings import Settings
from carrel.settings.definitions import CONTENT_TOOLSETS
from carrel.storage.database import Database
from carrel.toolsets.desk_prompts import desk_prompts
from carrel.version import __version__
from carrel.workspace.access_policy import open_authenticator

if TYPE_CHECKING:
    from carrel.api.dispatcher import Dispatcher
    from carrel.auth.audit import Audit
    from carrel.auth.tokens import TokenAuthenticator
    from carrel.mcp.gateway import Gateway
    from carrel.mcp.tracing import Tracing
    from carrel.notes.note_store import NoteStore
    from carrel.page.page_app import Page


@dataclass(frozen=True, slots=True)
class Desk:
    """Its stores answer, its toolsets can be called."""

    folder: Path
    settings: Settings
    database: Database | None
    """None where all that is served is a bridge to elsewhere."""
    toolsets: Mapping[str, Toolset]
    limits: CallLimits | None = None
    audit: "Audit | None" = None
    tracing: "Tracing | None" = None
    in_flight: InFlight = field(default_factory=InFlight)
    calls: CallStore = field(default_factory=CallStore)
    """Every call at this desk that goes through this process."""
    count_backlog: "Callable[[], list[int] | None] | None" = None
    notes: "NoteStore | None" = None
    """Where notes are served, and opened at once."""

    @property
    def combined_toolsets(self) -> tuple[str, ...]:
        """The toolsets that can be served at one endpoint."""
        return tuple(name for name in self.toolsets if name != "catalog" or "bridge" not in self.toolsets)

    def api(self) -> "Dispatcher | None":
        """The backend API; None where the content is elsewhere, or what is served was named and it is not among it."""
        database = self._content
        return None if database is None else content_api(self.settings, database)

    @property
    def _content(self) -> Database | None:
        """Where content is served from here."""
        server, content = self.settings.server, self.settings.content
        is_unwanted = server.toolsets and not set(CONTENT_TOOLSETS) & set(server.toolsets)
        return None if content.backend_url or is_unwanted else self.database

    def page(self, gateway: "Gateway") -> "Page":
        """What shows the desk to people; who may see it, `gateway` knows."""
        from carrel.page.desk_overview import PageContext
        from carrel.page.page_app import build_page

        context = PageContext(
            self.toolsets,
            CallReaders(self.calls),
            self.readiness,
            self.backlog,
            engine=self.settings.database.url.partition(":")[0],
            read_only=self.settings.server.read_only,
            notes=self.notes,
            content=self._content,
            default_project=self.settings.content.default_project.lower(),
            user=self.settings.tasks.user or None,
        )
        return build_page(context, gateway, self.limits)

    def authenticator(self) -> "TokenAuthenticator | None":
        """What knows who comes in over HTTP; None where everybody may."""
        return open_authenticator(self.folder, self.settings, self.database)

    def pipeline(self, *names: str, scopes: frozenset[str] | None = None) -> Pipeline:
        """The pipeline of the toolsets named, or of all that go combined_toolsets; with `scopes`, of what they open."""
        server = self.settings.server
        kind, observers = Pipeline, (log_call, self.calls.record)
        if self.tracing:
            kind, observers = self.tracing.pipeline, (*observers, self.tracing.observe)
        return kind(
            [self.toolsets[name] for name in names or self.combined_toolsets],
            timeout=server.call_timeout,
            limits=self.limits,
            read_only=server.read_only,
            shows_arguments=server.log_arguments,
            observers=observers,
            scopes=scopes,
            audit=self.audit,
            in_flight=self.in_flight,
            prompts=desk_prompts(user=self.settings.tasks.user or None),
        )

    def description(
        self, pipeline: Pipeline, *, has_channel: bool = False, is_shared: bool = True
    ) -> ServerDescription:
        """Describe the MCP server of a pipeline of this desk."""
        lines = [f"- {name}: {self.toolsets[name].about}" for name in pipeline.toolsets]
        instructions = "\n".join(["Carrel is your desk in this project. On it:", *lines])
        return ServerDescription(pipeline, __version__, instructions, has_channel, is_shared)

    def connections(self) -> PoolConnections | None:
        """Of the database's pool; None where it has none."""
        found = getattr(self.database, "connections", None)
        return None if found is None else PoolConnections(*found())

    async def backlog(self) -> int | None:
        """Passages whose meaning is to be indexed; None where nothing is indexed, or nobody can tell."""
        if self.count_backlog is None:
            return None
        try:
            found = await asyncio.to_thread(self.count_backlog)
        except CarrelError:
            return None
        return found[0] if found else None

    async def readiness(self) -> dict[str, str]:
        if self.database is None:
            return {}
        try:
            await self.database.ping()
        except StoreError:
            return {"database": "unreachable"}
        return {"database": "ok"}


def content_api(settings: Settings, database: Database) -> "Dispatcher":
    from carrel.api import build_api

    return build_api(database, default_project=settings.content.default_project.lower())
