"""Documents and passages: what goes into an index, what comes out of it, and how long texts are split."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Passage(NamedTuple):
    """A piece of a document that can answer by itself: of about a hundred words, see `carrel.search.documents`."""

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


class SearchResults(NamedTuple):
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


TARGET_PASSAGE_CHARACTERS = 480
"""Characters: about 110 tokens of English, of the 128 that the bundled model reads."""
MAX_PASSAGE_CHARACTERS = 640

_BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s*"), re.compile(r"\s"))
"""Where a text may be parted, from the best place to the worst."""


def split(text: str) -> list[str]:
    """Split a text into pieces of about `TARGET_PASSAGE_CHARACTERS`, between paragraphs, lines, sentences or words."""
    return list(_joined(_pieces(text.strip(), 0))) or [""]


def _pieces(text: str, level: int) -> Iterator[str]:
    """The text in pieces of at most `MAX_PASSAGE_CHARACTERS` characters, which together are all of it."""
    if len(text) <= MAX_PASSAGE_CHARACTERS:
        yield text
    elif level == len(_BREAKS):
        yield from (
            text[start : start + TARGET_PASSAGE_CHARACTERS] for start in range(0, len(text), TARGET_PASSAGE_CHARACTERS)
        )
    else:
        start = 0
        for found in _BREAKS[level].finditer(text):
            if found.end() > start:
                yield from _pieces(text[start : found.end()], level + 1)
                start = found.end()
        if start < len(text):
            yield from _pieces(text[start:], level + 1)


def _joined(pieces: Iterator[str]) -> Iterator[str]:
    """Small pieces put together as long as they do not pass the goal."""
    passage = ""
    for piece in pieces:
        if passage and len(passage) + len(piece) > TARGET_PASSAGE_CHARACTERS:
            if stripped := passage.strip():
                yield stripped
            passage = ""
        passage += piece
    if stripped := passage.strip():
        yield stripped
