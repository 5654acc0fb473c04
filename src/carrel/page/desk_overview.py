"""The desk at a glance: what is served, its health, and its calls; and what the page's handlers share."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.auth.access import ADMIN, Access
from carrel.calls.call_store import HISTORY_MINUTES, Call, CallReader, CallReaders, user_key
from carrel.common import iso
from carrel.mcp.toolset import Toolset
from carrel.version import __version__

if TYPE_CHECKING:
    from carrel.notes.note_store import NoteStore
    from carrel.storage.database import Database

WINDOW_SECONDS = 300
MIN_WINDOW_SECONDS = 60
MAX_RECENT_CALLS = 50
ERROR_OUTCOMES = frozenset({"refused", "limited", "failed"})


class CallStatistics(NamedTuple):
    started: float
    window: int
    """Seconds that the tools' figures are of: fewer than usual where the server has just begun, or so many calls came
    that not all are kept."""
    tools: list[dict[str, Any]]
    minutes: list[int]
    recent: list[dict[str, Any]]


def call_statistics(stores: CallReaders, only: str | None, now: float | None = None) -> CallStatistics:
    """Of all calls, or `only` those of one user."""
    now = time.time() if now is None else now
    readers = list(stores.read())
    started = min(reader.started for reader in readers)
    usual = min(WINDOW_SECONDS, max(MIN_WINDOW_SECONDS, now - started))
    since = max((now - usual, *(reader.calls[0].at for reader in readers if reader.is_full and reader.calls)))
    calls = [call for reader in readers for call in reader.calls]
    if only is not None:
        wanted = user_key(only)
        calls = [call for call in calls if call.user_key == wanted]
    window = max(1, round(now - since))
    return CallStatistics(
        started,
        window,
        _tools([call for call in calls if call.at >= since], window),
        _minutes(readers, calls if only is not None else None, now),
        [_recent(call) for call in nlargest(MAX_RECENT_CALLS, calls, key=lambda call: call.at)],
    )


def instant(seconds: float) -> str:
    """As ISO 8601 has it, in UTC."""
    return iso(round(seconds * 1000))


def _tools(calls: Iterable[Call], window: int) -> list[dict[str, Any]]:
    by_tool: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        by_tool[call.toolset, call.tool].append(call)
    most_first = sorted(by_tool.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_tool(*name, some, window) for name, some in most_first]


def _tool(toolset: str, tool: str, calls: list[Call], window: int) -> dict[str, Any]:
    durations = sorted(call.seconds for call in calls)
    return {
        "toolset": toolset,
        "tool": tool,
        "calls": len(calls),
        "perMinute": round(len(calls) * 60 / window, 1),
        "errors": sum(call.outcome in ERROR_OUTCOMES for call in calls),
        **{f"p{percent}": milliseconds(percentile(durations, percent)) for percent in (50, 95, 99)},
    }


def percentile(ordered: list[float], percent: int) -> float:
    """The least that so many in a hundred do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _minutes(readers: Iterable[CallReader], calls: Iterable[Call] | None, now: float) -> list[int]:
    """Calls in each of the last minutes; a single user's as far as they are kept."""
    counted: defaultdict[int, int] = defaultdict(int)
    if calls is None:
        for reader in readers:
            for minute, total in reader.minutes().items():
                counted[minute] += total
    else:
        for call in calls:
            counted[int(call.at // 60)] += 1
    last = int(now // 60)
    return [counted[minute] for minute in range(last - HISTORY_MINUTES + 1, last + 1)]


def _recent(call: Call) -> dict[str, Any]:
    return {
        "at": instant(call.at),
        "toolset": call.toolset,
        "tool": call.tool,
        "outcome": call.outcome,
        "ms": milliseconds(call.seconds),
        "bytes": call.size,
        "user": call.user or None,
    }


@dataclass(frozen=True, slots=True)
class PageContext:
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


BACKLOG_INTERVAL_SECONDS = 5.0


class Overview:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._backlog: int | None = None
        self._counted = -BACKLOG_INTERVAL_SECONDS
        self._counting = asyncio.Lock()

    async def value(self, access: Access | None) -> dict[str, Any]:
        """As who is let in may see it; `access` is None where everybody is."""
        sees_all = access is None or access.has(ADMIN)
        health = await self._health()
        now = time.time()
        found = call_statistics(self._context.calls, None if sees_all or access is None else access.subject, now)
        return {
            "version": __version__,
            "now": instant(now),
            "startedAt": instant(found.started),
            "user": access.subject if access else self._context.user,
            "scopes": sorted(access.scopes) if access else None,
            "readOnly": self._context.read_only,
            "health": health,
            "toolsets": [value for each in self._context.toolsets.values() if (value := self._toolset(each, access))],
            "window": found.window,
            "tools": found.tools,
            "minutes": found.minutes,
            "recent": found.recent,
            "sees": "all" if sees_all else "own",
        }

    def _toolset(self, toolset: Toolset, access: Access | None) -> dict[str, Any] | None:
        """None where nothing of it is open."""
        tools = [
            tool.name
            for tool in toolset.tools
            if not (self._context.read_only and tool.writes) and (access is None or access.has(toolset.scope_of(tool)))
        ]
        if not tools:
            return None
        return {"name": toolset.name, "about": toolset.about, "endpoint": f"/{toolset.name}/mcp", "tools": tools}

    async def _health(self) -> list[dict[str, str]]:
        states = await self._context.readiness()
        health = [{"name": name, "state": state, "detail": self._context.engine} for name, state in states.items()]
        left = await self._passages_left()
        if left is not None:
            about = "1 passage to go" if left == 1 else f"{left:,} passages to go"
            health.append(
                {"name": "index", "state": "busy" if left else "ok", "detail": about if left else "up to date"}
            )
        return health

    async def _passages_left(self) -> int | None:
        """Counted now and then: everybody who looks asks every few seconds."""
        async with self._counting:
            if time.monotonic() >= self._counted + BACKLOG_INTERVAL_SECONDS:
                self._backlog = await self._context.backlog()
                self._counted = time.monotonic()
        return self._backlog
