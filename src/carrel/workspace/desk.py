"""A workspace that is open."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carrel.errors import StoreError
from carrel.mcp.limits import RateLimiter
from carrel.mcp.observers import log_call
from carrel.mcp.pipeline import Observer, Pipeline
from carrel.mcp.toolset import Toolset
from carrel.settings import Settings
from carrel.storage.database import Database
from carrel.workspace.names import CONTENT

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True, slots=True)
class Desk:
    """Its stores answer, its toolsets can be called."""

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
            shows_arguments=server.log_arguments,
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


def content_api(settings: Settings, database: Database) -> "FastAPI":
    from carrel.api import build_api

    return build_api(database, default_project=settings.content.default_project.lower())
