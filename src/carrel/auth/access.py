"""What a caller may do."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

ADMIN = "admin"
ACCESS_SCOPE_KEY = "carrel.access"
"""Where the rest of a request's way finds what its token opens."""
SCOPES = {
    "catalog:read": "Read content through the catalog toolset.",
    "content:read": "Read content through the bridge toolset and the backend API.",
    "content:write": "Write content. Nothing that is served writes content yet.",
    "notes:read": "Read and search notes.",
    "notes:write": "Create, change and delete notes.",
    "tasks": "The caller's own tasks.",
    "code:read": "Read and search the code base and what was learned about it.",
    "code:write": "Write down what was learned about the code base, with the journal toolset.",
    ADMIN: "Everything, and the server's own numbers at /metrics.",
}
NO_CREDENTIALS = "no token"
BAD_CREDENTIALS = "bad token"
TOO_MANY_SIGN_INS = "too many sign-ins"
SUBJECT_PATTERN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]{1,500}")
"""What may be a task's user_id, and can be told in one line of a log: no control characters, line or paragraph
separators, or marks that change the direction of the text around them."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who a token speaks for, and what it opens."""

    subject: str
    scopes: frozenset[str]
    projects: frozenset[str] | None = None
    """Slugs or ids of the only projects that there are for this caller; None where there are all."""
    expires_at: float | None = None
    """Seconds since 1970."""

    def has(self, scope: str) -> bool:
        return scope in self.scopes or ADMIN in self.scopes

    def has_any(self, scopes: Iterable[str]) -> bool:
        return any(map(self.has, scopes))


def access_of(scope: Mapping[str, object]) -> Access | None:
    """What the token of an ASGI request opens; None where no token is asked for."""
    found = scope.get(ACCESS_SCOPE_KEY)
    return found if isinstance(found, Access) else None


class AuthFailure(NamedTuple):
    """Why is for the audit; who knocks is told no more than that a valid token is needed."""

    status: int
    reason: str
    retry_after: int = 5
    """Seconds; for statuses that pass by themselves."""


class Authenticator(Protocol):
    """Knows who shows a token."""

    async def check(self, authorization: list[str], addresses: Collection[str]) -> Access | AuthFailure:
        """What the Authorization headers of a request open; `addresses` are what it may be aimed at."""
        ...

    def has_required_scopes(self, access: Access) -> bool:
        """Whether it has what every token must have."""
        ...


def intersect_projects(projects: frozenset[str] | None, further: frozenset[str] | None) -> frozenset[str] | None:
    """What both leave."""
    if projects is None or further is None:
        return further if projects is None else projects
    return projects & further
