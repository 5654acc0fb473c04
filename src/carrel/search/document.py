"""What is put into an index, and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Passage(NamedTuple):
    """A piece of a document that can answer by itself: of about a hundred words, see `carrel.search.splitting`."""

    text: str
    label: str = ""
    """Where in the document it is, in its own words: a heading, a function's name."""


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    """Unique in its collection."""
    title: str
    passages: Sequence[Passage]
    version: str
    """Anything that changes with the document; one that is indexed in this version already is left as it is."""
    newness: int = 0
    """The meaning of newer documents is indexed before that of older ones."""
    filters: Mapping[str, str] = field(default_factory=dict[str, str])


class Hit(NamedTuple):
    """A document that answers a query, with its best passage."""

    id: str
    title: str
    score: float
    """0 to 1, the same from one query to the next; `carrel.search.ranking` says what it means."""
    passage: Passage
    place: int
    """The number of the passage in its document, from 0."""


class Found(NamedTuple):
    hits: list[Hit]
    total: int
    """How many documents are above the floor among the candidates, of which the hits are the best."""
    failure: str = ""
    """Why meaning had no part in it, where it should have had."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection's index is."""

    documents: int
    passages: int
    embedded: int
    """Passages whose meaning is indexed too."""

    @property
    def pending(self) -> int:
        return self.passages - self.embedded
