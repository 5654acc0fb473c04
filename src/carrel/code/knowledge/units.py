"""A definition in a file, with those within it: what a passage of code is made of."""

from dataclasses import dataclass, field
from typing import NamedTuple

DEEPEST = 32
"""Definitions within definitions that are told apart; what is deeper belongs to the one around it."""


class Head(NamedTuple):
    """How a definition begins."""

    kind: str
    name: str
    needs_body: bool = False
    """Whether it is none where no body follows: a declaration, a call."""

    @property
    def is_container(self) -> bool:
        return self.kind not in ("function", "method", "type")


@dataclass(slots=True)
class Unit:
    """Lines count from 1, and the last is part of it."""

    name: str
    kind: str
    first: int
    last: int = 0
    children: "list[Unit]" = field(default_factory=list["Unit"])


def qualified(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name
