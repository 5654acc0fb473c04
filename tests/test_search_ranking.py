"""From candidates to an answer."""

import pytest

from carrel.search.document import Passage
from carrel.search.ranking import EXACT, FLOOR, Candidate, Weights, rank, weigh

WEIGHTS = Weights(most=20.0, rarity=0.5)


def candidate(
    document: str, cosine: float | None = 0.5, bm25: float = 0.0, *, place: int = 0, title: str = ""
) -> Candidate:
    return Candidate(document, title or f"Title of {document}", Passage(f"{document} {place}"), place, cosine, bm25)


def ids(*candidates: Candidate, query: str = "query", limit: int = 10) -> list[str]:
    return [hit.id for hit in rank(candidates, query, limit, WEIGHTS).hits]


@pytest.mark.rule("search.ranking.fused")
def test_meaning_and_words_both_raise_a_score() -> None:
    assert ids(candidate("a", 0.5), candidate("b", 0.6)) == ["b", "a"]
    assert ids(candidate("a", 0.5), candidate("b", 0.5, 5.0)) == ["b", "a"]


@pytest.mark.rule("search.ranking.best_passage")
def test_a_document_is_shown_once_with_its_best_passage() -> None:
    found = rank(
        [candidate("a", 0.5), candidate("a", 0.7, place=1), candidate("a", 0.6, place=2)], "query", 10, WEIGHTS
    )
    assert [(hit.id, hit.place) for hit in found.hits] == [("a", 1)]
    assert found.total == 1


@pytest.mark.rule("search.ranking.ties")
def test_ties_go_by_id_and_place_whatever_the_order() -> None:
    tied = [candidate("b"), candidate("a", place=1), candidate("c"), candidate("a")]
    for order in (tied, tied[::-1]):
        assert [(hit.id, hit.place) for hit in rank(order, "query", 10, WEIGHTS).hits] == [("a", 0), ("b", 0), ("c", 0)]


@pytest.mark.rule("search.ranking.floor")
def test_what_is_below_the_floor_is_neither_shown_nor_counted() -> None:
    found = rank([candidate("a", 0.9), candidate("b", 0.05), candidate("c", -0.4)], "query", 10, WEIGHTS)
    assert [hit.id for hit in found.hits] == ["a"]
    assert found.total == 1
    assert found.hits[0].score >= FLOOR


@pytest.mark.rule("search.ranking.scores")
@pytest.mark.parametrize("cosine", [None, -1.0, 0.0, 0.5, 1.0, 1.0001])
@pytest.mark.parametrize("bm25", [0.0, 1.0, 20.0, 1000.0])
def test_scores_are_from_0_to_1_and_do_not_depend_on_the_other_candidates(cosine: float | None, bm25: float) -> None:
    alone = {hit.id: hit.score for hit in rank([candidate("a", cosine, bm25)], "query", 10, WEIGHTS).hits}
    together = {
        hit.id: hit.score
        for hit in rank([candidate("b", 0.99, 50.0), candidate("a", cosine, bm25)], "q", 9, WEIGHTS).hits
    }
    assert alone.get("a") == together.get("a")
    assert all(0 <= score <= 1 for score in together.values())


@pytest.mark.rule("search.ranking.exact")
def test_a_title_or_id_that_is_the_query_comes_first() -> None:
    better = candidate("a", 0.95, 30.0)
    assert ids(better, candidate("b", 0.0, title="The Café"), query=" the  cafe ") == ["b", "a"]
    assert ids(better, candidate("notes/x.md", 0.0), query="notes/x.md") == ["notes/x.md", "a"]
    assert rank([candidate("b", 0.0, title="T")], "t", 1, WEIGHTS).hits[0].score == EXACT


@pytest.mark.rule("search.ranking.words_at_once")
def test_a_passage_without_a_vector_is_ranked_by_its_words() -> None:
    assert ids(candidate("a", None, 8.0), candidate("b", None, 16.0)) == ["b", "a"]


def test_the_total_is_counted_before_the_limit() -> None:
    found = rank([candidate(f"{number:02}") for number in range(20)], "query", 3, WEIGHTS)
    assert ([hit.id for hit in found.hits], found.total) == (["00", "01", "02"], 20)


@pytest.mark.rule("search.ranking.rare_words")
def test_words_that_hardly_any_other_passage_has_are_found_whatever_they_mean() -> None:
    passages = 10_000
    rare, common = weigh([1], passages), weigh([9_000], passages)
    assert (rare.rarity, common.rarity < 0.02) == (1.0, True)
    found = candidate("a", 0.0, rare.most / 2)
    assert [hit.score for hit in rank([found], "query", 1, rare).hits] == [1.0]
    assert rank([candidate("a", 0.0, common.most / 2)], "query", 1, common).hits == []


def test_no_weight_is_divided_by() -> None:
    assert weigh([], 10) == weigh([10], 0) == Weights()
    assert [hit.id for hit in rank([candidate("a", 0.9, 1.0)], "query", 1, Weights()).hits] == ["a"]
