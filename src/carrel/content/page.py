"""A page of a list, and the window of rows that it shows."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a list that a caller requests."""

    limit: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of one page, and the number of rows on all pages."""

    rows: list[T]
    total: int
