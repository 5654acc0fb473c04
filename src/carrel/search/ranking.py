"""From candidates to an answer.

A passage's score is MEANING of the cosine between it and the query, and the rest of how well its words fit: its BM25 as
a part of the most that the query's words could bring, which is about a half where each of them occurs once. A passage
that has words which hardly any other has is what was looked for, whatever it means; such words score by themselves.

All of it is between 0 and 1 and does not depend on how long the query is or how many passages there are, so a score
means the same from one query to the next, and can be held against a floor. Where a passage's meaning is not indexed,
or there is no model, its words let the cosine be guessed. The constants are measured: `benchmarks/retrieval.py`.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

MEANING = 0.7
FLOOR = 0.30
"""The least score that is shown,"""
NEAR = 0.36
"""but for a passage whose cosine is as much, whatever its words: what is about something else hardly comes near."""
GUESS = (0.25, 0.5)
"""The cosine to expect of a passage whose meaning is not known: the first, and the second times its words' score."""
K1 = 1.2
"""Of BM25; a word brings at most its rarity times K1 + 1, however often it occurs."""
SCORE_DIGITS = 4
EXACT_MATCH_SCORE = 1.0
"""The score of a document whose title or id is the query."""
MIN_CANDIDATES = 25


class Weights(NamedTuple):
    """What the words of a query weigh in a collection."""

    most: float = 0.0
    """No passage can have a higher BM25."""
    rarity: float = 0.0
    """1 where each word is in one passage alone or in none, 0 where each is in all of them."""


class Candidate(NamedTuple):
    """A passage that may answer."""

    pk: int
    """Its number in the store."""
    id: str
    """Of its document."""
    place: int
    cosine: float | None
    """None where the passage, or the query, has no vector."""
    bm25: float


class Ranked(NamedTuple):
    """A document that answers, and its best passage."""

    pk: int
    id: str
    place: int
    score: float


def candidates_for(limit: int) -> int:
    """How many passages to rank for so many documents: the best by words, and as many by meaning.

    What is below the 25th by both has not come among the first ten by their sum once in 1,633 questions.
    """
    return max(MIN_CANDIDATES, limit)


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


def rank(
    candidates: Iterable[Candidate], exact: Collection[str], limit: int, weights: Weights
) -> tuple[list[Ranked], int]:
    """The documents above the floor, each with its best passage, and how many there are without the limit.

    `exact` are the ids of those whose title or id is the query: they are first.
    """
    most, rarity_weight = weights.most, 2 * weights.rarity**2  # twice: words that occur once each are all there
    best: dict[str, tuple[float, int, int]] = {}
    near: set[str] = set()
    for pk, document, place, cosine, bm25 in candidates:
        words = min(1.0, bm25 / most) if most else 0.0
        if cosine is None:
            cosine = GUESS[0] + GUESS[1] * words if words else 0.0
        elif cosine >= NEAR:
            near.add(document)
        score = MEANING * max(0.0, cosine) + (1 - MEANING) * words
        found = (round(min(1.0, max(score, rarity_weight * words)), SCORE_DIGITS), -place, pk)
        kept = best.get(document)
        if kept is None or found > kept:
            best[document] = found
    for document in exact:
        if document in best:
            best[document] = (EXACT_MATCH_SCORE, *best[document][1:])
    ranked = sorted((-score, id) for id, (score, _, _) in best.items() if score >= FLOOR or id in near)
    return [Ranked(best[id][2], id, -best[id][1], -score) for score, id in ranked[:limit]], len(ranked)
