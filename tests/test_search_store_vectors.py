"""Meaning in an index wherever it is kept, and what hostile input does to it."""

from collections.abc import Callable

import numpy as np
import pytest

from carrel.search.documents import Passage, Progress
from carrel.search.index_store import ModelChanged, Query, Store
from carrel.search.ranking import MEANING
from tests.search_store_fixtures import ROUNDING, filled, open_store, place, store
from tests.search_stores import (
    BOOK,
    DIMENSIONS,
    MODEL,
    OTHERS,
    ask,
    ask_meaning,
    embed_all,
    ids,
    note,
    vector_of,
    word,
)

__all__ = ["filled", "open_store", "place", "store"]

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
