"""What an index is to those who fill and ask it, wherever it is kept. Every call may wait for a disk or a network."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from carrel.search.document import Document, Found, Progress

if TYPE_CHECKING:
    from carrel.search.providers.protocol import Matrix

Filters = Mapping[str, Sequence[str]]
"""Each filter that a document must have, and its values of which one will do."""


class Pending(NamedTuple):
    """A passage whose meaning is not indexed yet."""

    hash: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    model: str = ""
    """Whose vector it is; in an index of another model it is not looked at."""
    vector: "Matrix | None" = None


class ModelChanged(Exception):
    """Another process indexes with another model now; this one's vectors are of no use."""


class Store(Protocol):
    """Thread-safe, and safe against other processes with the same index."""

    def put(self, collection: str, documents: Sequence[Document]) -> int:
        """Add documents, or change those that have another version; how many that were. Their words are found at once,
        their meaning when it was embedded."""
        ...

    def remove(self, collection: str, ids: Sequence[str]) -> None: ...

    def versions(self, collection: str) -> dict[str, str]:
        """The version of each document, by its id."""
        ...

    def search(self, collection: str, query: Query, *, filters: Filters, limit: int) -> Found: ...

    def use_model(self, name: str, dimensions: int) -> None:
        """From now on vectors are of this model; those of another are dropped, and all passages pending."""
        ...

    def turn(self, work: str = "turn") -> AbstractContextManager[bool]:
        """Whether this process is the one to do this work, until the end of the context; no other is meanwhile.

        It may end on another thread than it began on. The work without a name is to embed.
        """
        ...

    def pending(self, most: int) -> list[Pending]:
        """The newest passages to embed."""
        ...

    def embed(self, model: str, hashes: Sequence[bytes], matrix: "Matrix") -> None:
        """Keep vectors; raises `ModelChanged`."""
        ...

    def progress(self) -> dict[str, Progress]:
        """By collection."""
        ...

    def tidy(self) -> None:
        """Forget the vectors of texts that are in no document any more; until then they may come back for nothing."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def close(self) -> None: ...
