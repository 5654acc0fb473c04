"""`carrel serve` with one tool that does nothing in place of the tasks: the way that every call goes, and only that.

    python noop_server.py [OPTIONS OF carrel serve]

Everything else is the program as it is shipped, so limits, audit, counters and the page are on.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import carrel.toolsets.tasks
from carrel.cli import main
from carrel.mcp.toolset import Arguments, Caller, Tool, Toolset
from carrel.mcp.validation import Validator

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

build_tasks = carrel.toolsets.tasks.tasks_toolset


async def noop(_arguments: Arguments, _caller: Caller) -> Any:
    return ANSWER


def noop_toolset(*arguments: Any, **options: Any) -> Toolset:
    return replace(build_tasks(*arguments, **options), tools=(Tool(DEFINITION, noop, Validator(SCHEMA)),))


if __name__ == "__main__":
    carrel.toolsets.tasks.tasks_toolset = noop_toolset
    sys.argv[1:] = ["serve", *sys.argv[1:]]
    main()
