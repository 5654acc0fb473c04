"""An ASGI application under uvicorn, configured as `carrel serve --http` does it, on a free port."""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not, on a socket it is given
    sys.stderr.write(f"serving at http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stderr.flush()
    config = uvicorn.Config(app, lifespan="on", log_config=None, access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listener])
