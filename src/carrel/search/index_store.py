"""The interface of an index, what it keeps of a document, and the lock of its background work."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from carrel.common import UNSTORABLE
from carrel.search.analysis import query_terms, terms
from carrel.search.documents import Document, Passage, Progress, SearchResults

if TYPE_CHECKING:
    from carrel.search.providers.provider import Matrix

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

    def search(self, collection: str, query: Query, *, filters: Filters, limit: int) -> SearchResults: ...

    def use_model(self, name: str, dimensions: int) -> None:
        """From now on vectors are of this model; those of another are dropped, and all passages pending."""
        ...

    def work_lock(self, work: str = "turn") -> AbstractContextManager[bool]:
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


class WorkLock:
    """A lease on a store's background work, which may be acquired and released on different threads."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._stack = ExitStack()
        self._lock = Lock()
        self._is_released = False

    def acquire(self, store: Store) -> bool:
        """Whether it is ours."""
        with self._lock:
            if self._is_released:
                return False
            is_acquired = self._stack.enter_context(store.work_lock(self._work))
            if not is_acquired:
                self._stack.close()
            return is_acquired

    def release(self, _store: Store) -> None:
        with self._lock:
            self._is_released = True
            self._stack.close()


HASH_BYTES = 16
MAX_QUERY_TERMS = 128
"""Terms of a query that are looked for; a model reads no more of it either."""


def storable(text: str) -> str:
    """Without the characters that no database takes: NUL and halves of surrogate pairs."""
    return UNSTORABLE.sub("", text)


def storable_document(document: Document) -> Document:
    return replace(
        document,
        id=storable(document.id),
        title=storable(document.title),
        passages=[Passage(storable(each.text), storable(each.label)) for each in document.passages],
        version=storable(document.version),
        filters={storable(key): storable(value) for key, value in document.filters.items()},
    )


def storable_filters(filters: Filters) -> dict[str, list[str]]:
    return {storable(key): [storable(value) for value in values] for key, values in filters.items()}


def bounded_query_terms(query: str) -> Sequence[str]:
    return query_terms(query)[:MAX_QUERY_TERMS]


def embedded_text(title: str, passage: Passage) -> str:
    """What is embedded of a passage: where it stands belongs to what it means."""
    return "\n".join(part for part in (title, passage.label, passage.text) if part)


def passage_terms(title: str, passage: Passage) -> list[str]:
    """A title or heading says more about a passage than a word in it does: it counts twice."""
    return terms(f"{title}\n{passage.label}\n") + terms(embedded_text(title, passage))


def hash_of(title: str, passage: Passage) -> bytes:
    return digest(embedded_text(title, passage))


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=HASH_BYTES).digest()
