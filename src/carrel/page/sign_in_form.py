"""Signing in: a token is shown once, and from then on the browser shows it."""

import re
from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from carrel.auth.access import Refused
from carrel.auth.sign_in import LONGEST, set_cookie
from carrel.mcp.gateway import PASSING, Door
from carrel.mcp.limits.request_limits import TooLarge, refuse, whole_body
from carrel.page.assets import SAME_ORIGIN, Assets

SIGN_IN = "/page/sign-in"
SIGN_OUT = "/page/sign-out"
FORM = "sign-in.html"
OPEN = frozenset({SIGN_IN, SIGN_OUT, "/page/css/sign-in.css", "/page/icon.svg", "/favicon.ico"})
"""What is there without a token."""
MOST_BYTES = 16 * 1024
WRONG = "This token is not valid for this desk"
TOO_LONG = f"This token is longer than {LONGEST:,} bytes and does not fit into a cookie. Request one with fewer scopes"
_MESSAGE = "<!-- message -->"
_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)
"""RFC 6750's b64token; nothing in it means anything in a cookie."""


class SignIn:
    def __init__(self, assets: Assets, door: Door) -> None:
        self._assets = assets
        self._door = door

    def form(self, status: int, headers: Mapping[str, str], message: str = "") -> Response:
        told = f'<p class="error" role="alert">{escape(message)}</p>' if message else ""
        body = self._assets.text(FORM).replace(_MESSAGE, told)
        return Response(body, status, {**headers, **SAME_ORIGIN, "cache-control": "no-store"}, media_type="text/html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            response = Response(status_code=405, headers={"allow": "POST"})
        elif (refusal := self._door.refuse_other_site(scope)) is not None:
            response = refusal
        elif scope["path"] == SIGN_OUT:
            response = _to_page(set_cookie(self._door.cookie(scope), ""))
        else:
            try:
                message = await whole_body(receive, MOST_BYTES)
            except TooLarge as error:
                await refuse(scope, receive, send, "body_bytes", MOST_BYTES, is_over=error.is_over)
                return
            if message["type"] != "http.request":
                return  # the client has gone
            response = await self._signed_in(Request(scope), message["body"])
        await response(scope, receive, send)

    async def _signed_in(self, request: Request, body: bytes) -> Response:
        token = _token(body)
        if len(token) > LONGEST:
            return self.form(400, {}, TOO_LONG)
        refused = await self._door.try_token(request.scope, token if _TOKEN.fullmatch(token) else "")
        if refused is not None and refused.status in PASSING:
            return self.form(refused.status, {"retry-after": str(refused.retry_after)}, _later(refused))
        if refused is not None:
            return self.form(401, {"www-authenticate": "Bearer"}, WRONG)
        return _to_page(set_cookie(self._door.cookie(request.scope), token))


def _later(refused: Refused) -> str:
    if refused.status == 429:
        return f"Too many attempts. Wait {refused.retry_after} s"
    return "The token cannot be verified right now. Try again later"


def _token(body: bytes) -> str:
    given = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
    return given.get("token", "").strip()


def _to_page(headers: Mapping[str, str]) -> Response:
    return Response(status_code=303, headers={**headers, "location": "/", "cache-control": "no-store"})
