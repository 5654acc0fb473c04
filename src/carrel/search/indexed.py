"""What is kept of a document, the same in every store: text that can be stored, its terms, and hashes of it."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from carrel.common import UNSTORABLE
from carrel.search.analysis import query_terms, terms
from carrel.search.document import Document, Passage
from carrel.search.store import Filters

HASH_BYTES = 16
MOST_ASKED = 128
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


def asked_terms(query: str) -> Sequence[str]:
    return query_terms(query)[:MOST_ASKED]


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
