"""Carrel's own HTTP app with one endpoint more, `/conformance/mcp`, which exists in the tests only.

That endpoint keeps sessions and streams, since scenarios of 2025-11-25 ask the client back and expect progress;
Carrel's own do neither.
"""

import asyncio
import socket
import sys
from pathlib import Path

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from carrel.mcp.gateway import Mount
from carrel.server.http_server import http_app
from carrel.workspace import find_workspace

from .fixtures import conformance_server


async def main(folder: Path) -> None:
    gateway = http_app(find_workspace(folder, environment={}))
    manager = StreamableHTTPSessionManager(conformance_server())
    gateway.mounts["/conformance/mcp"] = Mount(manager.asgi_app, frozenset())
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    async with manager.run():
        config = uvicorn.Config(gateway, lifespan="on", log_level="error", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
