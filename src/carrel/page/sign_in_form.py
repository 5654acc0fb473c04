"""Signing in: the person enters a token once, and the browser sends it from then on."""

import re
from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from carrel.auth.access import AuthFailure
from carrel.auth.sign_in import MAX_TOKEN_BYTES, set_cookie
from carrel.mcp.gateway import TEMPORARY_STATUSES, Gateway
from carrel.mcp.limits.request_limits import BodyTooLarge, read_body, refuse
from carrel.page.assets import SAME_ORIGIN, Assets

SIGN_IN = "/page/sign-in"
SIGN_OUT = "/page/sign-out"
FORM_FILE = "sign-in.html"
PUBLIC_PATHS = frozenset({SIGN_IN, SIGN_OUT, "/page/css/sign-in.css", "/page/icon.svg", "/favicon.ico"})
"""What is there without a token."""
MAX_FORM_BYTES = 16 * 1024
REJECTED_MESSAGE = "This token is not valid for this desk"
TOO_LONG_MESSAGE = (
    f"This token is longer than {MAX_TOKEN_BYTES:,} bytes and does not fit into a cookie. Request one with fewer scopes"
)
_MESSAGE = "<!-- message -->"
_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)
"""RFC 6750's b64token; nothing in it means anything in a cookie."""


class SignIn:
    def __init__(self, assets: Assets, gateway: Gateway) -> None:
        self._assets = assets
        self._gateway = gateway

    def sign_in_form(self, status: int, headers: Mapping[str, str], message: str = "") -> Response:
        alert = f'<p class="error" role="alert">{escape(message)}</p>' if message else ""
        body = self._assets.text(FORM_FILE).replace(_MESSAGE, alert)
        return Response(body, status, {**headers, **SAME_ORIGIN, "cache-control": "no-store"}, media_type="text/html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            response = Response(status_code=405, headers={"allow": "POST"})
        elif (refusal := self._gateway.reject_cross_origin(scope)) is not None:
            response = refusal
        elif scope["path"] == SIGN_OUT:
            response = _to_page(set_cookie(self._gateway.cookie(scope), ""))
        else:
            try:
                message = await read_body(receive, MAX_FORM_BYTES)
            except BodyTooLarge as error:
                await refuse(scope, receive, send, "body_bytes", MAX_FORM_BYTES, is_over=error.is_over)
                return
            if message["type"] != "http.request":
                return  # the client has gone
            response = await self._signed_in(Request(scope), message["body"])
        await response(scope, receive, send)

    async def _signed_in(self, request: Request, body: bytes) -> Response:
        token = _token(body)
        if len(token) > MAX_TOKEN_BYTES:
            return self.sign_in_form(400, {}, TOO_LONG_MESSAGE)
        refused = await self._gateway.check_sign_in(request.scope, token if _TOKEN.fullmatch(token) else "")
        if refused is not None and refused.status in TEMPORARY_STATUSES:
            return self.sign_in_form(refused.status, {"retry-after": str(refused.retry_after)}, _retry_message(refused))
        if refused is not None:
            return self.sign_in_form(401, {"www-authenticate": "Bearer"}, REJECTED_MESSAGE)
        return _to_page(set_cookie(self._gateway.cookie(request.scope), token))


def _retry_message(refused: AuthFailure) -> str:
    if refused.status == 429:
        return f"Too many attempts. Wait {refused.retry_after} s"
    return "The token cannot be verified right now. Try again later"


def _token(body: bytes) -> str:
    given = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
    return given.get("token", "").strip()


def _to_page(headers: Mapping[str, str]) -> Response:
    return Response(status_code=303, headers={**headers, "location": "/", "cache-control": "no-store"})
