"""A workspace served over the process's own stdin and stdout."""

import asyncio

from carrel.mcp.stdio import serve_stdio
from carrel.workspace import Workspace, refuse_collision


def run_stdio(workspace: Workspace) -> int:
    """Serve the process's stdin and stdout; return the exit status."""
    refuse_collision(workspace)

    async def run() -> int:
        async with workspace.open(is_deferring=True) as desk:
            return await serve_stdio(desk.description(desk.pipeline(), has_channel=True))

    return asyncio.run(run())
