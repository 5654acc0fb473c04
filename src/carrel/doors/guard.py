"""The check that stands before everything that is served over HTTP."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from carrel.doors.access import INVALID, MISSING, SCOPES, Access, Refused, narrowed
from carrel.doors.keys import KeysUnavailable
from carrel.doors.signed import Issuer
from carrel.doors.tokens import TokenChecker, is_ours
from carrel.errors import StoreError

UNCHECKED = "token could not be checked"


@dataclass(frozen=True, slots=True)
class TokenGuard:
    """Takes the tokens of an issuer, our own, or both."""

    issuer: Issuer | None = None
    tokens: TokenChecker | None = None
    audiences: Collection[str] = ()
    """For whom an issuer's token must be made; empty: for the address that it is used at."""
    required_scopes: frozenset[str] = frozenset()
    project_limits: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By subject, the only projects that there are for it."""

    async def check(self, authorization: list[str], addresses: Collection[str]) -> Access | Refused:
        """What the Authorization headers of a request open; `addresses` are what its audience may be."""
        if not authorization:
            return Refused(401, MISSING)
        kind, _, text = authorization[0].partition(" ")
        text = text.strip(" ")
        if len(authorization) > 1 or kind.lower() != "bearer" or not text.isascii():
            return Refused(401, INVALID)
        try:
            access = await self._access(text, self.audiences or addresses)
        except (KeysUnavailable, StoreError):
            return Refused(503, UNCHECKED)
        if access is None:
            return Refused(401, INVALID)
        limit = self.project_limits.get(access.subject)
        known = access.scopes & SCOPES.keys() | (access.scopes & self.required_scopes)
        return Access(access.subject, known, narrowed(access.projects, limit), access.expires_at)

    async def _access(self, text: str, audiences: Collection[str]) -> Access | None:
        if is_ours(text):
            return None if self.tokens is None else await self.tokens.check(text)
        return None if self.issuer is None else await self.issuer.check(text, audiences)

    def has_required(self, access: Access) -> bool:
        return self.required_scopes <= access.scopes

    async def close(self) -> None:
        if self.issuer is not None:
            await self.issuer.keys.close()
