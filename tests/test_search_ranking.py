"""From candidates to an answer."""

import pytest

from carrel.search.ranking import EXACT_MATCH_SCORE, FLOOR, MEANING, NEAR, Candidate, Ranked, Weights, rank, weigh

WEIGHTS = Weights(most=20.0, rarity=0.5)


def candidate(
    document: str, cosine: float | None = 0.5, bm25: float = 0.0, *, place: int = 0, pk: int = 0
) -> Candidate:
    return Candidate(pk, document, place, cosine, bm25)


def best(*candidates: Candidate, exact: tuple[str, ...] = (), weights: Weights = WEIGHTS) -> list[Ranked]:
    ranked, total = rank(candidates, exact, 10, weights)
    assert total == len(ranked)
    return ranked


def ids(*candidates: Candidate, exact: tuple[str, ...] = ()) -> list[str]:
    return [each.id for each in best(*candidates, exact=exact)]


@pytest.mark.rule("search.ranking.fused")
def test_meaning_and_words_both_raise_a_score() -> None:
    assert ids(candidate("a", 0.5), candidate("b", 0.6)) == ["b", "a"]
    assert ids(candidate("a", 0.5), candidate("b", 0.5, 5.0)) == ["b", "a"]


@pytest.mark.rule("search.ranking.best_passage")
def test_a_document_is_shown_once_with_its_best_passage() -> None:
    found = best(candidate("a", 0.5), candidate("a", 0.7, place=1, pk=7), candidate("a", 0.6, place=2))
    assert [(each.id, each.place, each.pk) for each in found] == [("a", 1, 7)]


@pytest.mark.rule("search.ranking.ties")
def test_ties_go_by_id_and_place_whatever_the_order() -> None:
    tied = [candidate("b"), candidate("a", place=1), candidate("c"), candidate("a")]
    for order in (tied, tied[::-1]):
        assert [(each.id, each.place) for each in best(*order)] == [("a", 0), ("b", 0), ("c", 0)]


@pytest.mark.rule("search.ranking.floor")
def test_what_is_below_the_floor_is_neither_shown_nor_counted() -> None:
    (found,) = best(candidate("a", 0.9), candidate("b", 0.05), candidate("c", -0.4))
    assert found.id == "a"
    assert found.score >= FLOOR


@pytest.mark.rule("search.ranking.near")
def test_what_is_near_in_meaning_is_shown_below_the_floor_too() -> None:
    assert [each.score for each in best(candidate("a", NEAR), candidate("b", NEAR - 0.001))] == [
        round(MEANING * NEAR, 4)
    ]
    assert MEANING * NEAR < FLOOR
    assert ids(candidate("a", None, 1.0), candidate("b", NEAR - 0.1, 1.0)) == []


@pytest.mark.rule("search.ranking.scores")
@pytest.mark.parametrize("cosine", [None, -1.0, 0.0, 0.5, 1.0, 1.0001])
@pytest.mark.parametrize("bm25", [0.0, 1.0, 20.0, 1000.0])
def test_scores_are_from_0_to_1_and_do_not_depend_on_the_other_candidates(cosine: float | None, bm25: float) -> None:
    alone = {each.id: each.score for each in best(candidate("a", cosine, bm25))}
    together = {each.id: each.score for each in best(candidate("b", 0.99, 50.0), candidate("a", cosine, bm25))}
    assert alone.get("a") == together.get("a")
    assert all(0 <= score <= 1 for score in together.values())


@pytest.mark.rule("search.ranking.exact")
def test_what_is_titled_like_the_query_comes_first() -> None:
    assert ids(candidate("a", 0.95, 10.0), candidate("b", 0.0), exact=("b",)) == ["b", "a"]
    assert best(candidate("b", 0.0), exact=("b", "elsewhere"))[0].score == EXACT_MATCH_SCORE


@pytest.mark.rule("search.ranking.words_at_once")
def test_a_passage_without_a_vector_is_ranked_by_its_words() -> None:
    assert ids(candidate("a", None, 8.0), candidate("b", None, 16.0)) == ["b", "a"]


def test_the_total_is_counted_before_the_limit() -> None:
    found, total = rank([candidate(f"{number:02}") for number in range(20)], (), 3, WEIGHTS)
    assert ([each.id for each in found], total) == (["00", "01", "02"], 20)


@pytest.mark.rule("search.ranking.rare_words")
def test_words_that_hardly_any_other_passage_has_are_found_whatever_they_mean() -> None:
    passages = 10_000
    rare, common = weigh([1], passages), weigh([9_000], passages)
    assert (rare.rarity, common.rarity < 0.02) == (1.0, True)
    found = candidate("a", 0.0, rare.most / 2)
    assert [each.score for each in best(found, weights=rare)] == [1.0]
    assert best(candidate("a", 0.0, common.most / 2), weights=common) == []


def test_no_weight_is_divided_by() -> None:
    assert weigh([], 10) == weigh([10], 0) == Weights()
    assert [each.id for each in best(candidate("a", 0.9, 1.0), weights=Weights())] == ["a"]
