"""From candidates to an answer.

A passage's score is MEANING of the cosine between it and the query, and the rest of how well its words fit: its BM25 as
a part of the most that the query's words could bring, which is about a half where each of them occurs once. A passage
that has words which hardly any other has is what was looked for, whatever it means; such words score by themselves.

All of it is between 0 and 1 and does not depend on how long the query is or how many passages there are, so a score
means the same from one query to the next, and can be held against a floor. Where a passage's meaning is not indexed,
or there is no model, its words let the cosine be guessed. The constants are measured: `benchmarks/retrieval.py`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from carrel.search.analysis import titled
from carrel.search.document import Found, Hit, Passage

MEANING = 0.7
FLOOR = 0.30
GUESS = (0.25, 0.5)
"""The cosine to expect of a passage whose meaning is not known: the first, and the second times its words' score."""
K1 = 1.2
"""Of BM25; a word brings at most its rarity times K1 + 1, however often it occurs."""
DIGITS = 4
EXACT = 1.0
"""The score of a document whose title or id is the query."""


class Weights(NamedTuple):
    """What the words of a query weigh in a collection."""

    most: float = 0.0
    """No passage can have a higher BM25."""
    rarity: float = 0.0
    """1 where each word is in one passage alone or in none, 0 where each is in all of them."""


class Candidate(NamedTuple):
    """A passage that may answer."""

    id: str
    title: str
    passage: Passage
    place: int
    cosine: float | None
    """None where the passage, or the query, has no vector."""
    bm25: float


def weigh(frequencies: Sequence[int], passages: int) -> Weights:
    """`frequencies` says for each word of the query how many of the passages have it."""
    rarest = _idf(1, passages)
    idfs = [min(rarest, _idf(each, passages)) for each in frequencies]
    total = sum(idfs)
    if total == 0:
        return Weights()
    return Weights((K1 + 1) * total, sum(idf * idf for idf in idfs) / (total * rarest))


def _idf(frequency: int, passages: int) -> float:
    return max(0.0, math.log((passages + 1) / (frequency + 0.5)))


def score(candidate: Candidate, weights: Weights) -> float:
    words = min(1.0, candidate.bm25 / weights.most) if weights.most else 0.0
    if candidate.cosine is not None:
        cosine = max(0.0, candidate.cosine)
    elif words:
        cosine = GUESS[0] + GUESS[1] * words
    else:
        cosine = 0.0
    # Twice: words that occur once each are all there.
    return min(1.0, max(MEANING * cosine + (1 - MEANING) * words, 2 * words * weights.rarity**2))


def rank(candidates: Iterable[Candidate], query: str, limit: int, weights: Weights) -> Found:
    """The documents above the floor, each with its best passage. One whose title or id is the query is first."""
    best: dict[str, tuple[float, int, Candidate]] = {}
    for each in candidates:
        found = (round(score(each, weights), DIGITS), -each.place, each)
        kept = best.get(each.id)
        if kept is None or found[:2] > kept[:2]:
            best[each.id] = found
    title = titled(query)
    hits = [
        Hit(each.id, each.title, EXACT if _is_titled(each, title) else scored, each.passage, each.place)
        for scored, _, each in best.values()
    ]
    hits = sorted((hit for hit in hits if hit.score >= FLOOR), key=lambda hit: (-hit.score, hit.id))
    return Found(hits[:limit], len(hits))


def _is_titled(candidate: Candidate, title: str) -> bool:
    return bool(title) and (_is(candidate.title, title) or _is(candidate.id, title))


def _is(text: str, title: str) -> bool:
    if text.isascii() and text.lstrip()[:1].lower() != title[0]:  # as nearly all are: quicker than folding them
        return False
    return titled(text) == title
