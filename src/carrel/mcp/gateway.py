"""What stands in front of everything that is served over HTTP: who may knock, who comes in, and to what."""

from collections.abc import Callable, Mapping, MutableMapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from carrel.auth.access import (
    ACCESS_SCOPE_KEY,
    ADMIN,
    BAD_CREDENTIALS,
    NO_CREDENTIALS,
    TOO_MANY_SIGN_INS,
    Access,
    Authenticator,
    AuthFailure,
    access_of,
)
from carrel.auth.audit import audit_entry
from carrel.auth.sign_in import Headers, SignInLimiter, cookie_name, cookies, is_cross_origin
from carrel.common import AsyncProgress
from carrel.mcp.toolset import Caller

if TYPE_CHECKING:
    from carrel.auth.audit import Audit

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
API = "/api"
API_SCOPES = frozenset({"content:read"})
METRICS = "/metrics"
PAGE = "/"
PAGE_PREFIX = "/page/"
PAGE_DATA = "/page/data/"
FAVICON = "/favicon.ico"
HTTP_PORT = 80
_WHITESPACE = (b" ", b"\t")
TEMPORARY_STATUSES = frozenset({429, 503})
"""Statuses of refusals that are not for good."""
PROBES = frozenset({"/healthz", "/readyz"})
WELL_KNOWN = "/.well-known/oauth-protected-resource"
UNAUTHORIZED_MESSAGE = "A valid access token is needed"
FORBIDDEN_MESSAGE = "The access token does not open this"


class Rejection(NamedTuple):
    status: int
    reason: str
    setting: str


class Mount(NamedTuple):
    """Something that is served at a path of its own: an OAuth resource."""

    app: ASGIApp
    scopes: frozenset[str]
    """Any of which lets a caller in; none where every valid token does."""


class PageApp(Protocol):
    """The page that shows the desk to people, where it has to do with the gateway."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def is_open(self, path: str) -> bool:
        """Whether it is there for everybody: what one signs in by."""
        ...

    def sign_in_form(self, status: int, headers: Mapping[str, str]) -> Response:
        """What asks a person for a token."""
        ...

    def with_security_headers(self, app: ASGIApp) -> ASGIApp:
        """Whose answers say to browsers what the page's own do."""
        ...


