"""What the page shows, as it is handed what it needs for it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carrel.calls.store import CallReaders
from carrel.mcp.toolset import Toolset

if TYPE_CHECKING:
    from carrel.notes.store import NoteStore
    from carrel.storage.database import Database


@dataclass(frozen=True, slots=True)
class Shown:
    """An open desk."""

    toolsets: Mapping[str, Toolset]
    calls: CallReaders
    readiness: Callable[[], Awaitable[Mapping[str, str]]]
    backlog: Callable[[], Awaitable[int | None]]
    engine: str
    """Of the database."""
    read_only: bool = False
    notes: "NoteStore | None" = None
    """Where notes are served."""
    content: "Database | None" = None
    """Where content is served from here."""
    default_project: str = ""
    user: str | None = None
    """Whose tasks these are, where the settings say so."""
