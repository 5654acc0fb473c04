"""The desk at a glance: what is served, how it is, and what was called."""

import asyncio
import time
from typing import Any

from carrel.doors.access import ADMIN, Access
from carrel.mcp.toolset import Toolset
from carrel.page.figures import figures, instant
from carrel.page.showing import Shown
from carrel.version import __version__

BACKLOG_SECONDS = 5.0


class Overview:
    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._backlog: int | None = None
        self._counted = -BACKLOG_SECONDS
        self._counting = asyncio.Lock()

    async def value(self, access: Access | None) -> dict[str, Any]:
        """As who is let in may see it; `access` is None where everybody is."""
        sees_all = access is None or access.has(ADMIN)
        health = await self._health()
        now = time.time()
        found = figures(self._shown.calls, None if sees_all or access is None else access.subject, now)
        return {
            "version": __version__,
            "now": instant(now),
            "startedAt": instant(found.started),
            "user": access.subject if access else self._shown.user,
            "scopes": sorted(access.scopes) if access else None,
            "readOnly": self._shown.read_only,
            "health": health,
            "toolsets": [value for each in self._shown.toolsets.values() if (value := self._toolset(each, access))],
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
            if not (self._shown.read_only and tool.writes) and (access is None or access.has(toolset.scope_of(tool)))
        ]
        if not tools:
            return None
        return {"name": toolset.name, "about": toolset.about, "endpoint": f"/{toolset.name}/mcp", "tools": tools}

    async def _health(self) -> list[dict[str, str]]:
        states = await self._shown.readiness()
        health = [{"name": name, "state": state, "detail": self._shown.engine} for name, state in states.items()]
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
            if time.monotonic() >= self._counted + BACKLOG_SECONDS:
                self._backlog = await self._shown.backlog()
                self._counted = time.monotonic()
        return self._backlog
