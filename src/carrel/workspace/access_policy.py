"""Access policy as the settings have it: authentication, audit and limits."""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carrel.errors import SettingsError
from carrel.mcp.limits import CallLimits, RateLimiter, RateStore, SharedLimits, TimeBudget, tool_rates
from carrel.mcp.toolset import tool_names
from carrel.settings import AuthSettings, Settings
from carrel.settings.definitions import TOOLSETS
from carrel.storage.database import Database, Location, PostgresLocation

if TYPE_CHECKING:
    from carrel.auth.audit import Audit
    from carrel.auth.jwt import Issuer, KeySource
    from carrel.auth.tokens import TokenAuthenticator
    from carrel.mcp.limits.connection_limits import ConnectionLimits
    from carrel.mcp.limits.request_limits import RequestLimits
    from carrel.settings import LimitsSettings

LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")


def requires_auth(settings: Settings) -> bool:
    return bool(settings.auth.tokens or settings.auth.issuer)


def listening_fault(settings: Settings) -> str | None:
    """Why the server must not listen where the settings say, and what to set."""
    server, auth = settings.server, settings.auth
    if server.host in LOOPBACK_ADDRESSES:
        return None
    if not requires_auth(settings):
        return (
            f"server.host: refusing to listen on {server.host} without [auth]: everyone who reaches that address could "
            "use this desk. Set auth.tokens, and make tokens with carrel token create, or set auth.issuer; or listen "
            "on 127.0.0.1."
        )
    if auth.issuer and not auth.audience and not server.public_url:
        return (
            f"server.host: refusing to listen on {server.host} with auth.issuer alone: nothing says whom a token must "
            "be made for, so that tokens made for other servers would open this one. Set server.public_url to the "
            "address that clients use, or auth.audience to what your issuer puts into aud."
        )
    return None


def open_authenticator(folder: Path, settings: Settings, database: Database | None) -> "TokenAuthenticator | None":
    """Raises `SettingsError` for what nobody could come in by."""
    if not requires_auth(settings):
        return None
    from carrel.auth.tokens import TokenAuthenticator, TokenChecker

    auth = settings.auth
    if auth.tokens and database is None:
        raise SettingsError("auth.tokens needs a database, and a bridge to content.backend_url alone has none")
    return TokenAuthenticator(
        issuer=_issuer(folder, auth) if auth.issuer else None,
        tokens=TokenChecker(database) if auth.tokens and database else None,
        audiences=auth.audience,
        required_scopes=frozenset(auth.required_scopes),
        project_limits=_project_limits(auth.project_limits),
    )


def _issuer(folder: Path, auth: AuthSettings) -> "Issuer":
    from carrel.auth.jwt import ALGORITHMS, Issuer

    for each in auth.algorithms:
        if each not in ALGORITHMS:
            raise SettingsError(f"auth.algorithms: {each} cannot be used; known: {', '.join(ALGORITHMS)}")
    return Issuer(auth.issuer, _keys(folder, auth), frozenset(auth.algorithms), auth.leeway, auth.projects_claim)


def _keys(folder: Path, auth: AuthSettings) -> "KeySource":
    from carrel.auth.jwt import FileKeySource, JwksKeySource

    if bool(auth.jwks_url) == bool(auth.public_key_file):
        raise SettingsError(
            "auth.issuer needs one of auth.jwks_url and auth.public_key_file, to know its signatures by"
        )
    if auth.public_key_file:
        return FileKeySource(folder / auth.public_key_file)
    place = urlsplit(auth.jwks_url)
    if place.scheme != "https" and place.hostname not in LOOPBACK_ADDRESSES:
        raise SettingsError("auth.jwks_url must be https: whoever is on the way could give us keys of their own")
    return JwksKeySource(auth.jwks_url)


