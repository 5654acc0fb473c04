"""What an index does wherever it is kept: each test runs on files and on PostgreSQL."""

from pathlib import Path

import numpy as np
import pytest

from carrel.search.documents import Passage, Progress
from carrel.search.index_store import Query, Store
from carrel.search.ranking import MEANING
from tests.search_store_fixtures import ROUNDING, filled, open_store, place, store
from tests.search_stores import (
    BOOK,
    DIMENSIONS,
    LEAST,
    MODEL,
    OTHERS,
    Place,
    ask,
    ask_meaning,
    embed_all,
    ids,
    note,
    others,
    unit,
    vector_of,
    word,
)

__all__ = ["filled", "open_store", "place", "store"]

# --- putting in and taking out


def test_a_new_index_is_empty(store: Store) -> None:
    assert store.versions(BOOK) == {}
    assert store.progress() == {}
    assert store.pending(10) == []
    assert store.search(BOOK, Query("anything"), filters={}, limit=10) == ([], 0, "")


def test_documents_are_kept_with_their_versions(store: Store) -> None:
    assert store.put(BOOK, [note("a", "one"), note("b", "two", version="7")]) == 2
    store.put("other", [note("a", "else", version="3")])
    assert store.versions(BOOK) == {"a": "1", "b": "7"}
    assert store.versions("other") == {"a": "3"}


