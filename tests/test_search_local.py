"""What only an index in files has: files that are old, damaged, behind or in use by a process that was killed."""

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tantivy import Index

from carrel.errors import StoreError
from carrel.search.documents import Progress
from carrel.search.local import local_store as local
from carrel.search.local.local_store import LocalStore
from carrel.search.local.vectors import Row, Vectors
from tests.search_stores import (
    BOOK,
    DIMENSIONS,
    MODEL,
    OTHERS,
    ROOT,
    ask,
    ask_meaning,
    embed_all,
    ids,
    killed_batch,
    note,
    others,
    unit,
    vector_of,
    word,
)

KILLS = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def store(folder: Path) -> Iterator[LocalStore]:
    store = LocalStore(folder)
    store.use_model(MODEL, DIMENSIONS)
    store.put(BOOK, [*others(), note("a", "marmalade", "toast"), note("b", "porridge")])
    embed_all(store)
    yield store
    store.close()


def reopened(folder: Path) -> LocalStore:
    """As by the next process."""
    return LocalStore(folder)


def test_a_full_disk_fails_one_write_and_no_other(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, limit = local.index_tables.connect, 1

    def connect_limited(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute(f"PRAGMA max_page_count = {limit}")  # no less than there are
        return connection

    store.close()
    monkeypatch.setattr(local.index_tables, "connect", connect_limited)
    with pytest.raises(StoreError, match="full"):
        store.put(BOOK, [note("c", *(f"kippers {number}" for number in range(2000)))])
    assert "c" not in store.versions(BOOK)
    assert ids(ask(store, "porridge")) == ["b"]
    store.close()
    limit = 2**30
    assert store.put(BOOK, [note("c", "kippers")]) == 1
    assert ids(ask(store, "kippers")) == ["c"]


class FailsToCommit(sqlite3.Connection):
    """Once; a disk can be full at that very moment."""

    failed = False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and not FailsToCommit.failed:
            FailsToCommit.failed = True
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *parameters)


def test_a_commit_that_fails_is_rolled_back(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailsToCommit))
    with pytest.raises(StoreError, match="disk I/O error"):
        store.put(BOOK, [note("c", "kippers")])
    assert "c" not in store.versions(BOOK)
    assert store.put(BOOK, [note("c", "kippers")]) == 1


def test_an_index_that_is_damaged_in_the_middle_says_so_and_can_be_made_again(store: LocalStore, folder: Path) -> None:
    store.close()
    path = folder / "index.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    damaged = reopened(folder)
    with pytest.raises(StoreError, match="damaged: carrel index --rebuild"):
        damaged.put(BOOK, [note("c", "kippers")])
    damaged.clear()
    assert damaged.progress() == {}
    damaged.put(BOOK, [*others(), note("c", "kippers")])
    assert ids(ask(damaged, "kippers")) == ["c"]
    damaged.close()


def check(store: LocalStore, present: list[str], absent: list[str]) -> None:
    for text in present:
        assert len(ask(store, text)) == len(ask_meaning(store, vector_of(text))) == 1, text
    for text in absent:
        assert ask(store, text) == ask_meaning(store, vector_of(text)) == [], text


def test_everything_is_there_when_it_is_opened_again(store: LocalStore, folder: Path) -> None:
    store.close()
    again = reopened(folder)
    check(again, present=["marmalade", "toast", "porridge"], absent=["kippers"])
    assert again.versions(BOOK)["a"] == "1"
    assert again.progress() == {BOOK: Progress(OTHERS + 2, OTHERS + 3, OTHERS + 3)}
    again.use_model(MODEL, DIMENSIONS)
    assert again.pending(10) == []
    again.close()


