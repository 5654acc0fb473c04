"""Sets of rows: short texts together, and within dates, are counted by them; without them the answers are the same."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.content import row_set_making
from carrel.content.performance import PerformanceRepository
from carrel.content.row_sets import BLOCK, Dates, packed, packed_dates, unpacked, within
from carrel.workspace import find_workspace
from tests.bundles import Store, uid
from tests.content_desks import CALLER
from tests.program import run_carrel_here
from tests.row_sets import kept_sets, looked_up_sets, pieces

pytestmark = pytest.mark.anyio

REEF = uid(1)
WORDS = ("coral", "an anemone", "Anglerfish", "sand \N{LATIN SMALL LETTER E WITH ACUTE}", "z", "")
DAYS = (5, 6, 7)
NEEDLES: list[dict[str, Any]] = [
    {"query": "an"},
    {"query": "z"},
    {"query": "an", "pageUrl": "an"},
    {"query": "N", "pageUrl": "/"},
    {"query": "ora", "pageUrl": "z"},
    {"pageUrl": "qq", "query": "an"},
]
WITHIN: list[dict[str, Any]] = [
    {},
    {"dateStart": "2025-03-06"},
    {"dateEnd": "2025-03-06"},
    {"dateStart": "2025-03-06", "dateEnd": "2025-03-07"},
    {"dateStart": "2026-01-01"},
]
PAGES: list[dict[str, Any]] = [{}, {"page": 3, "limit": 7}, {"page": 90}]
ASKED = [needles | dates | page for needles, dates, page in product(NEEDLES, WITHIN, PAGES)]


def record(number: int, query: str, page: str, day: int) -> dict[str, Any]:
    return {
        "id": uid(10_000 + number),
        "projectId": REEF,
        "query": query,
        "pageUrl": f"https://reef.example/{page}",
        "impressions": 10,
        "clicks": 1,
        "ctr": 0.1,
        "avgPosition": 2.0,
        "dateStart": f"2025-03-{day:02}T00:00:00.000Z",
        "dateEnd": f"2025-03-{day + number % 2:02}T00:00:00.000Z",
    }


def rows() -> list[dict[str, Any]]:
    asked = product(DAYS, WORDS, WORDS)
    return [record(number, f"{query} {number % 7}", page, day) for number, (day, query, page) in enumerate(asked)]


@pytest.fixture
def store(ready_url: str, tmp_path: Path) -> Store:
    """Rows in two blocks of keys."""
    store = Store(ready_url, tmp_path)
    project = {"id": REEF, "slug": "reef", "name": "Reef"}
    store.load({"projects": [project], "searchPerformance": [record(9999, "first", "first", 1)]})
    if ready_url.startswith("sqlite"):
        store.query(f"UPDATE sqlite_sequence SET seq = {BLOCK - 50} WHERE name = 'search_performance'")
    else:
        store.query(f"SELECT setval(pg_get_serial_sequence('search_performance', 'pk'), {BLOCK - 50})")
    store.load({"searchPerformance": rows()})
    return store


async def answers(store: Store) -> list[str]:
    settings = {"database": {"url": store.url}, "server": {"toolsets": ["bridge"]}}
    async with find_workspace(store.folder, settings, {}).open() as desk:
        pipeline = desk.pipeline("bridge")
        found = [await pipeline.call("list_search_performance", {"projectId": REEF, **each}, CALLER) for each in ASKED]
    assert not any(each.is_error for each in found)
    return [each.text for each in found]


def forget(store: Store, where: str = "TRUE") -> None:
    store.query(f"DELETE FROM search_performance_gram WHERE {where}")
    store.query(f"DELETE FROM search_performance_block WHERE {where.replace('block', 'number')}")


@pytest.mark.rule("content.tally.sets")
async def test_answers_are_the_same_with_the_sets_and_without(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(PerformanceRepository, "_rows_by_all")  # no row is looked at to be counted
        found = await answers(store)
    assert len(set(found)) > 25
    forget(store)
    assert await answers(store) == found


@pytest.mark.rule("content.tally.sets")
def test_sets_that_are_missing_are_made_by_the_next_write(store: Store) -> None:
    assert kept_sets(store) == looked_up_sets(store)
    forget(store, "block = 0")
    store.load({"searchPerformance": [record(0, "quite another", "page", 9)]})
    assert kept_sets(store) == looked_up_sets(store)


@pytest.mark.rule("content.tally.sets")
def test_sets_that_are_missing_are_made_by_an_upgrade_and_a_restore(store: Store) -> None:
    def run(*words: str) -> None:
        done = run_carrel_here("db", *words, cwd=store.folder, CARREL_DATABASE_URL=store.url)
        assert done.returncode == 0, done

    forget(store)
    run("upgrade")
    assert kept_sets(store) == looked_up_sets(store)
    run("backup", "all.gz")
    run("restore", "--replace", "all.gz")
    assert kept_sets(store) == looked_up_sets(store) != {}


@given(st.dictionaries(st.integers(0, BLOCK - 1), st.text(max_size=12), max_size=20))
def test_every_text_is_taken_apart(texts: dict[int, str]) -> None:
    expected: dict[str, list[int]] = {}
    for offset in sorted(texts):
        for piece in pieces(texts[offset]):
            expected.setdefault(piece, []).append(offset)
    found = [(gram, holders.tolist()) for gram, holders in row_set_making.grams(list(texts), list(texts.values()))]
    assert len(found) == len(expected)
    assert dict(found) == expected


@pytest.mark.parametrize("size", [0, 1, BLOCK // 16 - 1, BLOCK // 16, BLOCK])
def test_a_set_is_the_same_after_it_was_kept(size: int) -> None:
    offsets = np.sort(np.random.default_rng(1).permutation(BLOCK)[:size])
    data = packed(offsets)
    assert len(data) <= BLOCK // 8
    assert np.flatnonzero(np.unpackbits(unpacked(data), bitorder="little")).tolist() == offsets.tolist()


TIME = st.integers(-3, 3)
BOUND = st.none() | TIME


@given(
    st.dictionaries(st.integers(0, BLOCK - 1), st.tuples(TIME, TIME), min_size=1),
    BOUND,
    BOUND,
)
def test_dates_choose_what_starts_and_ends_within(
    dates: dict[int, tuple[int, int]], earliest: int | None, latest: int | None
) -> None:
    found = within(packed_dates(dates), Dates(earliest, latest))
    assert set(np.flatnonzero(np.unpackbits(found, bitorder="little")).tolist()) == {
        offset
        for offset, (start, end) in dates.items()
        if (earliest is None or start >= earliest) and (latest is None or end <= latest)
    }
