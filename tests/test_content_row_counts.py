"""Tallies are what counting would give, whatever was added, changed or removed before."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from carrel.storage.admin import migrate, schema_transaction, upgrade
from carrel.storage.database import locate
from tests.bundles import Store, block, small
from tests.databases import queries
from tests.postgres import recreate_database
from tests.program import run_carrel_here
from tests.reference.changes import change
from tests.reference.generate import generate

TALLIED = {
    "entity_tally": "SELECT project_pk, entity_type, status, coalesce(concept_kind, '') FROM entity",
    "search_performance_tally": "SELECT project_pk, date_start, date_end FROM search_performance",
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


def check(store: Store) -> None:
    for table, rows in TALLIED.items():
        assert kept(store, table) == Counter(map(tuple, store.query(rows)))
    expiring = store.query("SELECT project_pk, verified_until, claim_type FROM quotable_block")
    days = Counter((row[0], -1 if row[1] is None else row[1] // DAY - FIRST_DAY, row[2]) for row in expiring)
    assert kept(store, "quotable_block_expiry_tally") == days


@pytest.mark.rule("content.tally.exact")
def test_tallies_follow_an_import_and_another_over_it(store: Store) -> None:
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
    assert [store.query(f"SELECT * FROM {table}") for table in TALLIED] == [[], []]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_an_upgrade_counts_the_blocks_that_never_expire(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, worker_id: str
) -> None:
    url = "sqlite:///carrel.db"
    if engine == "postgres":
        url = recreate_database(request.getfixturevalue("postgres_server_url"), f"carrel_{worker_id}_tallies")
    location = locate(url, tmp_path)
    with schema_transaction(location) as connection:
        migrate(connection, "0009")
    values = (
        "VALUES ('a', 'statistic', NULL), ('b', 'statistic', NULL), ('c', 'definition', NULL), ('d', 'statistic', 0)"
    )
    queries(
        location,
        "INSERT INTO project (id, slug, name, name_fold, created_at, updated_at) VALUES ('p', 'p', 'p', 'p', 0, 0)",
        """INSERT INTO entity (project_pk, id, entity_type, slug, title, status, created_at, updated_at, title_key,
                               head_fold)
           SELECT pk, 'e', 'guide', 'e', 'e', 'draft', 0, 0, 'e', 'e' FROM project""",
        f"""WITH given (id, claim_type, verified_until) AS ({values})
            INSERT INTO quotable_block (project_pk, entity_pk, id, claim_type, verified_until, text, text_digest,
                                        topic_fold, created_at, updated_at)
            SELECT project_pk, pk, given.id, given.claim_type, given.verified_until, 'x', given.id, given.id, 0, 0
            FROM entity, given""",
    )
    upgrade(location)
    counted = "SELECT verified_day, claim_type, total FROM quotable_block_expiry_tally ORDER BY claim_type"
    assert queries(location, counted) == [[(-1, "definition", 1), (-1, "statistic", 2)]]
