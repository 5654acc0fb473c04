"""How well search finds what answers: by words alone, by meaning alone, and by both as they are ranked.

    python3 dev.py bench retrieval [--set DIR ...] [--cache DIR] [--sweep] [--floor]

Every figure comes through the engine's own code: documents are split, put into a `LocalStore`, embedded by its
`Embedder` with the bundled model, asked for with `LocalStore.search` and ordered by `carrel.search.ranking.rank`.
Without --set the sets are made from what is installed (`retrieval_sets.py`); half of the questions are for choosing
constants, the other half is reported. A set in DIR is as BEIR has it, and all of its questions are reported. The
floor is off, except where it is what is measured. With --cache the indexes are kept for the next run.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import options
from retrieval_desk import small_desk
from retrieval_sets import Retrieval, everyday, is_held_out, made_here, rare_words, read_beir

from carrel.search import ranking
from carrel.search.embedder import Embedder
from carrel.search.index_store import Query
from carrel.search.local import local_store as local
from carrel.search.providers.bundled import BundledProvider
from carrel.search.providers.provider import Provider
from carrel.search.ranking import Candidate, Ranked

COLLECTION = "set"
CUT = 10
WAYS = ("words", "meaning", "both")
GOAL_MEAN, GOAL_LEAST = 1.03, 0.97
MEANINGS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8)
FLOORS = ((0.26, 1), (0.28, 1), (0.30, 1), (0.30, 0.40), (0.30, 0.38), (0.30, 0.36), (0.30, 0.34), (0.32, 0.36))
"""The least score, and the cosine that is near enough without it."""
GUESSES = ((0.2, 0.3), (0.2, 0.5), (0.25, 0.25), (0.25, 0.5), (0.3, 0.3), (0.3, 0.5))


@dataclass(frozen=True, slots=True)
class Given:
    """What a store gives to `rank`."""

    candidates: list[Candidate]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what the store found for it, by the way it was asked."""

    text: str
    relevant: dict[str, int]
    held_out: bool
    given: dict[str, Given]


# --- asking


def opened(retrieval: Retrieval, folder: Path, provider: Provider) -> local.LocalStore:
    """The set's index, made unless it is there."""
    store = local.LocalStore(folder / f"{retrieval.name.replace(' ', '-')}-{retrieval.digest}")
    store.put(COLLECTION, retrieval.documents)
    store.use_model(provider.name, provider.dimensions)
    total, done = store.progress()[COLLECTION].pending, 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        print(f"\r{retrieval.name}: {done} of {total} passages embedded", end="", file=sys.stderr, flush=True)

    if total:
        embedder = Embedder(store, provider, tell)
        embedder.start()
        embedder.wait()
        embedder.stop()
        print(file=sys.stderr)
    return store


def ask(retrieval: Retrieval, store: local.LocalStore, provider: Provider) -> list[Asked]:
    asked: list[Asked] = []
    for query, text in retrieval.queries.items():
        (vector,) = provider.embed([text])
        ways = {
            "words": Query(text),
            "meaning": Query("", provider.name, vector),
            "both": Query(text, provider.name, vector),
        }
        given = {way: _given(store, each) for way, each in ways.items()}
        asked.append(Asked(text, retrieval.relevant.get(query, {}), is_held_out(query), given))
    return asked


def _given(store: local.LocalStore, query: Query) -> Given:
    kept: list[Given] = []

    def keep(candidates: Iterable[Candidate], *arguments: Any) -> tuple[list[Ranked], int]:
        kept.append(Given(list(candidates), arguments))
        return [], 0

    with set_to(local, rank=keep):
        store.search(COLLECTION, query, filters={}, limit=CUT)
    return kept[0]


