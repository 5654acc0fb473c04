"""An index of each kind, what is put into it, and a plain model of what then has to be in it.

Run as a program it is another process with an index: `python -m tests.search_stores PLACE WORK ARGUMENTS`.
"""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt

from carrel.search.documents import Document, Hit, Passage, Progress
from carrel.search.index_store import Filters, Query, Store, hash_of
from carrel.search.local.local_store import LocalStore
from carrel.search.ranking import MEANING, NEAR

Floats = npt.NDArray[np.float32]

ROOT = Path(__file__).parent.parent
MODEL = "tests/random/1"
DIMENSIONS = 256
"""So many that vectors of different texts are far apart."""
LEAST = MEANING * NEAR
"""The least score that is shown of a passage that has no word of the query."""
BOOK = "book"
OTHERS = 60

_numbers = count(1)


@dataclass(frozen=True)
class Place:
    """Where an index is; any number of stores may be opened at it."""

    text: str

    def open(self) -> Store:
        if self.text.startswith("postgresql://"):
            from carrel.search.postgres.postgres_store import (
                PostgresStore,  # the processes of the other kind start faster
            )

            url, _, schema = self.text.partition("#")
            return PostgresStore(url, schema=schema)
        return LocalStore(Path(self.text))


def new_schema(url: str, worker: str) -> Iterator[str]:
    """A place of its own in the database."""
    schema = f"search_{worker}_{next(_numbers)}"
    yield f"{url}#{schema}"
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


# --- what is put in


def vector_of(text: str, dimensions: int = DIMENSIONS) -> Floats:
    """The same for the same text, and far from that of any other."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    return unit(np.random.default_rng(seed).normal(size=dimensions))


def unit(rows: npt.NDArray[np.floating]) -> Floats:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def word(number: int) -> str:
    """One term, whatever the number."""
    return "zz" + "".join("bcdfghjklm"[int(digit)] for digit in str(number)) + "q"


def note(
    id: str,
    *texts: str | Passage,
    title: str = "",
    version: str = "1",
    newness: int = 0,
    filters: Mapping[str, str] | None = None,
) -> Document:
    passages = [text if isinstance(text, Passage) else Passage(text) for text in texts]
    return Document(id, title, passages, version, newness, filters or {})


def others(most: int = OTHERS) -> list[Document]:
    """Documents about nothing that is asked for: where there are few, no word says much."""
    words = random.Random(5)
    return [
        note(
            f"other-{number:02}",
            " ".join(word(10**6 + words.randrange(3000)) for _ in range(12)),
            title=f"Other {number}",
        )
        for number in range(most)
    ]


def embed_all(store: Store, model: str = MODEL, dimensions: int = DIMENSIONS) -> list[str]:
    """What an embedder does; the texts that were embedded, in their order."""
    embedded: list[str] = []
    while batch := store.pending(64):
        texts = [each.text for each in batch]
        store.embed(model, [each.hash for each in batch], np.stack([vector_of(text, dimensions) for text in texts]))
        embedded += texts
    return embedded


def ask(
    store: Store, text: str, *, collection: str = BOOK, filters: Filters | None = None, limit: int = 10
) -> list[Hit]:
    """By words alone."""
    return store.search(collection, Query(text), filters=filters or {}, limit=limit).hits


def ask_meaning(
    store: Store, vector: Floats, *, collection: str = BOOK, filters: Filters | None = None, limit: int = 10
) -> list[Hit]:
    """By meaning alone."""
    return store.search(collection, Query("?", MODEL, vector), filters=filters or {}, limit=limit).hits


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]


# --- what has to be in it


@dataclass
class Model:
    """The same as a store, in the plainest way."""

    collections: dict[str, dict[str, Document]] = field(default_factory=dict[str, dict[str, Document]])
    vectors: dict[bytes, Floats] = field(default_factory=dict[bytes, Floats])
    model: str = ""

    def put(self, collection: str, documents: Sequence[Document]) -> int:
        kept = self.collections.setdefault(collection, {})
        changed = 0
        for document in documents:
            if document.id not in kept or kept[document.id].version != document.version:
                kept[document.id] = document
                changed += 1
        return changed

    def remove(self, collection: str, ids: Sequence[str]) -> None:
        for each in ids:
            self.collections.get(collection, {}).pop(each, None)

    def clear(self) -> None:
        self.collections.clear()
        self.vectors.clear()

    def use_model(self, name: str) -> None:
        if name != self.model:
            self.model = name
            self.vectors.clear()

    def versions(self, collection: str) -> dict[str, str]:
        return {each: document.version for each, document in self.collections.get(collection, {}).items()}

    def progress(self) -> dict[str, Progress]:
        found: dict[str, Progress] = {}
        for name, documents in sorted(self.collections.items()):
            hashes = [hash_of(each.title, passage) for each in documents.values() for passage in each.passages]
            if documents:
                found[name] = Progress(len(documents), len(hashes), sum(each in self.vectors for each in hashes))
        return found

    def pending(self) -> dict[bytes, int]:
        """How new each is."""
        found: dict[bytes, int] = {}
        for documents in self.collections.values():
            for document in documents.values():
                for passage in document.passages:
                    hashed = hash_of(document.title, passage)
                    if hashed not in self.vectors:
                        found[hashed] = max(document.newness, found.get(hashed, document.newness))
        return found

    def nearest(self, collection: str, vector: Floats, filters: Filters, limit: int) -> list[float]:
        """The scores of the best documents by meaning alone, each passage looked at."""
        scores: list[float] = []
        for document in self.collections.get(collection, {}).values():
            hashes = [hash_of(document.title, passage) for passage in document.passages]
            vectors = [self.vectors[each] for each in hashes if each in self.vectors]
            if vectors and all(document.filters.get(key) in values for key, values in filters.items()):
                scores.append(MEANING * max(float(each @ vector) for each in vectors))
        return sorted((score for score in scores if score >= LEAST), reverse=True)[:limit]


# --- another process


def main(place: str, work: str, *arguments: str) -> None:
    store = Place(place).open()
    if work == "put":
        seed, documents, times = map(int, arguments)
        for each in contending(seed, documents, times):
            store.put(BOOK, [each])
    elif work == "hold":
        with store.work_lock() as has_lock:
            say("has the lock" if has_lock else "has no lock")
            sys.stdin.read()
    elif work == "answer":
        for line in sys.stdin:
            say(" ".join(ids(ask(store, line.strip()))))
    elif work == "put for ever":
        for number in count(int(arguments[0])):
            batch = killed_batch(number)
            store.put(BOOK, batch)
            store.remove(BOOK, [batch[0].id])
            say(str(number))
    store.close()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def contending(seed: int, documents: int, times: int) -> Iterator[Document]:
    """Versions of the same documents, whichever process makes them: what is in one follows from its version."""
    chance = random.Random(seed)
    for _ in range(times):
        yield contended(chance.randrange(documents), chance.randrange(1000))


def contended(number: int, version: int) -> Document:
    passages = [f"{word(1000 * number + version)} passage shared" for place in range(1 + version % 4)]
    return note(f"doc-{number}", *passages, title=f"Doc {number}", version=str(version))


def killed_batch(number: int) -> list[Document]:
    return [
        note(
            f"doc-{number}-{place}",
            f"{word(100 * number + place)} common",
            f"{word(100 * number + place)} twice",
            version=f"v{number}",
        )
        for place in range(20)
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
