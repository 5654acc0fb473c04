"""The composition root: reads the settings, opens the stores, builds the toolsets. Nothing else does."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from carrel import settings as settings_module
from carrel.errors import SettingsError, StoreError
from carrel.mcp.limits import RateLimiter
from carrel.mcp.observers import log_call
from carrel.mcp.pipeline import Observer, Pipeline
from carrel.mcp.toolset import Toolset
from carrel.settings import FILE_NAME, Overrides, Settings
from carrel.storage.database import Database
from carrel.storage.location import Location, locate
from carrel.storage.opening import open_database
from carrel.toolsets.tasks import tasks_toolset

TOOLSETS = ("tasks",)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder and its settings; nothing is open yet."""

    folder: Path
    settings: Settings

    @property
    def location(self) -> Location:
        return locate(self.settings.database.url, self.folder)

    @property
    def toolset_names(self) -> tuple[str, ...]:
        """What is served: the toolsets that were named, in our order, or every one that is configured."""
        named = self.settings.server.toolsets
        for name in named:
            if name not in TOOLSETS:
                raise SettingsError(f"server.toolsets: unknown toolset {name!r}; known: {', '.join(TOOLSETS)}")
        return tuple(name for name in TOOLSETS if not named or name in named)

    @asynccontextmanager
    async def open(self, *observers: Observer) -> "AsyncGenerator[Desk]":
        names = self.toolset_names
        database = await open_database(self.location, pool_size=self.settings.database.pool_size)
        try:
            tasks = tasks_toolset(database, user=self.settings.tasks.user or None)
            built = {"tasks": tasks}
            rate = self.settings.server.rate_limit
            limiter = RateLimiter(rate) if rate else None
            yield Desk(self.settings, database, {name: built[name] for name in names}, limiter, observers)
        finally:
            await database.close()


@dataclass(frozen=True, slots=True)
class Desk:
    """A workspace that is open: its stores answer, its toolsets can be called."""

    settings: Settings
    database: Database
    toolsets: Mapping[str, Toolset]
    limiter: RateLimiter | None = None
    observers: tuple[Observer, ...] = ()

    def pipeline(self, *names: str) -> Pipeline:
        """The pipeline of the toolsets named, or of all."""
        server = self.settings.server
        return Pipeline(
            [toolset for name, toolset in self.toolsets.items() if not names or name in names],
            timeout=server.call_timeout,
            limiter=self.limiter,
            read_only=server.read_only,
            observers=(log_call, *self.observers),
        )

    def instructions(self, *names: str) -> str:
        lines = [f"- {name}: {toolset.about}" for name, toolset in self.toolsets.items() if not names or name in names]
        return "\n".join(["Carrel is your desk in this project. On it:", *lines])

    async def readiness(self) -> dict[str, str]:
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
