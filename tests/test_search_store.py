"""What an index does wherever it is kept: each test runs on files and on PostgreSQL."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from carrel.search.document import Document, Passage, Progress
from carrel.search.indexed import hash_of
from carrel.search.ranking import MEANING
from carrel.search.store import ModelChanged, Query, Store
from tests.search_stores import (
    BOOK,
    DIMENSIONS,
    LEAST,
    MODEL,
    OTHERS,
    ROOT,
    Model,
    Place,
    ask,
    ask_meaning,
    contended,
    contending,
    embed_all,
    ids,
    new_schema,
    note,
    others,
    unit,
    vector_of,
    word,
)

ROUNDING = 0.002
"""Between scores of exact vectors and of those at half precision, rounded to four digits."""


@pytest.fixture(params=["local", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        yield Place(str(tmp_path / "index"))
    else:
        for text in new_schema(request.getfixturevalue("postgres_url"), request.getfixturevalue("worker_id")):
            yield Place(text)


@pytest.fixture
def open_store(place: Place) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(place.open())
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def store(open_store: Callable[[], Store]) -> Store:
    return open_store()


@pytest.fixture
def filled(store: Store) -> Store:
    """With enough in it that a word says something."""
    store.put(BOOK, others())
    return store


def start(place: Place, work: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.search_stores", place.text, work, *map(str, arguments)]
    return subprocess.Popen(words, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


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


# --- meaning


def test_meaning_is_found_once_it_is_embedded(filled: Store) -> None:
    filled.use_model(MODEL, DIMENSIONS)
    filled.put(BOOK, [note("a", "first", "second", title="Title")])
    assert ask_meaning(filled, vector_of("Title\nsecond")) == []
    embed_all(filled)
    (hit,) = ask_meaning(filled, vector_of("Title\nsecond"))
    assert (hit.id, hit.place, hit.passage) == ("a", 1, Passage("second"))
    assert hit.score == pytest.approx(MEANING, abs=ROUNDING)


def test_words_add_to_meaning(filled: Store) -> None:
    filled.use_model(MODEL, DIMENSIONS)
    filled.put(BOOK, [note("a", "marmalade")])
    embed_all(filled)
    (meaning,) = ask_meaning(filled, vector_of("marmalade"))
    (both,) = filled.search(BOOK, Query("marmalade", MODEL, vector_of("marmalade")), filters={}, limit=10).hits
    assert meaning.score < both.score <= 1


def test_unchanged_passages_of_a_changed_document_keep_their_vectors(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one", "two", "three", title="T", newness=1)])
    embed_all(store)
    store.put(BOOK, [note("a", "zero", "three", "one", title="T", newness=2, version="2")])
    assert [each.text for each in store.pending(10)] == ["T\nzero"]
    assert [(hit.id, hit.place) for hit in ask_meaning(store, vector_of("T\nthree"))] == [("a", 1)]
    assert ask_meaning(store, vector_of("T\ntwo")) == []


def test_equal_passages_are_embedded_once(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "same", "own", "same"), note("b", "same")])
    store.put("other", [note("c", "same")])
    assert sorted(each.text for each in store.pending(10)) == ["own", "same"]
    assert len(embed_all(store)) == 2
    assert store.progress() == {BOOK: Progress(2, 4, 4), "other": Progress(1, 1, 1)}
    store.put("third", [note("d", "same", "new")])
    assert [each.text for each in store.pending(10)] == ["new"]
    assert ids(ask_meaning(store, vector_of("same"), collection="third")) == ["d"]
    assert ids(ask_meaning(store, vector_of("same"))) == ["a", "b"]


def test_vectors_of_texts_that_are_gone_stay_until_it_is_tidied(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "stays"), note("b", "goes")])
    assert len(embed_all(store)) == 2
    store.remove(BOOK, ["b"])
    store.put(BOOK, [note("b", "goes", version="2")])
    assert store.pending(10) == []
    store.remove(BOOK, ["b"])
    store.tidy()
    store.put(BOOK, [note("b", "goes", version="3")])
    assert len(store.pending(10)) == 1
    assert ids(ask_meaning(store, vector_of("stays"))) == ["a"]


def test_the_newest_are_pending_first(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    for newness in (3, 1, 5, 4, 2):
        store.put(BOOK, [note(f"n{newness}", f"text {newness}", newness=newness)])
    assert [each.text for each in store.pending(3)] == ["text 5", "text 4", "text 3"]
    store.put(BOOK, [note("n1", "text 1", newness=9, version="2")])
    assert embed_all(store) == [f"text {newness}" for newness in (1, 5, 4, 3, 2)]
    assert store.pending(3) == []


def test_of_equally_new_ones_the_last_put_in_is_pending_first(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one", "two"), note("b", "three")])
    store.put(BOOK, [note("c", "four")])
    assert [each.text for each in store.pending(10)] == ["four", "three", "two", "one"]


def test_what_was_removed_is_not_pending(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one"), note("b", "two")])
    store.remove(BOOK, ["a"])
    assert [each.text for each in store.pending(10)] == ["two"]


def test_progress_counts_by_collection(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one", "two"), note("b")])
    store.put("other", [note("c", "three")])
    assert store.progress() == {BOOK: Progress(2, 2, 0), "other": Progress(1, 1, 0)}
    (first, *_) = store.pending(1)
    store.embed(MODEL, [first.hash], vector_of(first.text)[None])
    assert sum(each.embedded for each in store.progress().values()) == 1
    assert sum(each.pending for each in store.progress().values()) == 2


def test_a_vector_for_what_was_removed_meanwhile_does_no_harm(store: Store) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one")])
    batch = store.pending(10)
    store.remove(BOOK, ["a"])
    store.embed(MODEL, [each.hash for each in batch], np.stack([vector_of(each.text) for each in batch]))
    assert ask_meaning(store, vector_of("one")) == []
    assert store.progress() == {}


@pytest.mark.parametrize(("name", "dimensions"), [("tests/other", DIMENSIONS), (MODEL, 16), ("tests/other", 48)])
def test_with_another_model_everything_is_embedded_anew(store: Store, name: str, dimensions: int) -> None:
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [note("a", "one"), note("b", "two", newness=1)])
    embed_all(store)
    assert ids(ask_meaning(store, vector_of("one"))) == ["a"]
    store.use_model(MODEL, DIMENSIONS)
    assert store.pending(10) == []
    store.use_model(name, dimensions)
    assert [each.text for each in store.pending(10)] == ["two", "one"]
    assert store.progress() == {BOOK: Progress(2, 2, 0)}
    with pytest.raises(ModelChanged):
        store.embed(MODEL, [store.pending(1)[0].hash], vector_of("two")[None])
    embed_all(store, name, dimensions)
    assert ask_meaning(store, vector_of("one")) == []  # a vector of the old model
    query = Query("?", name, vector_of("one", dimensions))
    assert ids(store.search(BOOK, query, filters={}, limit=10).hits) == ["a"]


def test_a_model_of_another_store_object_is_seen(open_store: Callable[[], Store]) -> None:
    one, two = open_store(), open_store()
    one.use_model(MODEL, DIMENSIONS)
    one.put(BOOK, [note("a", "one")])
    embed_all(one)
    assert ids(ask_meaning(one, vector_of("one"))) == ids(ask_meaning(two, vector_of("one"))) == ["a"]
    two.use_model("tests/other", 16)
    assert ask_meaning(one, vector_of("one")) == []
    with pytest.raises(ModelChanged):
        one.embed(MODEL, [one.pending(1)[0].hash], vector_of("one")[None])


# --- hostile input


HOSTILE = [
    "",
    " \t\n",
    "?!... --- ()",
    "the of and",
    "a",
    "\0",
    "mar\0malade",
    "\ud800",
    "marmalade\udfff",
    "'",
    '"',
    "\\",
    "'; DROP TABLE passage; --",
    "marmalade AND (",
    "marmalade & ! | <-> toast:*",
    'title:"x" +a -b ^2 ~3 [a TO b} /x/ *',
    "%s %(x)s {} {x}",
    "\U0001f600 \u202e \ufeff \u0130",
    "marmalade " * 10_000,
    "x" * 100_000,
    " ".join(f"word{number}" for number in range(12_000)),
]


def test_any_text_can_be_put_in_and_asked_for(filled: Store) -> None:
    filled.use_model(MODEL, DIMENSIONS)
    filled.put(BOOK, [note("a", "marmalade")])
    for text in HOSTILE:
        hostile = note("hostile", Passage(text, label=text), title=text, version=text, filters={text: text})
        assert filled.put(BOOK, [hostile, note(f"id {text}", "plain")]) == 2
        assert filled.put(BOOK, [hostile]) == 0
        embed_all(filled)
        assert len(ask(filled, text)) <= 10
        filled.search(BOOK, Query(text, MODEL, vector_of("x")), filters={text: [text]}, limit=10)
        assert "a" in ids(ask(filled, "marmalade"))
        filled.remove(BOOK, ["hostile", f"id {text}"])
        assert filled.progress()[BOOK] == Progress(*[OTHERS + 1] * 3)


def test_what_cannot_be_stored_is_left_out(filled: Store) -> None:
    filled.put(BOOK, [note("a\0b", "mar\0malade\ud800", title="\udfffJam\0", filters={"k\0": "v\ud83d"})])
    (hit,) = ask(filled, "marma\0lade", filters={"k": ["v\0"]})
    assert hit == ("ab", "Jam", hit.score, Passage("marmalade"), 0)
    filled.remove(BOOK, ["a\0b"])
    assert ask(filled, "marmalade") == []


def test_a_document_without_passages_is_kept_and_not_found(filled: Store) -> None:
    assert filled.put(BOOK, [note("a", title="Marmalade")]) == 1
    assert filled.versions(BOOK)["a"] == "1"
    assert ask(filled, "marmalade") == []
    filled.put(BOOK, [note("a", "", title="Marmalade", version="2")])
    assert ids(ask(filled, "marmalade")) == ["a"]
    filled.put(BOOK, [note("a", title="Marmalade", version="3")])
    assert ask(filled, "marmalade") == []


def test_a_very_long_passage_is_found_by_its_words(filled: Store) -> None:
    words = " ".join(f"word{number} again" for number in range(7000))
    filled.put(BOOK, [note("long", f"{words} marmalade", title="T" * 5000)])
    assert ids(ask(filled, "again")) == ["long"]
    filled.use_model(MODEL, DIMENSIONS)
    embed_all(filled)
    assert ids(ask_meaning(filled, vector_of(f"{'T' * 5000}\n{words} marmalade"))) == ["long"]


def test_a_document_of_ten_thousand_passages(store: Store) -> None:
    passages = [f"passage {word(number)} of {word(number % 100)}" for number in range(10_000)]
    store.put(BOOK, [note("big", *passages, title="Big")])
    assert [(hit.id, hit.place) for hit in ask(store, f"{word(7777)} {word(77)}")] == [("big", 7777)]
    store.put(BOOK, [note("big", *passages[1:], "kippers", title="Big", version="2")])
    assert store.progress() == {BOOK: Progress(1, 10_000, 0)}
    assert [(hit.id, hit.place) for hit in ask(store, f"{word(7777)} {word(77)}")] == [("big", 7776)]


# --- at the same time


def test_only_one_has_the_turn(open_store: Callable[[], Store]) -> None:
    one, two = open_store(), open_store()
    with one.turn() as first, two.turn() as second:
        assert (first, second) == (True, False)
    with two.turn() as again:
        assert again


def test_the_turn_of_a_killed_process_is_free(place: Place, store: Store) -> None:
    with start(place, "hold") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has the turn\n"
        with store.turn() as has_turn:
            assert not has_turn
        holder.kill()
        holder.wait(30)
    for _ in range(100):  # a server takes a moment to notice
        with store.turn() as has_turn:
            if has_turn:
                return
        threading.Event().wait(0.05)
    pytest.fail("nobody has the turn")


def test_what_another_store_puts_in_is_found_at_once(open_store: Callable[[], Store]) -> None:
    one, two = open_store(), open_store()
    one.use_model(MODEL, DIMENSIONS)
    one.put(BOOK, others())
    for text in ("marmalade", "porridge", "kippers"):
        one.put(BOOK, [note("a", text)])
        embed_all(one)
        assert ids(ask(two, text)) == ids(ask_meaning(two, vector_of(text))) == ["a"]
        one.remove(BOOK, ["a"])
        assert ask(two, text) == ask_meaning(two, vector_of(text)) == []


def check_contended(store: Store, documents: int) -> None:
    """Whoever came last: what is found of each document is what its version says."""
    versions = store.versions(BOOK)
    assert versions.keys() == {f"doc-{number}" for number in range(documents)} | {each.id for each in others()}
    expected = Model()
    expected.put(BOOK, [contended(number, int(versions[f"doc-{number}"])) for number in range(documents)])
    expected.put(BOOK, others())
    assert store.progress() == expected.progress()
    assert {each.hash for each in store.pending(10_000)} == expected.pending().keys()
    for number in range(documents):
        text = contended(number, int(versions[f"doc-{number}"])).passages[0].text
        assert [(hit.id, hit.passage.text) for hit in ask(store, text.split()[0])] == [(f"doc-{number}", text)]


def test_threads_put_at_the_same_time(filled: Store) -> None:
    filled.use_model(MODEL, DIMENSIONS)
    failed: list[BaseException] = []

    def put(seed: int) -> None:
        try:
            for document in contending(seed, documents=5, times=15):
                filled.put(BOOK, [document])
                ask(filled, "passage1")
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=put, args=(seed,)) for seed in range(3)]
    filled.put(BOOK, [contended(number, 0) for number in range(5)])
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    check_contended(filled, 5)


def test_processes_put_at_the_same_time(place: Place, filled: Store) -> None:
    filled.put(BOOK, [contended(number, 0) for number in range(5)])
    processes = [start(place, "put", seed, 5, 15) for seed in range(3)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    check_contended(filled, 5)


def test_processes_open_a_new_index_at_the_same_time(place: Place, open_store: Callable[[], Store]) -> None:
    processes = [start(place, "put", seed, 3, 3) for seed in range(3)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert open_store().versions(BOOK)


# --- against a model


VOCABULARY = [f"text {number}" for number in range(40)]


def random_document(chance: random.Random) -> Document:
    texts = chance.choices(VOCABULARY, k=chance.choice([0, 1, 1, 2, 3, 5]))
    return note(
        f"d{chance.randrange(12)}",
        *texts,
        title=chance.choice(["", "T", "U"]),
        version=str(chance.randrange(10**6)),
        newness=chance.randrange(5),
        filters={"kind": chance.choice("ab")} if chance.random() < 0.8 else {},
    )


def test_any_operations_lead_to_what_a_plain_model_says(open_store: Callable[[], Store]) -> None:
    chance = random.Random(1)
    stores, model = [open_store(), open_store()], Model()
    stores[0].use_model(MODEL, DIMENSIONS)
    model.use_model(MODEL)
    for _ in range(200):
        store = chance.choice(stores)
        collection = chance.choice(["one", "two"])
        operation = chance.choices(["put", "remove", "embed", "clear", "model"], [50, 15, 30, 1, 2])[0]
        if operation == "put":
            documents = [random_document(chance) for _ in range(chance.randrange(1, 5))]
            assert store.put(collection, documents) == model.put(collection, documents)
        elif operation == "remove":
            gone = [f"d{chance.randrange(12)}" for _ in range(2)]
            store.remove(collection, gone)
            model.remove(collection, gone)
        elif operation == "embed":
            batch = store.pending(chance.randrange(1, 20))
            vectors = {each.hash: vector_of(each.text) for each in batch}
            store.embed(model.model, list(vectors), np.array(list(vectors.values())).reshape(-1, DIMENSIONS))
            model.vectors |= vectors
        elif operation == "clear":
            store.clear()
            model.clear()
        else:
            name = chance.choice([MODEL, "tests/other"])
            store.use_model(name, DIMENSIONS)
            model.use_model(name)
        check(chance.choice(stores), model, chance)


def check(store: Store, model: Model, chance: random.Random) -> None:
    for collection in ("one", "two"):
        assert store.versions(collection) == model.versions(collection)
    assert store.progress() == model.progress()
    newness = model.pending()
    pending = [each.hash for each in store.pending(10_000)]
    assert sorted(pending) == sorted(newness)
    assert all(newness[one] >= newness[two] for one, two in pairwise(pending))
    vector = unit(np.sum([vector_of(title + chance.choice(VOCABULARY)) for title in ("", "T\n", "U\n")], axis=0))
    filters = chance.choice([{}, {"kind": ["a"]}, {"kind": ["b", "c"]}])
    for collection in ("one", "two"):
        query = Query("?", model.model, vector)
        scores = [hit.score for hit in store.search(collection, query, filters=filters, limit=10).hits]
        expected = model.nearest(collection, vector, filters, 10)
        scores, expected = ([each for each in some if each > LEAST + ROUNDING] for some in (scores, expected))
        assert scores == pytest.approx(expected, abs=ROUNDING)


def test_the_hash_of_a_passage_is_that_of_what_is_embedded(store: Store) -> None:
    store.put(BOOK, [note("a", Passage("text", label="label"), title="title")])
    store.use_model(MODEL, DIMENSIONS)
    assert store.pending(1) == [(hash_of("title", Passage("text", "label")), "title\nlabel\ntext")]
