"""The same two tools as one would write them with FastMCP. `fastmcp_server.py stdio|http DATABASE`.

`list_tasks` asks SQLite right on the event loop: the cheapest way, in which nobody else gets a turn.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Any, Literal

import listener
from fastmcp import FastMCP

Status = Literal["all", "pending", "completed"]

LIST = "SELECT id, title, description, completed FROM task WHERE user_id = ? ORDER BY id"


def build(database: str) -> FastMCP:
    server = FastMCP("bench")
    connection = sqlite3.connect(database, isolation_level=None)

    @server.tool
    async def noop(user_id: str, status: Status = "all") -> dict[str, Any]:
        """Does nothing."""
        return {"task_id": 1, "status": "done", "title": "Nothing"}

    @server.tool
    async def list_tasks(user_id: str, status: Status = "all") -> list[dict[str, Any]]:
        """Retrieve user's tasks with optional status filter"""
        return [
            {"id": row[0], "title": row[1], "description": row[2], "completed": bool(row[3])}
            for row in connection.execute(LIST, (user_id,)).fetchall()
        ]

    return server


if __name__ == "__main__":
    transport, database = sys.argv[1:]
    server = build(database)
    if transport == "http":
        listener.serve(server.http_app(path="/mcp", json_response=True, stateless_http=True))
    else:
        server.run(transport="stdio", show_banner=False)
