"""Building what stands at the door of a workspace's HTTP side, as its settings say."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carrel.errors import SettingsError
from carrel.settings import AuthSettings, Settings
from carrel.storage.database import Database

if TYPE_CHECKING:
    from carrel.doors.audit import Audit
    from carrel.doors.guard import TokenGuard
    from carrel.doors.keys import Keys
    from carrel.doors.signed import Issuer

LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")


def is_guarded(settings: Settings) -> bool:
    return bool(settings.auth.tokens or settings.auth.issuer)


def listening_fault(settings: Settings) -> str | None:
    """Why the server must not listen where the settings say, and what to set."""
    server, auth = settings.server, settings.auth
    if server.host in LOOPBACK_ADDRESSES:
        return None
    if not is_guarded(settings):
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


def open_guard(folder: Path, settings: Settings, database: Database | None) -> "TokenGuard | None":
    """Raises `SettingsError` for what nobody could come in by."""
    if not is_guarded(settings):
        return None
    from carrel.doors.guard import TokenGuard
    from carrel.doors.tokens import TokenChecker

    given = settings.auth
    if given.tokens and database is None:
        raise SettingsError("auth.tokens needs a database, and a bridge to content.backend_url alone has none")
    return TokenGuard(
        issuer=_issuer(folder, given) if given.issuer else None,
        tokens=TokenChecker(database) if given.tokens and database else None,
        audiences=given.audience,
        required_scopes=frozenset(given.required_scopes),
        project_limits=_project_limits(given.project_limits),
    )


def _issuer(folder: Path, given: AuthSettings) -> "Issuer":
    from carrel.doors.keys import ALGORITHMS
    from carrel.doors.signed import Issuer

    for each in given.algorithms:
        if each not in ALGORITHMS:
            raise SettingsError(f"auth.algorithms: {each} cannot be used; known: {', '.join(ALGORITHMS)}")
    return Issuer(given.issuer, _keys(folder, given), frozenset(given.algorithms), given.leeway, given.projects_claim)


def _keys(folder: Path, given: AuthSettings) -> "Keys":
    from carrel.doors.keys import FileKeys, RemoteKeys

    if bool(given.jwks_url) == bool(given.public_key_file):
        raise SettingsError(
            "auth.issuer needs one of auth.jwks_url and auth.public_key_file, to know its signatures by"
        )
    if given.public_key_file:
        return FileKeys(folder / given.public_key_file)
    place = urlsplit(given.jwks_url)
    if place.scheme != "https" and place.hostname not in LOOPBACK_ADDRESSES:
        raise SettingsError("auth.jwks_url must be https: whoever is on the way could give us keys of their own")
    return RemoteKeys(given.jwks_url)


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
        from carrel.doors.audit import LogAudit

        return LogAudit()
    if database is None:
        raise SettingsError("audit.to is database, and a bridge to content.backend_url alone has none")
    from carrel.doors.audit_lines import DatabaseAudit

    return DatabaseAudit(database)


def backend_token(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """What the bridge shows the backend elsewhere."""
    variable = settings.content.backend_token_env
    if variable and variable not in environment:
        raise SettingsError(f"content.backend_token_env: the variable {variable} is not set")
    return environment.get(variable, "") if variable else ""
