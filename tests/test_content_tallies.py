"""Tallies and sets of rows are what counting would give, whatever was added, changed or removed before."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from carrel.content import grams
from tests.bundles import Store, block, small
from tests.program import run_carrel_here
from tests.reference.changes import change
from tests.reference.generate import generate
from tests.row_sets import check_sets, make_small, pieces

TALLIED = {
    "entity_tally": "SELECT project_pk, entity_type, status, coalesce(concept_kind, '') FROM entity",
    "search_performance_tally": "SELECT project_pk, date_start, date_end FROM search_performance",
    "quotable_block_tally": "SELECT project_pk, topic_fold, claim_type FROM quotable_block",
}
DAY = 24 * 60 * 60 * 1000
FIRST_DAY = -719_162  # of the calendar, from 1970


@pytest.fixture
def store(ready_url: str, tmp_path: Path) -> Store:
    return Store(ready_url, tmp_path)


def kept(store: Store, table: str) -> Counter[Any]:
    rows = store.query(f"SELECT * FROM {table}")
    assert all(row[-1] > 0 for row in rows), "nothing is kept of what is not there"
    return Counter({tuple(row[:-1]): row[-1] for row in rows})


def tallied(*texts: str | None) -> set[str]:
    return pieces(*texts, longest=grams.LONGEST_TALLIED)


def counted_grams(store: Store) -> Counter[Any]:
    counted: Counter[Any] = Counter()
    for project, *sort, head, summary in store.query(
        "SELECT project_pk, entity_type, status, coalesce(concept_kind, ''), head_fold, summary_fold FROM entity"
    ):
        counted.update((project, f"head{len(each)}", each, *sort) for each in tallied(head))
        counted.update((project, f"all{len(each)}", each, *sort) for each in tallied(head, summary))
    for project, query, page in store.query("SELECT project_pk, query_fold, page_url_fold FROM search_performance"):
        counted.update((project, f"query{len(each)}", each, "", "", "") for each in tallied(query))
        counted.update((project, f"page{len(each)}", each, "", "", "") for each in tallied(page))
    return counted


def check(store: Store) -> None:
    for table, rows in TALLIED.items():
        assert kept(store, table) == Counter(map(tuple, store.query(rows)))
    expiring = store.query("SELECT project_pk, verified_until, claim_type FROM quotable_block")
    days = Counter((row[0], row[1] // DAY - FIRST_DAY, row[2]) for row in expiring if row[1] is not None)
    assert kept(store, "quotable_block_expiry_tally") == days
    assert kept(store, "gram_tally") == counted_grams(store)
    check_sets(store)


@pytest.mark.no_cover  # coverage makes it several times slower, and it adds none
@pytest.mark.parametrize("way", ["at once", "in pieces", "in many blocks"])
def test_tallies_follow_an_import_and_another_over_it(store: Store, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "in pieces":
        monkeypatch.setattr(grams, "MOST_COUNTED", 50)
        monkeypatch.setattr("carrel.content.pieces.AT_ONCE", 50)
    if way == "in many blocks":
        make_small(monkeypatch)
    bundle = generate(7)
    store.load(bundle)
    check(store)
    store.load(change(bundle, 8))
    check(store)


def test_tallies_follow_what_is_written_and_removed_by_hand(store: Store) -> None:
    def run(*words: str) -> None:
        done = run_carrel_here("content", *words, cwd=store.folder, CARREL_DATABASE_URL=store.url)
        assert done.returncode == 0, done

    store.load(small())
    store.load({"quotableBlocks": [block("guide:intro", topicTag="Goes with its guide")]})
    run("edit", "guide:intro", "--project", "reef", "--title", "Quite another", "--status", "archived")
    check(store)
    for kind in ("quotable_block", "search_performance", "entity"):
        ((found,),) = store.query(f"SELECT min(id) FROM {kind}")
        run("remove", found, "--yes")
        check(store)
    assert store.query("SELECT * FROM quotable_block") == []
    ((found,),) = store.query("SELECT id FROM project")
    run("remove", found, "--yes")
    check(store)
    assert store.query("SELECT * FROM gram_tally") == []
