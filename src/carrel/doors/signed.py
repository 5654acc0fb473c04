"""Tokens that an issuer has signed: JWTs (RFC 9068, and those of issuers that do not follow it to the letter)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from carrel.doors.access import SUBJECT, Access
from carrel.doors.keys import Keys

LONGEST = 16_384
FURTHEST = 253_402_300_799
"""The last second that has a four-digit year."""
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
USUAL_PROJECTS_CLAIM = "carrel_projects"
_TIMES = ("exp", "nbf", "iat")
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens are taken, and what must be in them."""

    name: str
    keys: Keys
    algorithms: Collection[str]
    leeway: int
    """Seconds by which clocks may differ."""
    projects_claim: str = ""
    """The claim that names the only projects that a token opens, which every token must then have to open any. Empty:
    `carrel_projects` limits the tokens that have it."""

    async def check(self, text: str, audiences: Collection[str]) -> Access | None:
        """What a token opens, if it was made for one of the audiences; raises `KeysUnavailable`."""
        import jwt

        if len(text) > LONGEST or _COMPACT.fullmatch(text) is None:
            return None
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        algorithm, key_id = header.get("alg"), header.get("kid")
        is_usual = "crit" not in header and str(header.get("typ", "JWT")).lower() in TYPES
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            return None
        if algorithm not in self.algorithms or not is_usual:
            return None
        for key in await self.keys.candidates(key_id, algorithm):
            if (claims := self._claims(text, key.public, algorithm, audiences)) is not None:
                return self._access(claims)
        return None

    def _claims(self, text: str, public: Any, algorithm: str, audiences: Collection[str]) -> Mapping[str, Any] | None:
        import jwt

        try:
            return jwt.decode(
                text,
                public,
                algorithms=[algorithm],
                audience=list(audiences),
                issuer=self.name,
                leeway=self.leeway,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None

    def _access(self, claims: Mapping[str, Any]) -> Access | None:
        if not all(type(claims[name]) in (int, float) for name in _TIMES if name in claims):  # PyJWT takes text, too
            return None
        subject, until = claims["sub"], int(claims["exp"])
        if not isinstance(subject, str) or SUBJECT.fullmatch(subject) is None or until > FURTHEST:
            return None
        scopes = frozenset(_words(claims.get("scope"))) | frozenset(_words(claims.get("scp")))
        return Access(subject, scopes, self._projects(claims), float(until))

    def _projects(self, claims: Mapping[str, Any]) -> frozenset[str] | None:
        if self.projects_claim:
            return frozenset(_words(claims.get(self.projects_claim)))
        given = claims.get(USUAL_PROJECTS_CLAIM)
        return None if given is None else frozenset(_words(given))


def _words(value: object) -> list[str]:
    """Scopes come as one string with blanks, or as a list."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [each for each in cast("list[object]", value) if isinstance(each, str)]
    return []
