"""Bearer tokens: those that `carrel token create` makes, and the authenticator that checks every token over HTTP."""

import hmac
import secrets
import time
from base64 import b32encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from carrel.auth.access import BAD_CREDENTIALS, NO_CREDENTIALS, SCOPES, Access, AuthFailure, intersect_projects
from carrel.auth.jwt import Issuer, KeysUnavailable
from carrel.errors import StoreError
from carrel.storage.database import Database, Session

PREFIX = "carrel_"
_COLUMNS = "id, subject, scopes, projects, label, created_at, expires_at, revoked_at"
_INSERT = f"""
    INSERT INTO access_token ({_COLUMNS}, hash)
    VALUES (:id, :subject, :scopes, :projects, :label, :created_at, :expires_at, NULL, :hash)
"""
_SELECT_ALL = f"SELECT {_COLUMNS} FROM access_token ORDER BY created_at, id"
_SELECT_BY_ID = f"SELECT hash, {_COLUMNS} FROM access_token WHERE id = :id"
_REVOKE = "UPDATE access_token SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id"
_NO_HASH = "0" * 64


class Token(NamedTuple):
    """What is kept of a token; times are milliseconds since 1970."""

    id: str
    subject: str
    scopes: str
    """With blanks between them."""
    projects: str | None
    """With blanks between them; None for all."""
    label: str
    created_at: int
    expires_at: int
    revoked_at: int | None

    def state(self, now: int) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if now < self.expires_at else "expired"


class TokenRepository:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self,
        subject: str,
        scopes: tuple[str, ...],
        *,
        days: int,
        projects: tuple[str, ...] | None = None,
        label: str = "",
    ) -> tuple[str, Token]:
        """The token itself, which nobody can tell again, and what is kept of it."""
        name = b32encode(secrets.token_bytes(10)).decode().lower()
        secret = secrets.token_urlsafe(32)
        now = now_ms()
        kept = Token(
            name,
            subject,
            " ".join(scopes),
            None if projects is None else " ".join(projects),
            label,
            now,
            now + days * 86_400_000,
            None,
        )
        parameters = {key: value for key, value in kept._asdict().items() if key != "revoked_at"}
        await self._session.all(_INSERT, {**parameters, "hash": _hash(secret)})
        return f"{PREFIX}{name}_{secret}", kept

    async def all(self) -> list[Token]:
        """The oldest first."""
        return [Token(*row) for row in await self._session.all(_SELECT_ALL, {})]

    async def revoke(self, token_id: str) -> bool:
        """Whether there was such a token that was not revoked before."""
        return await self._session.first(_REVOKE, {"id": token_id, "now": now_ms()}) is not None

    async def find(self, text: str) -> Token | None:
        """The token that this is, if it is one of ours; in the same time whether its id is known or not."""
        name, _, secret = text.removeprefix(PREFIX).partition("_")
        row = await self._session.first(_SELECT_BY_ID, {"id": name}) if name.isascii() and name.isalnum() else None
        expected = _NO_HASH if row is None else row[0]
        is_it = hmac.compare_digest(_hash(secret), expected)
        return Token(*row[1:]) if row is not None and is_it else None


class TokenChecker:
    """Looks at the database each time, so that a token that was revoked opens nothing any more anywhere."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self, text: str) -> Access | None:
        token = await self._database.read(lambda session: TokenRepository(session).find(text))
        if token is None or token.state(now_ms()) != "valid":
            return None
        projects = None if token.projects is None else frozenset(token.projects.split())
        return Access(token.subject, frozenset(token.scopes.split()), projects, token.expires_at / 1000)


def is_carrel_token(text: str) -> bool:
    return text.startswith(PREFIX)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _hash(secret: str) -> str:
    """Of 256 random bits, which need no salt and no slow hash."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


UNVERIFIED_CREDENTIALS = "token could not be checked"


@dataclass(frozen=True, slots=True)
class TokenAuthenticator:
    """Takes the tokens of an issuer, our own, or both."""

    issuer: Issuer | None = None
    tokens: TokenChecker | None = None
    audiences: Collection[str] = ()
    """For whom an issuer's token must be made; empty: for the address that it is used at."""
    required_scopes: frozenset[str] = frozenset()
    project_limits: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By subject, the only projects that there are for it."""

    async def check(self, authorization: list[str], addresses: Collection[str]) -> Access | AuthFailure:
        """What the Authorization headers of a request open; `addresses` are what its audience may be."""
        if not authorization:
            return AuthFailure(401, NO_CREDENTIALS)
        kind, _, text = authorization[0].partition(" ")
        text = text.strip(" ")
        if len(authorization) > 1 or kind.lower() != "bearer" or not text.isascii():
            return AuthFailure(401, BAD_CREDENTIALS)
        try:
            access = await self._access(text, self.audiences or addresses)
        except (KeysUnavailable, StoreError):
            return AuthFailure(503, UNVERIFIED_CREDENTIALS)
        if access is None:
            return AuthFailure(401, BAD_CREDENTIALS)
        limit = self.project_limits.get(access.subject)
        known = access.scopes & SCOPES.keys() | (access.scopes & self.required_scopes)
        return Access(access.subject, known, intersect_projects(access.projects, limit), access.expires_at)

    async def _access(self, text: str, audiences: Collection[str]) -> Access | None:
        if is_carrel_token(text):
            return None if self.tokens is None else await self.tokens.check(text)
        return None if self.issuer is None else await self.issuer.check(text, audiences)

    def has_required_scopes(self, access: Access) -> bool:
        return self.required_scopes <= access.scopes

    async def close(self) -> None:
        if self.issuer is not None:
            await self.issuer.keys.close()
