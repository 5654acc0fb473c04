"""A discovery, and what makes one invalid."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeGuard, get_args

from carrel.code.knowledge.text import fault_in
from carrel.common import UUID, iso

Type = Literal["pattern", "rule", "decision", "issue"]
TYPES: tuple[Type, ...] = get_args(Type)

CONTENT_LIMIT = 10_000
MODULE_LIMIT = 200
SESSION_LIMIT = 200

_UUID = re.compile(UUID)


class Discovery(NamedTuple):
    id: str
    type: Type
    content: str
    module: str | None
    session: str | None
    date: int
    """Milliseconds since 1970, UTC."""

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "date": iso(self.date)}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field, as the end of a sentence that begins with its name."""

    field: str
    must: str

    def __str__(self) -> str:
        return f"{self.field} {self.must}"


@dataclass(frozen=True, slots=True)
class InvalidDiscovery:
    """Why a discovery cannot be kept as given."""

    faults: tuple[Fault, ...]


class Given(NamedTuple):
    """A discovery before it has an id and a time."""

    type: Type
    content: str
    module: str | None = None
    session: str | None = None


def checked(
    type_: str, content: str, module: str | None = None, session: str | None = None
) -> Given | InvalidDiscovery:
    faults = tuple(faults_in(type_, content, module, session))
    if faults or not is_type(type_):
        return InvalidDiscovery(faults)
    return Given(type_, content, module, session)


def faults_in(type_: str, content: str, module: str | None, session: str | None) -> Iterator[Fault]:
    if not is_type(type_):
        yield Fault("type", f"must be one of {', '.join(TYPES)}")
    limits = (
        ("content", content, CONTENT_LIMIT),
        ("module", module, MODULE_LIMIT),
        ("session", session, SESSION_LIMIT),
    )
    for name, value, limit in limits:
        if value is not None and (must := fault_in(value, limit)) is not None:
            yield Fault(name, must)


def is_type(text: str) -> TypeGuard[Type]:
    return text in TYPES


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None