def _project_limits(entries: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    limits: dict[str, frozenset[str]] = {}
    for entry in entries:
        subject, separator, project = entry.rpartition("=")
        if not separator or not subject.strip() or not project.strip():
            raise SettingsError(f"auth.project_limits: {entry!r} is not SUBJECT=PROJECT")
        subject = subject.strip()
        limits[subject] = limits.get(subject, frozenset()) | {project.strip()}
    return limits


def open_audit(settings: Settings, database: Database | None) -> "Audit | None":
    if settings.audit.to == "none":
        return None
    if settings.audit.to == "log":
        from carrel.auth.audit import LogAudit

        return LogAudit()
    if database is None:
        raise SettingsError("audit.to is database, and a bridge to content.backend_url alone has none")
    from carrel.auth.audit_repository import DatabaseAudit

    return DatabaseAudit(database)


def backend_token(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """What the bridge shows the backend elsewhere."""
    variable = settings.content.backend_token_env
    if variable and variable not in environment:
        raise SettingsError(f"content.backend_token_env: the variable {variable} is not set")
    return environment.get(variable, "") if variable else ""


REQUEST_CALL_NAMES = ("api", "page")
"""What is limited as tools are: requests of `/api` that no tool is like, and the page's for data."""
REQUEST_LINE_BYTES = 64
"""The method and the version beside the URL, with some room."""
LEASE_MARGIN_SECONDS = 5.0
"""A call under way is counted for so much longer than it may take, where its server has died and cannot say more."""


async def open_limits(settings: "Settings", location: Location, stack: AsyncExitStack) -> CallLimits:
    """Those of calls. What is opened for it is closed with the stack."""
    limits = settings.limits
    rates = RateLimiter(settings.server.rate_limit, by_tool=_by_tool(settings), of_client=limits.calls_a_minute)
    shared = None
    if (
        rate_store := await _open_rate_store(limits, location, settings.server.call_timeout + LEASE_MARGIN_SECONDS)
    ) is not None:
        shared = SharedLimits(rate_store, rates, concurrent=limits.concurrent_calls)
        stack.push_async_callback(shared.close)
    grep_seconds = settings.code_limits.grep_seconds
    return CallLimits(
        rates,
        shared,
        concurrent=limits.concurrent_calls,
        result_bytes=limits.result_bytes,
        budgets={"grep_codebase": TimeBudget(grep_seconds)} if grep_seconds else {},
    )


def request_limits(settings: "Settings") -> "RequestLimits":
    from carrel.mcp.limits.request_limits import RequestLimits

    limits = settings.limits
    return RequestLimits(limits.body_bytes, limits.header_bytes, limits.url_bytes)


def connection_limits(settings: "Settings") -> "ConnectionLimits":
    from carrel.mcp.limits.connection_limits import ConnectionLimits

    limits = settings.limits
    return ConnectionLimits(
        # A header is four bytes longer on the wire than its name and value, and may be as short as one.
        head_bytes=limits.url_bytes + REQUEST_LINE_BYTES + 4 * limits.header_bytes,
        body_bytes=limits.body_bytes,
        header_timeout=limits.header_timeout,
        body_timeout=limits.body_timeout,
        send_timeout=limits.send_timeout,
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
    )


def _by_tool(settings: "Settings") -> dict[str, int]:
    code = settings.code_limits
    by_tool = {
        "context_search": code.context_search,
        "read_file": code.read_file,
        "grep_codebase": code.grep_codebase,
    }
    if settings.limits.tools:
        known = [name for toolset in TOOLSETS for name in tool_names(f"carrel.toolsets.{toolset}")]
        by_tool |= tool_rates(settings.limits.tools, [*known, *REQUEST_CALL_NAMES])
    return by_tool


async def _open_rate_store(limits: "LimitsSettings", location: Location, lease_seconds: float) -> RateStore | None:
    match limits.storage:
        case "database":
            if not isinstance(location, PostgresLocation):
                raise SettingsError(
                    "limits.storage: database needs PostgreSQL, and database.url is a SQLite file; "
                    "set limits.storage to memory or redis"
                )
            from carrel.storage.postgres_rate_store import PostgresRateStore

            return await PostgresRateStore.open(location.url, lease_seconds=lease_seconds)
        case "redis":
            if not limits.redis_url:
                raise SettingsError("limits.storage: redis needs limits.redis_url, or CARREL_LIMITS_REDIS_URL")
            from carrel.storage.redis_rate_store import RedisRateStore

            return RedisRateStore(limits.redis_url, lease_seconds=lease_seconds)
        case _:
            return None
