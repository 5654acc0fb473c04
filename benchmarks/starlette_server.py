"""A bare Starlette route for each file named: POST /STEM answers the file's bytes, and does nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import listener
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def route(file: Path) -> Route:
    body = file.read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    return Route(f"/{file.stem}", answer, methods=["POST"])


if __name__ == "__main__":
    listener.serve(Starlette(routes=[route(Path(name)) for name in sys.argv[1:]]))
