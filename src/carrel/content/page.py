"""One page of a list, and how much there is in all."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a list is asked for."""

    limit: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    rows: list[T]
    total: int
