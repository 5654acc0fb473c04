"""The files that the page is made of, and the security headers they are sent with."""

import re
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_ASSET_NAME = re.compile(r"(?:\w[\w-]*/)*\w[\w-]*(?:\.[\w-]+)+", re.ASCII)
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
        kind = MEDIA_TYPES.get(f".{name.rpartition('.')[2]}")
        asset = self._asset(name) if kind and _ASSET_NAME.fullmatch(name) else None
        if asset is None:
            return PlainTextResponse("Not Found", 404)
        return with_etag(request, Response(asset.content, media_type=kind), asset.tag, "no-cache")

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
                kept = self._kept[name] = Asset(stamp, content, etag_of(content))
        except OSError:
            return None
        return kept


def etag_of(content: bytes) -> str:
    return f'"{blake2b(content, digest_size=16).hexdigest()}"'


def with_etag(request: Request, response: Response, tag: str, caching: str) -> Response:
    """The response with its tag; or that nothing has changed, to who has it already."""
    headers = {"etag": tag, "cache-control": caching, "vary": "authorization, cookie"}
    if tag in (each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response


CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types carrel-worker",
    )
)
"""Nothing from elsewhere, nothing inline, no frame around it, and no text that becomes a script or markup. The one
trusted type makes the address of the graph's worker, which is a constant."""
SECURITY_HEADERS: Final = {
    b"content-security-policy": CONTENT_SECURITY_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}
SAME_ORIGIN: Final = {"referrer-policy": "same-origin"}
"""Of what has forms in it: with no-referrer, browsers send those with an Origin of null, which no gateway lets in."""


class SecurityHeadersMiddleware:
    """An application whose answers all have these headers; where an answer has one of them already, that stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                more = [(name, value) for name, value in SECURITY_HEADERS.items() if name not in there]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await self._app(scope, receive, sending)
