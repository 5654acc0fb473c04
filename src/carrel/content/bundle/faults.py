"""Faults of an import: all of them are collected, each with its location."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from carrel.errors import CarrelError

MAX_PRINTED_FAULTS = 200
MAX_KEPT_FAULTS = 10_000


class SourceLocation(NamedTuple):
    """The location of a fault in a file, with a sort key that follows the file."""

    order: tuple[int, int, int]
    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class FaultList:
    """A list of faults that counts all of them and keeps the first `MAX_KEPT_FAULTS`."""

    def __init__(self) -> None:
        self.total = 0
        self._kept: list[tuple[SourceLocation, str]] = []

    def add(self, place: SourceLocation, message: str) -> None:
        self.total += 1
        if not self.is_full:
            self._kept.append((place, message))

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= MAX_KEPT_FAULTS

    @property
    def kept(self) -> list[Fault]:
        """The kept faults, in the order of their locations."""
        return [Fault(place.text, message) for place, message in sorted(self._kept, key=lambda each: each[0].order)]

    def __bool__(self) -> bool:
        return self.total > 0


class ContentRefused(CarrelError):
    """An import was refused for these faults; nothing was written."""

    def __init__(self, faults: Sequence[Fault], total: int) -> None:
        number = "1 fault" if total == 1 else f"{total} faults"
        super().__init__("\n".join([f"nothing was written: {number}", *fault_lines(faults, total)]))
        self.faults = faults
        self.total = total


def fault_lines(faults: Sequence[Fault], total: int) -> list[str]:
    """Return a line for each fault, and one with the number of those left out."""
    lines = [f"  {fault}" for fault in faults[:MAX_PRINTED_FAULTS]]
    if total > len(lines):
        lines.append(f"  and {total - len(lines)} more")
    return lines
