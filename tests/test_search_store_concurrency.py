"""An index that several use at the same time, and any operations against a plain model."""

import random
import threading
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from carrel.search.documents import Document, Passage
from carrel.search.index_store import Query, Store, hash_of
from tests.search_store_fixtures import ROUNDING, filled, open_store, place, start, store
from tests.search_stores import (
    BOOK,
    DIMENSIONS,
    LEAST,
    MODEL,
    Model,
    Place,
    ask,
    ask_meaning,
    contended,
    contending,
    embed_all,
    ids,
    note,
    others,
    unit,
    vector_of,
)

__all__ = ["filled", "open_store", "place", "store"]

# --- at the same time


def test_only_one_has_the_turn(open_store: Callable[[], Store]) -> None:
    one, two = open_store(), open_store()
    with one.work_lock() as first, two.work_lock() as second:
        assert (first, second) == (True, False)
    with two.work_lock() as again:
        assert again


def test_the_turn_of_a_killed_process_is_free(place: Place, store: Store) -> None:
    with start(place, "hold") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has the lock\n"
        with store.work_lock() as has_lock:
            assert not has_lock
        holder.kill()
        holder.wait(30)
    for _ in range(100):  # a server takes a moment to notice
        with store.work_lock() as has_lock:
            if has_lock:
                return
        threading.Event().wait(0.05)
    pytest.fail("nobody has the lock")


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
