"""The page's routes, and what the door has to know of them."""

import asyncio
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from carrel.mcp.disconnects import CancellableApp
from carrel.mcp.gateway import BELOW_PAGE, ICON, PAGE, PAGE_DATA, Door
from carrel.mcp.http_app import disconnects
from carrel.mcp.limits import CallLimits
from carrel.mcp.limits.request_limits import LimitedApp
from carrel.page.assets import SAME_ORIGIN, Assets, Dressed
from carrel.page.desk_overview import Shown
from carrel.page.sign_in_form import FORM, OPEN, SIGN_IN, SIGN_OUT, SignIn

READING = ("GET", "HEAD")


class Page:
    """An ASGI application, whose answers the door dresses."""

    def __init__(self, assets: Assets, data: ASGIApp, sign_in: SignIn | None) -> None:
        """Without a way to sign in, there is nothing to sign in to."""
        self._assets = assets
        self._data = data
        self._sign_in = sign_in

    def is_open(self, path: str) -> bool:
        return path in OPEN

    def form(self, status: int, headers: Mapping[str, str]) -> Response:
        return self._sign_in.form(status, headers) if self._sign_in else PlainTextResponse("", status, headers)

    def dressed(self, app: ASGIApp) -> ASGIApp:
        return Dressed(app)

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
        if request.method not in READING:
            return Response(status_code=405, headers={"allow": ", ".join(READING)})
        if path == PAGE:
            response = self._assets.answer(request, "index.html")
            response.headers.update(SAME_ORIGIN)
            return response
        name = "icon.svg" if path == ICON else path.removeprefix(BELOW_PAGE)
        return PlainTextResponse("Not Found", 404) if name == FORM else self._assets.answer(request, name)


def build_page(shown: Shown, door: Door, limits: CallLimits | None) -> Page:
    """Signing in is there where the door asks for tokens."""
    assets = Assets()
    data: ASGIApp = Later(lambda: _data(shown, door))
    data = CancellableApp(data, disconnects)
    if limits:
        data = LimitedApp(data, limits, name_of=lambda _: "page", refuse=door.refuse_limited)
    return Page(assets, data, SignIn(assets, door) if door.is_guarded else None)


def _data(shown: Shown, door: Door) -> ASGIApp:
    from carrel.page.page_data import build_data

    return build_data(shown, door)


class Later:
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