def test_a_document_of_the_same_version_is_left_as_it_is(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade")])
    assert filled.put(BOOK, [note("a", "porridge"), note("b", "kippers")]) == 1
    assert ids(ask(filled, "marmalade")) == ["a"]
    assert ask(filled, "porridge") == []


def test_a_changed_document_is_found_by_what_is_in_it_now(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade", "toast", title="Breakfast")])
    assert filled.put(BOOK, [note("a", "porridge", title="Supper", version="2")]) == 1
    assert ids(ask(filled, "porridge")) == ["a"]
    assert ask(filled, "marmalade") == ask(filled, "toast") == ask(filled, "breakfast") == []
    assert filled.progress()[BOOK].passages == OTHERS + 1


def test_the_last_of_several_versions_in_one_call_stays(filled: Store) -> None:
    same = [note("a", "marmalade"), note("a", "porridge", version="2"), note("a", "kippers", version="2")]
    assert filled.put(BOOK, same) == 2
    assert filled.versions(BOOK)["a"] == "2"
    assert ids(ask(filled, "porridge")) == ["a"]
    assert ask(filled, "marmalade kippers") == []


def test_passages_are_shown_as_they_are_now_where_only_a_heading_became_text(filled: Store) -> None:
    filled.put(BOOK, [note("a", Passage("orchards\npears and apples"))])
    filled.put(BOOK, [note("a", Passage("pears and apples", label="orchards"), version="2")])
    assert [hit.passage for hit in ask(filled, "orchards")] == [Passage("pears and apples", label="orchards")]


def test_passages_that_change_places_are_shown_at_their_new_ones(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade", "porridge", "marmalade")])
    filled.put(BOOK, [note("a", "porridge", "kippers", "marmalade", version="2")])
    assert [ask(filled, word)[0].place for word in ("porridge", "kippers", "marmalade")] == [0, 1, 2]
    assert filled.progress()[BOOK].passages == OTHERS + 3


def test_removed_documents_are_gone(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade"), note("b", "marmalade"), note("c", "marmalade")])
    filled.remove(BOOK, ["a", "c", "unknown"])
    filled.remove("unknown", ["a"])
    assert ids(ask(filled, "marmalade")) == ["b"]
    assert {"a", "c"}.isdisjoint(filled.versions(BOOK))
    assert filled.progress() == {BOOK: Progress(OTHERS + 1, OTHERS + 1, 0)}


def test_a_document_can_come_back(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade")])
    filled.remove(BOOK, ["a"])
    assert filled.put(BOOK, [note("a", "marmalade")]) == 1
    assert ids(ask(filled, "marmalade")) == ["a"]


def test_collections_are_apart(filled: Store) -> None:
    filled.put("elsewhere", [*others(), note("a", "marmalade")])
    filled.use_model(MODEL, DIMENSIONS)
    embed_all(filled)
    assert ask(filled, "marmalade") == []
    assert ids(ask(filled, "marmalade", collection="elsewhere")) == ["a"]
    assert ask_meaning(filled, vector_of("marmalade")) == []
    assert ids(ask_meaning(filled, vector_of("marmalade"), collection="elsewhere")) == ["a"]


def test_a_collection_may_have_any_name(place: Place, filled: Store) -> None:
    for name in ("../../above", "a/b", "Book", "c" * 300, "", ".."):
        filled.put(name, [*others(), note("a", "marmalade")])
        assert ids(ask(filled, "marmalade", collection=name)) == ["a"]
        assert ask(filled, "marmalade") == []
    assert not Path(place.text).with_name("above").exists()


def test_after_clear_everything_is_made_again(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade")])
    filled.use_model(MODEL, DIMENSIONS)
    embed_all(filled)
    filled.clear()
    assert filled.progress() == {}
    assert filled.versions(BOOK) == {}
    assert ask(filled, "marmalade") == ask_meaning(filled, vector_of("marmalade")) == []
    assert filled.put(BOOK, [*others(), note("a", "marmalade")]) == OTHERS + 1
    assert ids(ask(filled, "marmalade")) == ["a"]
    assert len(embed_all(filled)) == OTHERS + 1  # by the same embedder, which knows nothing of this
    assert ids(ask_meaning(filled, vector_of("marmalade"))) == ["a"]


# --- words


FORMS = [
    ("connection", "two connected pipes"),
    ("RUNNING", "he runs"),
    ("user name", "def getUserName(self)"),
    ("getUserName", "the get_user_name function"),
    ("http server", "class HTTPServer2"),
    ("max_retries", "const MaxRetries = 3"),
    ("resume", "a r\u00e9sum\u00e9"),
    ("r\u00e9sum\u00e9", "a resume"),
    ("cre\u0300me", "cr\u00e8me"),
    ("\u6771\u4eac", "\u79c1\u306f\u6771\u4eac\u90fd\u306b\u4f4f\u3093\u3067\u3044\u308b"),
    ("\u4f4f", "\u79c1\u306f\u6771\u4eac\u90fd\u306b\u4f4f\u3093\u3067\u3044\u308b"),
    ("\ud55c\uad6d", "\ud55c\uad6d\uc5b4 \uc0ac\uc804"),
    ("stra\u00dfe", "STRASSE"),
    ("what is the marmalade", "marmalade"),
]


def test_words_are_found_in_every_form(filled: Store) -> None:
    filled.put(BOOK, [note(text, text) for _, text in FORMS])
    for query, text in FORMS:
        assert text in ids(ask(filled, query)), query


def test_a_title_and_a_heading_are_found_and_count_more_than_text(filled: Store) -> None:
    filled.put(
        BOOK,
        [
            note("in-text", "eating marmalade today", title="Breakfast time"),
            note("in-title", "eating breakfast today", title="Marmalade time"),
            note("in-label", Passage("eating today", label="marmalade"), title="Breakfast time"),
        ],
    )
    hits = ask(filled, "marmalade")
    assert ids(hits)[2] == "in-text"
    assert set(ids(hits)) == {"in-title", "in-label", "in-text"}


def test_a_rare_word_says_more_than_a_common_one(filled: Store) -> None:
    filled.put(BOOK, [note(f"common-{number}", "toast toast toast breakfast") for number in range(60)])
    filled.put(BOOK, [note("rare", "marmalade at breakfast")])
    assert ids(ask(filled, "toast breakfast marmalade"))[0] == "rare"


def test_the_best_passage_of_each_document_is_shown(filled: Store) -> None:
    filled.put(BOOK, [note("a", "nothing", "marmalade and toast", "marmalade toast kippers", "marmalade")])
    (hit,) = ask(filled, "marmalade toast kippers")
    assert (hit.place, hit.passage.text) == (2, "marmalade toast kippers")


def test_equal_documents_are_in_the_order_of_their_ids(filled: Store) -> None:
    names = ["d", "b", "\u00e9", "a", "B", "c"]
    for name in names:
        filled.put(BOOK, [note(name, "marmalade")])
    hits = ask(filled, "marmalade")
    assert ids(hits) == sorted(names)
    assert len({hit.score for hit in hits}) == 1


def test_no_more_than_the_limit_is_shown_with_the_true_total(filled: Store) -> None:
    filled.put(BOOK, [note(f"m{number}", "marmalade") for number in range(7)])
    found = filled.search(BOOK, Query("marmalade"), filters={}, limit=3)
    assert ids(found.hits) == ["m0", "m1", "m2"]
    assert found.total == 7


def test_nothing_below_the_floor_is_shown(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("above", "one"), note("below", "two")])
    best, other = vector_of("best"), vector_of("other")
    other = unit(other - (other @ best) * best)
    cosines = {"one": (LEAST + 0.01) / MEANING, "two": (LEAST - 0.01) / MEANING}
    batch = store.pending(10)
    near = [cosines[each.text] * best + (1 - cosines[each.text] ** 2) ** 0.5 * other for each in batch]
    store.embed(MODEL, [each.hash for each in batch], unit(np.stack(near)))
    (hit,) = ask_meaning(store, best)
    assert hit.id == "above"
    assert hit.score == pytest.approx(LEAST + 0.01, abs=ROUNDING)


# --- titles and ids


@pytest.mark.parametrize("query", ["Cr\u00e8me Br\u00fbl\u00e9e", "creme brulee", "  CREME   brulee\n"])
def test_a_document_whose_title_is_the_query_is_first(filled: Store, query: str) -> None:
    texts = [note(f"a{number}", "creme brulee, creme brulee and creme brulee") for number in range(5)]
    filled.put(BOOK, [*texts, note("z", "of burnt cream", title="Cr\u00e8me Br\u00fbl\u00e9e")])
    hits = ask(filled, query)
    assert hits[0].id == "z"
    assert hits[0].score == 1
    assert len(hits) > 1


@pytest.mark.parametrize("query", ["Notes/Br\u00fbl\u00e9e.md", "notes/brulee.MD", " notes/brulee.md "])
def test_a_document_whose_id_is_the_query_is_first(filled: Store, query: str) -> None:
    filled.put(BOOK, [note("Notes/Br\u00fbl\u00e9e.md", "of burnt cream", title="Dessert")])
    hits = ask(filled, query)
    assert [(hit.id, hit.score) for hit in hits] == [("Notes/Br\u00fbl\u00e9e.md", 1)]


def test_a_title_counts_only_where_the_filters_let_it(filled: Store) -> None:
    filled.put(BOOK, [note("a", "text", title="Marmalade", filters={"kind": "note"})])
    assert ids(ask(filled, "marmalade", filters={"kind": ["note"]})) == ["a"]
    assert ask(filled, "marmalade", filters={"kind": ["task"]}) == []


# --- filters


def test_filters_are_applied_before_ranking(filled: Store) -> None:
    """There are more of one kind than are looked at, all better than those of the other."""
    filled.use_model(MODEL, DIMENSIONS)
    query, best = "marmalade orange sugar lemon", vector_of("best")
    many = [
        note(f"task-{number:03}", f"{query} {word(number)}", filters={"kind": "task", "year": "1999"})
        for number in range(130)
    ]
    few = [
        note(f"note-{year}", f"{query} and less of {year} {word(year)}", filters={"kind": "note", "year": str(year)})
        for year in (1999, 2000, 2001)
    ]
    filled.put(BOOK, [*others(500), *many, *few])
    while batch := filled.pending(500):
        weights = [2 * (query in each.text) - ("less" in each.text) for each in batch]
        vectors = [unit(weight * best + vector_of(each.text)) for weight, each in zip(weights, batch, strict=True)]
        filled.embed(MODEL, [each.hash for each in batch], np.stack(vectors))
    cases: list[tuple[dict[str, list[str]], list[str]]] = [
        ({"kind": ["note"]}, ["note-1999", "note-2000", "note-2001"]),
        ({"kind": ["note"], "year": ["2000", "2001", "3000"]}, ["note-2000", "note-2001"]),
        ({"year": ["2000"]}, ["note-2000"]),
        ({"year": ["2001", "2000"]}, ["note-2000", "note-2001"]),
        ({"kind": ["unknown"]}, []),
        ({"unknown": ["note"]}, []),
        ({"kind": ["note"], "unknown": ["note"]}, []),
        ({"kind": []}, []),
        ({"note": ["kind"]}, []),
    ]
    assert all(each.startswith("task") for each in ids(ask(filled, query)) + ids(ask_meaning(filled, best)))
    for filters, expected in cases:
        assert sorted(ids(ask(filled, query, filters=filters))) == expected
        assert sorted(ids(ask_meaning(filled, best, filters=filters))) == expected


def test_a_filter_and_its_value_are_not_mistaken_for_another(filled: Store) -> None:
    filled.put(BOOK, [note("a", "marmalade", filters={"path": "x=y", "q": "'\"\\"})])
    filled.use_model(MODEL, DIMENSIONS)
    embed_all(filled)
    for filters, expected in [
        ({"path": ["x=y"]}, ["a"]),
        ({"q": ["'\"\\"]}, ["a"]),
        ({"path=x": ["y"]}, []),
        ({"path": ["x"]}, []),
    ]:
        assert ids(ask(filled, "marmalade", filters=filters)) == expected
        assert ids(ask_meaning(filled, vector_of("marmalade"), filters=filters)) == expected


def test_other_filters_take_effect_with_the_next_version(filled: Store) -> None:
    filled.use_model(MODEL, DIMENSIONS)
    filled.put(BOOK, [note("a", "marmalade", filters={"kind": "note"})])
    embed_all(filled)
    filled.put(BOOK, [note("a", "marmalade", filters={"kind": "task"}, version="2")])
    assert filled.pending(10) == []
    for find in (
        lambda kind: ask(filled, "marmalade", filters={"kind": [kind]}),
        lambda kind: ask_meaning(filled, vector_of("marmalade"), filters={"kind": [kind]}),
    ):
        assert (ids(find("task")), find("note")) == (["a"], [])