@dataclass(slots=True)
class Gateway:
    """First the names that a browser was led here by, then the token; then to the MCP endpoints and the API by path,
    else to other routes."""

    other: ASGIApp
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: Set[str] = frozenset()
    public_url: str = ""
    requires_auth: bool = False
    authorization_server: str = ""
    """Where tokens are to be had; empty where they are made by hand."""
    authenticator: Authenticator | None = None
    sign_in_limiter: SignInLimiter = field(default_factory=lambda: SignInLimiter(0))
    audit: "Audit | None" = None
    count_refusal: Callable[[str], None] | None = None
    mounts: dict[str, Mount] = field(default_factory=dict[str, Mount])
    """By path, the API's without what follows it."""
    page: "PageApp | None" = None
    """What shows the desk to people, at `/` and below `/page/`."""

    def __post_init__(self) -> None:
        own = [self.public_url] if self.public_url else []
        names = [*self.allowed_hosts, *(url.partition("://")[2] for url in own)]
        self.allowed_hosts = LOOPBACK | {name.lower() for name in names}
        self.allowed_origins = frozenset(origin.lower() for origin in (*self.allowed_origins, *own))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.other(scope, receive, send)
            return
        for _, value in scope["headers"]:
            if value.endswith(_WHITESPACE):  # httptools leaves them, h11 does not; the SDK compares values as they come
                scope["headers"] = [(name, value.rstrip(b" \t")) for name, value in scope["headers"]]
                break
        path: str = scope["path"]
        mount = self.mounts.get(path)
        if mount is not None and not self.requires_auth and self._host_or_origin_rejection(scope["headers"]) is None:
            await mount.app(scope, receive, send)  # nearly every request: the rest is not even asked about
            return
        app: ASGIApp
        if path in PROBES:
            app = self.other
        elif (refusal := self._host_or_origin_rejection(scope["headers"])) is not None:
            self._record_refusal(scope, "", refusal.reason)
            app = _error_response(
                path, refusal.status, f"{refusal.reason.title()} is not allowed; add it to {refusal.setting}"
            )
        elif path.startswith(WELL_KNOWN):
            app = self._metadata(scope, path.removeprefix(WELL_KNOWN))
        else:
            app = await self._authorize(scope, path)
        if self.page is not None and _is_page(path):
            app = self.page.with_security_headers(app)
        await app(scope, receive, send)

    def _host_or_origin_rejection(self, headers: Headers) -> Rejection | None:
        """A page of another site, or a name that was made to point here, must not reach a desk through a browser."""
        hosts: list[bytes] = []
        origins: list[bytes] = []
        for name, value in headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1 or self.allowed_hosts.isdisjoint(_host_names(hosts[0])):
            return Rejection(421, "host", "server.allowed_hosts")
        if not all(map(self._is_allowed, origins)):
            return Rejection(403, "origin", "server.allowed_origins")
        return None

    def _is_allowed(self, value: bytes) -> bool:
        origin = value.decode("latin-1").lower()
        scheme, _, host = origin.partition("://")
        return origin in self.allowed_origins or (scheme in ("http", "https") and _without_port(host) in LOOPBACK)

    async def _authorize(self, scope: Scope, path: str) -> ASGIApp:
        at = API if f"{path}/".startswith(f"{API}/") else path
        mount = self.mounts.get(at) or self._other_mount(path)
        if not self.requires_auth or (self.page is not None and self.page.is_open(path)):
            return mount.app
        here = self._address(scope)
        access = await self._access(scope, at, self._credentials(scope))
        if isinstance(access, AuthFailure):
            self._record_refusal(scope, "", access.reason)
            if access.status in TEMPORARY_STATUSES:
                return _error_response(at, access.status, "Try again later", {"retry-after": str(access.retry_after)})
            refusal = self._mount_refusal(here, at, mount, access.status, has_token=access.reason != NO_CREDENTIALS)
            return self._challenge(scope, refusal)
        if not self._permits(access, mount):
            self._record_refusal(scope, access.subject, "scope")
            return self._challenge(scope, self._mount_refusal(here, at, mount, 403))
        scope[ACCESS_SCOPE_KEY] = access
        return mount.app

    async def _access(self, scope: Scope, at: str, credentials: list[str]) -> Access | AuthFailure:
        if self.authenticator is None:
            return AuthFailure(503, "not open yet")
        if not credentials:
            return AuthFailure(401, NO_CREDENTIALS)
        return await self.authenticator.check(credentials, self._audiences(scope, at))

    def _audiences(self, scope: Scope, at: str) -> list[str]:
        """What a token may be made for: the server, and the resource at a path. Never what the Host header says, which
        is the caller's own choice: without a public URL it is the address that the connection was accepted at."""
        own = [self.public_url] if self.public_url else _listening_addresses(scope)
        return [audience for url in own for audience in (url, f"{url}/", url + at)]

    def _credentials(self, scope: Scope) -> list[str]:
        """What stands for the Authorization headers of a request: a page cannot send any, but has a cookie."""
        headers: Headers = scope["headers"]
        credentials = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
        if credentials or self.page is None or is_cross_origin(headers, self.public_url):
            return credentials
        cookie = cookie_name(self._address(scope))
        return [f"Bearer {value}" for value in cookies(headers, cookie)]

    def _challenge(self, scope: Scope, refusal: Response) -> Response:
        """A person who opens the page is asked for a token; everybody else is refused in plain words."""
        accepts = b",".join(value for name, value in scope["headers"] if name == b"accept")
        if self.page is None or scope["path"] != PAGE or b"text/html" not in accepts:
            return refusal
        challenge = refusal.headers["www-authenticate"]
        return self.page.sign_in_form(refusal.status_code, {"www-authenticate": challenge})

    async def check_sign_in(self, scope: Scope, token: str) -> AuthFailure | None:
        """Why a token that is to be kept in a cookie does not let its owner in; noted as every refusal is."""
        client = client_address(scope)
        if (seconds := self.sign_in_limiter.retry_after(client)) is not None:
            access = AuthFailure(429, TOO_MANY_SIGN_INS, seconds)
        else:
            access = await self._access(scope, "", [f"Bearer {token}"])
        if isinstance(access, AuthFailure):
            if access.reason == BAD_CREDENTIALS:
                self.sign_in_limiter.record_failure(client)
            self._record_refusal(scope, "", access.reason)
            return access
        if self.authenticator is not None and not self.authenticator.has_required_scopes(access):
            self._record_refusal(scope, access.subject, "scope")
            return AuthFailure(403, "scope")
        return None

    def reject_cross_origin(self, scope: Scope) -> Response | None:
        """Of a request to sign in or out, which no other site may make for its visitors."""
        if not is_cross_origin(scope["headers"], self.public_url):
            return None
        self._record_refusal(scope, "", "other site")
        return PlainTextResponse("Sign in and out at the page itself", 403)

    def cookie(self, scope: Scope) -> str:
        """The name of the cookie that a token is kept in."""
        return cookie_name(self._address(scope))

    def _other_mount(self, path: str) -> Mount:
        if self.page is not None and _is_page(path):
            return Mount(self.page, frozenset())
        return Mount(self.other, frozenset({ADMIN}) if path.rstrip("/") == METRICS else frozenset())

    def _permits(self, access: Access, mount: Mount) -> bool:
        has_required_scopes = self.authenticator is not None and self.authenticator.has_required_scopes(access)
        return has_required_scopes and (not mount.scopes or access.has_any(mount.scopes))

    def refuse_scope(self, scope: Scope, path: str, needed: str, action: str) -> Response:
        """Of somebody who is in, to something that takes more."""
        access = access_of(scope)
        self._record_refusal(scope, access.subject if access else "", "scope", action)
        return self._refusal(self._address(scope), path, 403, needed, has_token=True)

    def refuse_limited(self, scope: Scope, action: str, seconds: int) -> Response:
        """Of a request that is one too many of its client."""
        access = access_of(scope)
        if self.count_refusal is not None:
            self.count_refusal("limited")
        if self.audit is not None:
            subject = access.subject if access else ""
            self.audit.record(
                audit_entry(subject=subject, client=client_address(scope), action=action, target="", outcome="limited")
            )
        message = f"Rate limit exceeded for {action}; try again in {seconds} seconds"
        return _error_response(scope["path"], 429, message, {"retry-after": str(seconds)})

    def _mount_refusal(self, here: str, at: str, mount: Mount, status: int, *, has_token: bool = True) -> Response:
        return self._refusal(here, at, status, " ".join(sorted(mount.scopes)), has_token=has_token)

    def _refusal(self, here: str, at: str, status: int, scopes: str, *, has_token: bool) -> Response:
        parts = [f'scope="{scopes}"'] if scopes else []
        if has_token:
            parts.insert(0, 'error="insufficient_scope"' if status == 403 else 'error="invalid_token"')
        if self.authorization_server:
            is_known = at in self.mounts
            parts.append(f'resource_metadata="{here}{WELL_KNOWN}{at if is_known else ""}"')
        challenge = ", ".join(parts)
        headers = {"www-authenticate": f"Bearer {challenge}".rstrip()}
        return _error_response(at, status, UNAUTHORIZED_MESSAGE if status == 401 else FORBIDDEN_MESSAGE, headers)

    def _metadata(self, scope: Scope, path: str) -> Response:
        """RFC 9728: where a client that was refused gets a token for the resource at `path`."""
        mount = self.mounts.get(path)
        if not self.authorization_server or (mount is None and path not in ("", "/")):
            return PlainTextResponse("Not Found", status_code=404)
        scopes = mount.scopes if mount else frozenset[str]().union(*(each.scopes for each in self.mounts.values()))
        document = {
            "resource": self._address(scope) + (path if mount else ""),
            "authorization_servers": [self.authorization_server],
            "scopes_supported": sorted(scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": "Carrel",
        }
        return JSONResponse(document, headers={"cache-control": "public, max-age=300"})

    def _address(self, scope: Scope) -> str:
        """That clients reach this server at: as set, else as they say, which was found to be allowed."""
        if self.public_url:
            return self.public_url
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        return f"{scope['scheme']}://{host}"

    def record_limit(self, limit: str, client: str) -> None:
        """Of a request that did not come as far as this, or not whole."""
        if self.audit is not None:
            self.audit.record(
                audit_entry(subject="", client=client, action="", target="", outcome=f"denied: limits.{limit}")
            )

    def _record_refusal(self, scope: Scope, subject: str, reason: str, action: str = "") -> None:
        if self.count_refusal is not None:
            self.count_refusal(reason)
        if self.audit is not None:
            what = action or scope["path"]
            self.audit.record(
                audit_entry(
                    subject=subject, client=client_address(scope), action=what, target="", outcome=f"denied: {reason}"
                )
            )


def _is_page(path: str) -> bool:
    return path in (PAGE, FAVICON) or path.startswith(PAGE_PREFIX)


def client_address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _error_response(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """In the backend API's words on its routes and the page's for data, else in plain ones."""
    if path == API or path.startswith((f"{API}/", PAGE_DATA)):
        code = {401: "UNAUTHORIZED", 503: "SERVER_ERROR"}.get(status, "FORBIDDEN")
        return JSONResponse({"error": {"code": code, "message": message}}, status, headers)
    return PlainTextResponse(message, status, headers)


def _listening_addresses(scope: Scope) -> list[str]:
    """The addresses, as clients of this machine write them, of the socket that a request came in by."""
    host, port = scope["server"]
    names = [f"[{host}]" if ":" in host else host]
    if names[0] in LOOPBACK:
        names.append("localhost")
    return [f"http://{name}" if port == HTTP_PORT else f"http://{name}:{port}" for name in names]


@lru_cache(256)
def _host_names(host: bytes) -> tuple[str, str]:
    """What a Host header may be allowed as: with its port, and without."""
    name = host.decode("latin-1").lower()
    return name, _without_port(name)


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdecimal() else host


def http_caller(scope: MutableMapping[str, Any], progress: AsyncProgress | None = None) -> Caller:
    """Limits count by who shows a token, else by the address."""
    access = access_of(scope)
    if access is None:
        return Caller(client=client_address(scope), progress=progress)
    return Caller(
        client=access.subject,
        user=access.subject,
        projects=access.projects,
        address=client_address(scope),
        progress=progress,
        access=access,
    )
