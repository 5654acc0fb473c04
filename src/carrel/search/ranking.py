"""From candidates to an answer.

A passage's score is MEANING of the cosine between it and the query, and the rest of how well its words fit, which is
b/(b + HALF), b being its BM25. Both mean the same from one query to the next, so the score does too, and can be held
against a floor. Where a passage's meaning is not indexed, or there is no model, its words let the cosine be guessed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from carrel.search.analysis import titled
from carrel.search.document import Found, Hit, Passage

MEANING = 0.75
HALF = 24.0
FLOOR = 0.30
GUESS = (0.30, 0.55)
"""The cosine to expect of a passage whose meaning is not known: the first, and the second times its words' score."""
DIGITS = 4
EXACT = 1.0
"""The score of a document whose title or id is the query."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may answer."""

    id: str
    title: str
    passage: Passage
    place: int
    cosine: float | None
    """None where the passage, or the query, has no vector."""
    bm25: float


def score(candidate: Candidate) -> float:
    words = candidate.bm25 / (candidate.bm25 + HALF)
    if candidate.cosine is not None:
        cosine = max(0.0, candidate.cosine)
    elif words:
        cosine = GUESS[0] + GUESS[1] * words
    else:
        cosine = 0.0
    return min(1.0, MEANING * cosine + (1 - MEANING) * words)


def rank(candidates: Iterable[Candidate], query: str, limit: int) -> Found:
    """The documents above the floor, each with its best passage. One whose title or id is the query is first."""
    best: dict[str, Hit] = {}
    for each in candidates:
        hit = Hit(each.id, each.title, round(score(each), DIGITS), each.passage, each.place)
        kept = best.get(hit.id)
        if kept is None or (hit.score, -hit.place) > (kept.score, -kept.place):
            best[hit.id] = hit
    title = titled(query)
    hits = [
        hit._replace(score=EXACT) if title and title in (titled(hit.title), titled(hit.id)) else hit
        for hit in best.values()
    ]
    hits = sorted((hit for hit in hits if hit.score >= FLOOR), key=lambda hit: (-hit.score, hit.id))
    return Found(hits[:limit], len(hits))
