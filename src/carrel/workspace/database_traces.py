"""Whether calls are traced, and what of the database's work is then told."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import MissingExtra
from carrel.storage.database import Database, Location, SqliteLocation, Work
from carrel.version import __version__

if TYPE_CHECKING:
    from carrel.mcp.tracing import Tracing

T = TypeVar("T")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

log = logging.getLogger("carrel.workspace")


def open_configured_tracing(is_wanted: bool, environment: Mapping[str, str]) -> "Tracing | None":
    """None where nobody asked. Raises `MissingExtra` where the settings did; the environment may be for others."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_elsewhere = environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    if is_off or is_elsewhere or not (is_wanted or any(environment.get(name) for name in ENDPOINTS)):
        return None
    from carrel.mcp.tracing import open_tracing

    try:
        return open_tracing(__version__)
    except MissingExtra as missing:
        if is_wanted:
            raise
        log.warning("calls are not traced: %s", missing)
        return None


class TracedDatabase:
    """A database whose work for a call is a span within the call's."""

    def __init__(self, database: Database, tracing: "Tracing", location: Location) -> None:
        self._database = database
        self._tracing = tracing
        self._attributes = {"db.system.name": "sqlite" if isinstance(location, SqliteLocation) else "postgresql"}

    async def read(self, work: Work[T]) -> T:
        with self._tracing.work("database read", self._attributes):
            return await self._database.read(work)

    async def snapshot(self, work: Work[T], *, seconds: float) -> T:
        with self._tracing.work("database read", self._attributes):
            return await self._database.snapshot(work, seconds=seconds)

    async def write(self, work: Work[T]) -> T:
        with self._tracing.work("database write", self._attributes):
            return await self._database.write(work)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the database's own."""
        return getattr(self._database, name)

    async def ping(self) -> None:
        await self._database.ping()

    async def can_write(self) -> bool:
        return await self._database.can_write()

    async def close(self) -> None:
        await self._database.close()
