"""Carrel with one tool that does nothing: the way that every call goes, and only that.

python noop_server.py stdio|http
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from carrel import logs
from carrel.mcp.pipeline import Observer
from carrel.mcp.toolset import Arguments, Caller, Tool, Toolset
from carrel.mcp.validation import Validator
from carrel.serving.http_server import run_http
from carrel.serving.stdio_server import run_stdio
from carrel.settings import ServerSettings, Settings
from carrel.toolsets.tasks.dialect import TasksDialect
from carrel.workspace import Desk, Workspace

ANSWER = {"task_id": 1, "status": "done", "title": "Nothing"}
SCHEMA = {
    "type": "object",
    "properties": {
        "user_id": {"type": "string", "minLength": 1},
        "status": {"type": "string", "enum": ["all", "pending", "completed"], "default": "all"},
    },
    "required": ["user_id"],
}
DEFINITION = {
    "name": "noop",
    "title": "Nothing",
    "description": "Does nothing.",
    "inputSchema": SCHEMA,
    "annotations": {"readOnlyHint": True},
}


async def noop(_arguments: Arguments, _caller: Caller) -> Any:
    return ANSWER


class NoopWorkspace:
    """Stands in for a `Workspace`, so that `carrel.serving` itself serves: same observers, same uvicorn."""

    settings = Settings(server=ServerSettings(port=0))

    @asynccontextmanager
    async def open(self, *observers: Observer) -> AsyncIterator[Desk]:
        toolset = Toolset("noop", "nothing.", (Tool(DEFINITION, noop, Validator(SCHEMA)),), TasksDialect())
        yield Desk(self.settings, cast("Any", None), {"noop": toolset}, observers=observers)


def main(transport: str) -> int:
    workspace = cast("Workspace", NoopWorkspace())
    logs.configure(workspace.settings.server.log_format, workspace.settings.server.log_level)
    if transport == "http":
        return run_http(workspace, lambda address, _: print(f"serving at {address}", file=sys.stderr, flush=True))
    return run_stdio(workspace)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