def test_an_index_of_another_version_is_made_anew(store: LocalStore, folder: Path) -> None:
    store.close()
    with sqlite3.connect(folder / local.FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    check_anew(folder)


@pytest.mark.parametrize("damage", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_index_is_made_anew(store: LocalStore, folder: Path, damage: bytes) -> None:
    store.close()
    (folder / local.FILE).write_bytes(damage)
    check_anew(folder)


def check_anew(folder: Path) -> None:
    again = reopened(folder)
    assert again.progress() == {}
    check(again, present=[], absent=["marmalade"])
    again.use_model(MODEL, DIMENSIONS)
    again.put(BOOK, [*others(), note("c", "kippers")])
    embed_all(again)
    check(again, present=["kippers"], absent=["marmalade"])
    again.close()


# --- the text index


def test_a_text_index_that_is_gone_is_made_again(store: LocalStore, folder: Path) -> None:
    store.close()
    shutil.rmtree(folder / "words")
    again = reopened(folder)
    check(again, present=["marmalade", "toast", "porridge"], absent=["kippers"])
    again.close()


def test_a_damaged_text_index_is_made_again(store: LocalStore, folder: Path) -> None:
    store.close()
    for meta in (folder / "words").rglob("meta.json"):
        meta.write_text("{", "utf-8")
    again = reopened(folder)
    check(again, present=["marmalade", "toast", "porridge"], absent=["kippers"])
    again.close()


def with_older_words(store: LocalStore, folder: Path) -> LocalStore:
    """The tables as they are after some changes, the text index as it was before."""
    shutil.copytree(folder / "words", folder.with_name("older"))
    store.put(BOOK, [note("a", "marmalade", version="2"), note("c", "kippers")])
    store.remove(BOOK, ["b"])
    embed_all(store)
    store.close()
    shutil.rmtree(folder / "words")
    folder.with_name("older").rename(folder / "words")
    return reopened(folder)


def test_a_text_index_that_is_behind_catches_up(store: LocalStore, folder: Path) -> None:
    again = with_older_words(store, folder)
    check(again, present=["marmalade", "kippers"], absent=["toast", "porridge"])
    again.close()


def test_a_text_index_that_is_far_behind_catches_up_with_the_next_put(
    store: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_QUERY_UPDATE_PASSAGES", 0)
    again = with_older_words(store, folder)
    assert ask(again, "kippers") == []  # no query waits for so much
    assert again.put(BOOK, [note("c", "kippers")]) == 0
    check(again, present=["marmalade", "kippers"], absent=["toast", "porridge"])
    again.close()


def test_who_is_behind_by_more_removals_than_are_remembered_begins_anew(
    store: LocalStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_REMOVAL_ROWS", 3)
    best = vector_of("eggs")
    many = [note(f"n{number}", f"eggs {word(number)}") for number in range(100)]  # more than are looked at
    store.put(BOOK, [*many, note("last", "eggs at last")])
    batch = store.pending(200)
    matrix = [unit(best + vector_of(each.text)) if each.text == "eggs at last" else best for each in batch]
    store.embed(MODEL, [each.hash for each in batch], np.stack(matrix))
    follower = reopened(folder)
    assert set(ids(ask_meaning(follower, best, limit=50))) < {each.id for each in many}  # its vectors are loaded
    shutil.copytree(folder / "words", folder.with_name("oldest"))
    store.remove(BOOK, [each.id for each in many])
    store.put(BOOK, [note("c", "kippers")])
    embed_all(store)
    store.close()
    shutil.rmtree(folder / "words")
    folder.with_name("oldest").rename(folder / "words")
    again = reopened(folder)
    for each in (again, follower):
        assert ids(ask_meaning(each, best)) == ["last"]
        check(each, present=["marmalade", "kippers"], absent=[])
        each.close()
    assert_words_agree(again, folder)
    again.close()


def test_a_document_of_many_passages_leaves_room_for_others(store: LocalStore) -> None:
    best = vector_of("eggs")
    others = [note(f"n{number}", f"{word(number)} at last") for number in range(9)]
    store.put(BOOK, [note("long", *(f"eggs {word(number)}" for number in range(90))), *others])
    batch = store.pending(200)
    matrix = [unit(best + vector_of(each.text)) if each.text.endswith("at last") else best for each in batch]
    store.embed(MODEL, [each.hash for each in batch], np.stack(matrix))
    assert sorted(ids(ask_meaning(store, best))) == sorted(["long", *(each.id for each in others)])


def test_files_of_a_process_that_was_killed_do_not_stand_in_the_way(store: LocalStore, folder: Path) -> None:
    (words,) = (folder / "words").iterdir()
    before = folder.with_name("before")
    shutil.copytree(words, before)
    other = reopened(folder)
    other.remove(BOOK, ["b"])
    other.close()
    # As if the other one had been killed just before the end: its files are there, but nothing says that they count.
    files = (words / ".managed.json").read_bytes()
    shutil.copytree(before, words, dirs_exist_ok=True)
    (words / ".managed.json").write_bytes(files)
    check(store, present=["marmalade"], absent=["porridge"])
    assert_words_agree(store, folder)


def assert_words_agree(store: LocalStore, folder: Path) -> None:
    """As many passages are in the text index as in the tables."""
    (words,) = (folder / "words").iterdir()
    indexed = Index.open(str(words)).searcher().num_docs - 1  # without the one that says how far it is
    assert indexed == store.progress()[BOOK].passages


# --- processes


def start(folder: Path, work: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.search_stores", str(folder), work, *map(str, arguments)]
    return subprocess.Popen(words, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_processes_see_each_others_writes_in_their_next_search(store: LocalStore, folder: Path) -> None:
    with start(folder, "answer") as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for number, text in enumerate(["kippers", "marmalade", "eggs"]):
            store.put(BOOK, [note("a", text, version=f"x{number}")])
            other.stdin.write(f"{text}\n")
            other.stdin.flush()
            assert other.stdout.readline() == "a\n"
        other.stdin.close()


@pytest.mark.timeout(120)
def test_an_index_whose_writer_is_killed_keeps_what_was_acknowledged(folder: Path) -> None:
    store = LocalStore(folder)
    store.put(BOOK, others())
    chance = random.Random(7)
    expected = {each.id: each.version for each in others()}
    number = 0
    for _ in range(KILLS):
        with start(folder, "put for ever", number) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == f"{number}\n"
            threading.Event().wait(chance.uniform(0, 0.1))
            writer.kill()
            said = [number, *map(int, writer.stdout.read().split())]
        for each in said:
            expected |= {document.id: document.version for document in killed_batch(each)[1:]}
        number = said[-1] + 1
        unsaid = {document.id: document.version for document in killed_batch(number)}
        removed = dict(list(unsaid.items())[1:])
        versions = store.versions(BOOK)
        assert versions in (expected, expected | unsaid, expected | removed)
        check_words_agree(store, folder, number)
        store.remove(BOOK, list(unsaid))
    store.close()
    with sqlite3.connect(folder / local.FILE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def check_words_agree(store: LocalStore, folder: Path, number: int) -> None:
    versions = store.versions(BOOK)
    for document in (*killed_batch(number - 1)[:3], *killed_batch(number)[:3]):
        (text, _) = document.passages[0].text.split()
        assert ids(ask(store, text)) == [document.id] * (document.id in versions)
    assert store.progress()[BOOK].passages == OTHERS + 2 * (len(versions) - OTHERS)
    assert_words_agree(store, folder)


# --- vectors


def test_scanning_bytes_finds_what_an_exhaustive_search_finds() -> None:
    chance = np.random.default_rng(3)
    centres = chance.normal(size=(300, 64))

    def clustered(rows: int) -> np.ndarray:
        return unit(centres[chance.integers(0, len(centres), rows)] + 0.6 * chance.normal(size=(rows, 64)))

    matrix = clustered(20_000)
    vectors = Vectors(64)
    for begin in range(0, len(matrix), 3000):
        rows = range(begin, min(begin + 3000, len(matrix)))
        vectors.add([Row(row, {"kind": str(row % 50)}) for row in rows], matrix[rows.start : rows.stop])
    for filters, wanted in (({}, np.arange(20_000)), ({"kind": ["7"]}, np.arange(7, 20_000, 50))):
        queries = clustered(200)
        best = wanted[np.argpartition(-(queries @ matrix[wanted].T), 10, axis=1)[:, :10]]
        found = 0
        for query, expected in zip(queries, best.tolist(), strict=True):
            found += len({*vectors.nearest(query, 64, filters)} & set(expected))
        assert found >= 0.999 * best.size


def test_removed_vectors_are_not_found() -> None:
    vectors = Vectors(16)
    matrix = np.stack([vector_of(str(row), 16) for row in range(100)])
    vectors.add([Row(row, {}) for row in range(100)], matrix)
    vectors.remove(range(10, 20))
    assert {*vectors.nearest(matrix[15], 200, {})} == {*range(10), *range(20, 100)}
    assert len(vectors.nearest(matrix[15], 5, {})) == 5
