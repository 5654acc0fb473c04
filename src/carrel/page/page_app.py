"""The page's routes, and what the gateway has to know of them."""

import asyncio
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from carrel.mcp.disconnects import CancellationMiddleware
from carrel.mcp.gateway import FAVICON, PAGE, PAGE_DATA, PAGE_PREFIX, Gateway
from carrel.mcp.http_app import disconnects
from carrel.mcp.limits import CallLimits
from carrel.mcp.limits.request_limits import RateLimitMiddleware
from carrel.page.assets import SAME_ORIGIN, Assets, SecurityHeadersMiddleware
from carrel.page.desk_overview import PageContext
from carrel.page.sign_in_form import FORM_FILE, PUBLIC_PATHS, SIGN_IN, SIGN_OUT, SignIn

READ_METHODS = ("GET", "HEAD")


class Page:
    """An ASGI application, whose answers the gateway dresses."""

    def __init__(self, assets: Assets, data: ASGIApp, sign_in: SignIn | None) -> None:
        """Without a way to sign in, there is nothing to sign in to."""
        self._assets = assets
        self._data = data
        self._sign_in = sign_in

    def is_open(self, path: str) -> bool:
        return path in PUBLIC_PATHS

    def sign_in_form(self, status: int, headers: Mapping[str, str]) -> Response:
        return self._sign_in.sign_in_form(status, headers) if self._sign_in else PlainTextResponse("", status, headers)

    def with_security_headers(self, app: ASGIApp) -> ASGIApp:
        return SecurityHeadersMiddleware(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        app: ASGIApp
        if path.startswith(PAGE_DATA):
            app = self._data
        elif path in (SIGN_IN, SIGN_OUT):
            app = self._sign_in or PlainTextResponse("Not Found", 404)
        else:
            app = self._static(Request(scope), path)
        await app(scope, receive, send)

    def _static(self, request: Request, path: str) -> Response:
        if request.method not in READ_METHODS:
            return Response(status_code=405, headers={"allow": ", ".join(READ_METHODS)})
        if path == PAGE:
            response = self._assets.answer(request, "index.html")
            response.headers.update(SAME_ORIGIN)
            return response
        name = "icon.svg" if path == FAVICON else path.removeprefix(PAGE_PREFIX)
        return PlainTextResponse("Not Found", 404) if name == FORM_FILE else self._assets.answer(request, name)


def build_page(context: PageContext, gateway: Gateway, limits: CallLimits | None) -> Page:
    """Signing in is there where the gateway asks for tokens."""
    assets = Assets()
    data: ASGIApp = LazyApp(lambda: _data(context, gateway))
    data = CancellationMiddleware(data, disconnects)
    if limits:
        data = RateLimitMiddleware(data, limits, name_of=lambda _: "page", refuse=gateway.refuse_limited)
    return Page(assets, data, SignIn(assets, gateway) if gateway.requires_auth else None)


def _data(context: PageContext, gateway: Gateway) -> ASGIApp:
    from carrel.page.page_data import build_data

    return build_data(context, gateway)


class LazyApp:
    """An application that is made when it is first asked for: most servers are never looked at, and start sooner."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._making:
            if self._app is None:
                self._app = await asyncio.to_thread(self._make)
        await self._app(scope, receive, send)