@contextmanager
def set_to(module: object, **values: object) -> Iterator[None]:
    """With other constants for a while."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


# --- how good an answer is


def ndcg(found: list[str], relevant: dict[str, int]) -> float:
    gains = [relevant.get(each, 0) / math.log2(place + 2) for place, each in enumerate(found)]
    best = sorted(relevant.values(), reverse=True)[:CUT]
    return sum(gains) / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))


def recall(found: list[str], relevant: dict[str, int]) -> float:
    return len(relevant.keys() & set(found)) / len(relevant)


def reciprocal_rank(found: list[str], relevant: dict[str, int]) -> float:
    return next((1 / (place + 1) for place, each in enumerate(found) if each in relevant), 0.0)


MEASURES: dict[str, Callable[[list[str], dict[str, int]], float]] = {
    "nDCG@10": ndcg,
    "recall@10": recall,
    "MRR@10": reciprocal_rank,
}


def answer(given: Given) -> list[Ranked]:
    return ranking.rank(given.candidates, *given.arguments)[0]


def quality(questions: list[Asked], way: str, measure: str = "nDCG@10") -> float:
    with set_to(ranking, FLOOR=0.0):
        return statistics.fmean(
            MEASURES[measure]([hit.id for hit in answer(each.given[way])], each.relevant) for each in questions
        )


def gain(questions: list[Asked], better: float) -> float:
    """Both ways together against the better of the two."""
    return quality(questions, "both") / better


# --- reports

Sets = dict[str, list[Asked]]


def qualities(sets: Sets) -> Iterator[str]:
    head = " | ".join(f"{measure}: {' | '.join(WAYS)}" for measure in MEASURES)
    yield f"| | questions | {head} | both against the better |"
    yield f"|---|---|{'---|' * (len(MEASURES) * len(WAYS) + 1)}"
    gains: list[float] = []
    for name, questions in sets.items():
        found = {(measure, way): quality(questions, way, measure) for measure in MEASURES for way in WAYS}
        gains.append(found["nDCG@10", "both"] / max(found["nDCG@10", "words"], found["nDCG@10", "meaning"]))
        cells = " | ".join(f"{each:.3f}" for each in found.values())
        yield f"| {name} | {len(questions)} | {cells} | {gains[-1]:.3f} |"
    mean, least = statistics.fmean(gains), min(gains)
    yield ""
    yield f"- mean {mean:.3f}, goal at least {GOAL_MEAN}: {'met' if mean >= GOAL_MEAN else 'MISSED'}"
    yield f"- least {least:.3f}, goal at least {GOAL_LEAST}: {'met' if least >= GOAL_LEAST else 'MISSED'}"


def sensitivity(sets: Sets) -> Iterator[str]:
    """What neighbouring constants would bring."""
    better = {name: max(quality(questions, "words"), quality(questions, "meaning")) for name, questions in sets.items()}
    yield f"| MEANING | {' | '.join(sets)} | mean |"
    yield f"|---|{'---|' * (len(sets) + 1)}"
    for meaning in MEANINGS:
        with set_to(ranking, MEANING=meaning):
            gains = [gain(questions, better[name]) for name, questions in sets.items()]
        mark = " (chosen)" if meaning == ranking.MEANING else ""
        cells = " | ".join(f"{each:.3f}" for each in gains)
        yield f"| {meaning}{mark} | {cells} | {statistics.fmean(gains):.3f} |"
    yield ""
    yield f"| GUESS | nDCG@10 with every second passage embedded, of that with all: {' | '.join(sets)} | mean |"
    yield f"|---|{'---|' * (len(sets) + 1)}"
    whole = {name: quality(questions, "both") for name, questions in sets.items()}
    halves = {name: [_half_embedded(each) for each in questions] for name, questions in sets.items()}
    for guess in GUESSES:
        with set_to(ranking, GUESS=guess):
            parts = [quality(questions, "both") / whole[name] for name, questions in halves.items()]
        mark = " (chosen)" if guess == ranking.GUESS else ""
        yield f"| {guess}{mark} | {' | '.join(f'{each:.3f}' for each in parts)} | {statistics.fmean(parts):.3f} |"


def _half_embedded(asked: Asked) -> Asked:
    """As it would be with every second passage not embedded yet: such are found by their words alone."""
    candidates: list[Candidate] = []
    for each in asked.given["both"].candidates:
        if is_held_out(f"{each.id} {each.place}"):
            candidates.append(each)
        elif each.bm25:
            candidates.append(each._replace(cosine=None))
    return replace(asked, given={"both": Given(candidates, asked.given["both"].arguments)})


def floors(sets: Sets, nothing: Sets, rare: Sets, desk: Sets) -> Iterator[str]:
    """What a floor keeps of what answers, and lets through of what does not."""
    chosen = (ranking.FLOOR, ranking.NEAR)
    heads = [f"{floor:.2f}, {near:.2f}{' (chosen)' if (floor, near) == chosen else ''}" for floor, near in FLOORS]
    yield f"| shown, by FLOOR and NEAR | passages | questions | {' | '.join(heads)} |"
    yield f"|---|---|---|{'---|' * len(FLOORS)}"
    for way, label in (("both", "embedded"), ("words", "not embedded")):
        for name, asked, is_relevant in (
            ("the document that answers", sets, True),
            ("another one", sets, False),
            ("anything for an everyday question, which nothing answers", nothing, False),
            ("the document with a word that no other has", rare, True),
            ("small desk: the note that is meant", desk, True),
            ("small desk: another note", desk, False),
        ):
            cells: list[str] = []
            for floor, near in FLOORS:
                with set_to(ranking, FLOOR=floor, NEAR=near):
                    cells.append(f"{100 * _shown(asked, way, is_relevant):.1f} %")
            yield f"| {name} | {label} | {sum(map(len, asked.values()))} | {' | '.join(cells)} |"
    yield ""
    for way in ("both", "words"):
        first = statistics.fmean(quality(questions, way, "MRR@10") for questions in rare.values())
        count = sum(map(len, rare.values()))
        yield f"- {count} words that one document alone has, MRR@10 by {way}: {first:.3f}"


def _shown(sets: Sets, way: str, is_relevant: bool) -> float:
    """The part of the questions for which a document is shown that answers, or one that does not."""
    return statistics.fmean(
        any((each.id in asked.relevant) == is_relevant for each in answer(_all(asked.given[way])))
        for questions in sets.values()
        for asked in questions
    )


def _all(given: Given) -> Given:
    exact, _, *rest = given.arguments
    return Given(given.candidates, (exact, len(given.candidates), *rest))


# --- the run


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--set", type=Path, action="append", metavar="DIR", help="a set as BEIR has it")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep the indexes here")
    parser.add_argument("--sweep", action="store_true", help="also what neighbouring constants bring, on all halves")
    parser.add_argument("--floor", action="store_true", help="also what the floor keeps and lets through")
    parser.add_argument("--texts", type=int, metavar="N", help="make each set from so many; default all")
    given = options.parse(parser, texts=12, sweep=True, floor=True)
    provider = BundledProvider()
    sets, nothing, rare, desk = Sets(), Sets(), Sets(), Sets()
    with tempfile.TemporaryDirectory(prefix="carrel-retrieval-") as name:
        for each in map(read_beir, given.set) if given.set else made_here(given.texts):
            if isinstance(each, str):
                print(each, file=sys.stderr)
                continue
            store = opened(each, given.cache or Path(name), provider)
            sets[each.name] = ask(each, store, provider)
            if given.floor:
                nothing[each.name] = ask(everyday(each), store, provider)
                rare[each.name] = ask(rare_words(each), store, provider)
            store.close()
        if given.floor:
            store = opened(small_desk(), given.cache or Path(name), provider)
            desk["small desk"] = ask(small_desk(), store, provider)
            store.close()
    held_out = sets if given.set else _half(sets, True)
    print("\n".join(["", "### As ranked" + ("" if given.set else ", held-out halves"), "", *qualities(held_out)]))
    if given.sweep and not given.set:
        print("\n".join(["", "### Neighbouring constants, halves for choosing", "", *sensitivity(_half(sets, False))]))
    if given.sweep:
        print("\n".join(["", "### Neighbouring constants, what is reported", "", *sensitivity(held_out)]))
    options.write_json(given.json, {name: _figures(questions) for name, questions in held_out.items()})
    if given.floor:
        for label, is_reported in (("for choosing", False), ("held out", True)):
            halves = (_half(each, is_reported) for each in (sets, nothing, rare, desk))
            print("\n".join(["", f"### The floor, halves {label}", "", *floors(*halves)]))


def _figures(questions: list[Asked]) -> dict[str, dict[str, float]]:
    return {measure: {way: quality(questions, way, measure) for way in WAYS} for measure in MEASURES}


def _half(sets: Sets, held_out: bool) -> Sets:
    return {name: [each for each in asked if each.held_out == held_out] for name, asked in sets.items()}


if __name__ == "__main__":
    main()
