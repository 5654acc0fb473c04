"""The files that the page is made of."""

import re
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_NAME = re.compile(r"(?:\w[\w-]*/)*\w[\w-]*(?:\.[\w-]+)+", re.ASCII)
"""No empty part, and none that begins with a dot: nothing leads out of the folder."""


class Asset(NamedTuple):
    stamp: tuple[int, int]
    content: bytes
    tag: str


class Assets:
    """Read when they are first asked for, and again when they have changed."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._kept: dict[str, Asset] = {}

    def answer(self, request: Request, name: str) -> Response:
        kind = KINDS.get(f".{name.rpartition('.')[2]}")
        asset = self._asset(name) if kind and _NAME.fullmatch(name) else None
        if asset is None:
            return PlainTextResponse("Not Found", 404)
        return tagged(request, Response(asset.content, media_type=kind), asset.tag, "no-cache")

    def text(self, name: str) -> str:
        """Of a file that is there."""
        return (self._folder / name).read_text(encoding="utf-8")

    def _asset(self, name: str) -> Asset | None:
        path = self._folder / name
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            kept = self._kept.get(name)
            if kept is None or kept.stamp != stamp:
                content = path.read_bytes()
                kept = self._kept[name] = Asset(stamp, content, tag_of(content))
        except OSError:
            return None
        return kept


def tag_of(content: bytes) -> str:
    return f'"{blake2b(content, digest_size=16).hexdigest()}"'


def tagged(request: Request, response: Response, tag: str, caching: str) -> Response:
    """The response with its tag; or that nothing has changed, to who has it already."""
    headers = {"etag": tag, "cache-control": caching, "vary": "authorization, cookie"}
    if tag in (each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response
