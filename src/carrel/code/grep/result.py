"""What a search found, or why it did not search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Match(NamedTuple):
    """A line that matches, with the lines around it."""

    path: str
    line: int
    column: int
    """Of the first match in the line, in characters from 1."""
    text: str
    before: Sequence[str]
    after: Sequence[str]


@dataclass(frozen=True, slots=True)
class Found:
    matches: Sequence[Match]
    total: int
    """Lines that match, given or not."""
    files: int
    """Text files that were searched."""
    milliseconds: int


class InvalidPattern(NamedTuple):
    details: str


class InvalidFilePattern(NamedTuple):
    details: str


class TimedOut(NamedTuple):
    seconds: float


class NotInstalled(NamedTuple):
    install: str
    """The command that installs it."""


NotSearched = InvalidPattern | InvalidFilePattern | TimedOut | NotInstalled
