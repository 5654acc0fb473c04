"""Sets of rows: what many rows may hold is counted by them; without them the answers are the same."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.content.bit_sets import SMALL, lines_of, offsets_of, packed, packed_dates, unpacked, within
from carrel.content.page import Page
from carrel.content.pieces import AT_ONCE, LONGEST, pieces
from carrel.content.row_set_asking import page_by_sets
from carrel.content.row_sets import BY_TABLE, SHORT, Dates
from carrel.content.times import DAY
from carrel.storage.database import Row
from carrel.workspace import find_workspace
from tests.bundles import Store, uid
from tests.content_desks import CALLER
from tests.program import run_carrel_here
from tests.row_sets import check_sets, make_small

pytestmark = [pytest.mark.anyio, pytest.mark.no_cover]  # coverage makes it several times slower, and it adds none

REEF = uid(1)
WORDS = ("coral", "an anemone", "Anglerfish", "sand \N{LATIN SMALL LETTER E WITH ACUTE}", "z", "")
DAYS = (5, 6, 7)
TEXTS: list[dict[str, Any]] = [
    {"query": "an"},
    {"query": "z"},
    {"query": "an", "pageUrl": "an"},
    {"query": "N", "pageUrl": "/"},
    {"query": "ora", "pageUrl": "z"},
    {"pageUrl": "qq", "query": "an"},
    {"pageUrl": "https://reef.example/"},
    {"pageUrl": "https://reef.example/Anglerfish", "query": "coral 1"},
    {"pageUrl": "reef.example/sand", "query": "oral"},
    {"query": "an anemone "},
    {"query": "anemon 1"},
    {"query": "coral 3"},
    {"query": "emone 2", "pageUrl": "example/coral"},
]
WITHIN: list[dict[str, Any]] = [
    {},
    {"dateStart": "2025-03-06"},
    {"dateEnd": "2025-03-06"},
    {"dateStart": "2025-03-06", "dateEnd": "2025-03-07"},
    {"dateStart": "2026-01-01"},
    {"dateEnd": "2025-03-03"},
]
PAGES: list[dict[str, Any]] = [{}, {"page": 3, "limit": 7}, {"page": 90}]
TOPICS: list[dict[str, Any]] = [
    {"topicTag": "an"},
    {"topicTag": "Anglerfish"},
    {"topicTag": "an anem", "claimType": "statistic"},
    {"topicTag": "coral 1", "verifiedUntilAfter": "2027-03-06"},
    {"topicTag": "an", "verifiedUntilAfter": "2027-01-01"},
    {"topicTag": "coral", "verifiedUntilBefore": "2028-01-01"},
    {"topicTag": "a", "verifiedUntilBefore": "2027-03-05", "claimType": "definition"},
]
NAMES: list[dict[str, Any]] = [
    {"search": "coral"},
    {"search": "anemone ", "status": "draft"},
    {"search": "Anglerfish", "entityType": "concept", "conceptKind": "model"},
    {"search": "Guide-", "status": "published"},
]
ASKED = [
    *(("list_search_performance", texts | dates | page) for texts, dates, page in product(TEXTS, WITHIN, PAGES)),
    *(("list_quotable_blocks", topic | page) for topic, page in product(TOPICS, PAGES)),
    *(("search_entities", name | page) for name, page in product(NAMES, PAGES)),
]


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


def entities() -> list[dict[str, Any]]:
    return [
        {
            "id": uid(20_000 + number),
            "projectId": REEF,
            "entityType": ("guide", "concept")[number % 2],
            "conceptKind": (None, "model", None, "standard")[number % 4],
            "status": ("draft", "published", "archived")[number % 3],
            "title": f"{word} {number}",
            "slug": f"guide-{number}",
            "summary": f"About {word}" if number % 5 else None,
            "createdAt": f"2026-01-{number * 11 % 28 + 1:02}T00:00:00.000Z",
        }
        for number, word in enumerate(WORDS * 20)
    ]


def blocks() -> list[dict[str, Any]]:
    return [
        {
            "id": uid(30_000 + number),
            "projectId": REEF,
            "entityId": uid(20_000 + number),
            "text": " ".join(["word"] * 30),
            "claimType": ("statistic", "definition")[number % 2],
            "topicTag": f"{word} {number % 7}" if number % 5 else None,
            "verifiedUntil": f"2027-03-{number % 9 + 1:02}" if number % 3 else None,
            "createdAt": f"2026-01-{number * 11 % 28 + 1:02}T00:00:00.000Z",
        }
        for number, word in enumerate(WORDS * 20)
    ]


@pytest.fixture
def small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


@pytest.fixture
def store(ready_url: str, tmp_path: Path, small_sets: None) -> Store:
    """Rows in several blocks of keys, some of them noted to have changed."""
    store = Store(ready_url, tmp_path)
    project = {"id": REEF, "slug": "reef", "name": "Reef"}
    everything = {"entities": entities(), "searchPerformance": rows(), "quotableBlocks": blocks()}
    store.load({"projects": [project], **everything})
    changed = {kind: [every | {"projectId": REEF} for every in found[3::50]] for kind, found in everything.items()}
    for each in changed["entities"]:
        each["title"] = f"coral now, {each['title']}"
    for each in changed["searchPerformance"]:
        each["query"] = f"an anemone {each['query']}"
        each["dateStart"] = each["dateEnd"] = "2025-03-02"
    for each in changed["quotableBlocks"]:
        each["topicTag"] = "Anglerfish"
        each["verifiedUntil"] = "2027-03-07"
    store.load(changed)
    return store


async def answers(store: Store) -> list[str]:
    settings = {"database": {"url": store.url}, "server": {"toolsets": ["bridge"]}}
    async with find_workspace(store.folder, settings, {}).open() as desk:
        pipeline = desk.pipeline("bridge")
        found = [await pipeline.call(tool, {"projectId": REEF, **each}, CALLER) for tool, each in ASKED]
    assert not any(each.is_error for each in found)
    return [each.text for each in found]


def forget(store: Store, where: str = "TRUE") -> None:
    for sets in BY_TABLE.values():
        store.query(f"DELETE FROM {sets.grams} WHERE {where}")
        store.query(f"DELETE FROM {sets.blocks} WHERE {where.replace('block', 'number')}")


@pytest.mark.rule("content.tally.sets")
async def test_answers_are_the_same_with_the_sets_and_without(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    by_sets: list[Page[Row] | None] = []

    async def noting(*asked: Any) -> Page[Row] | None:
        by_sets.append(await page_by_sets(*asked))
        return by_sets[-1]

    monkeypatch.setattr("carrel.content.row_set_asking.page_by_sets", noting)
    found = await answers(store)
    assert None not in by_sets
    assert len(by_sets) > 0.8 * len(ASKED)
    assert len(set(found)) > 70
    forget(store)
    assert await answers(store) == found


@pytest.mark.rule("content.tally.sets")
def test_a_few_rows_that_change_are_noted_and_many_are_looked_through_anew(store: Store) -> None:
    keys = dict(store.query("SELECT id, pk FROM search_performance"))
    unchanged = [(number, row) for number, row in enumerate(rows()) if number % 50 != 3]
    size = BY_TABLE["search_performance"].keys
    block = keys[unchanged[0][1]["id"]] // size
    mine = [number for number, row in unchanged if keys[row["id"]] // size == block]

    def noted() -> int:
        ((changed,),) = store.query(f"SELECT changed FROM search_performance_block WHERE number = {block}")
        return len(offsets_of(unpacked(changed or b"", BY_TABLE["search_performance"].keys)))

    for number in mine[: 5 - noted()]:
        expected = (noted() + 1) % 5  # as many as `make_small` lets be noted
        store.load({"searchPerformance": [record(number, f"quite another {number}", "page", 9)]})
        assert noted() == expected
        check_sets(store)
    assert noted() == 0
    store.load({"searchPerformance": [record(number, f"anew {number}", "page", 9) for number in mine]})
    assert noted() == 0
    check_sets(store)


@pytest.mark.rule("content.tally.sets")
def test_a_row_that_comes_into_a_block_is_noted(store: Store) -> None:
    def changed() -> list[bytes | None]:
        return [data for (data,) in store.query("SELECT changed FROM search_performance_block ORDER BY number")]

    store.load({"searchPerformance": [record(number, f"anew {number}", "page", 9) for number in range(1000, 1010)]})
    before = changed()
    assert before[-1] is None
    store.load({"searchPerformance": [record(1010, "one more", "page", 9)]})
    after = changed()
    assert after[:-1] == before[:-1]
    assert after[-1] is not None
    check_sets(store)


@pytest.mark.rule("content.tally.sets")
def test_sets_that_are_missing_are_made_by_the_next_write(store: Store) -> None:
    check_sets(store)
    forget(store, "block = 1")
    store.load({"searchPerformance": [record(0, "quite another", "page", 9)]})
    store.load({"entities": [entities()[0] | {"title": "Quite another"}]})
    store.load({"quotableBlocks": [blocks()[0] | {"topicTag": "Quite another"}]})
    check_sets(store)


@pytest.mark.rule("content.tally.sets")
def test_sets_that_are_missing_are_made_by_an_upgrade_and_a_restore(store: Store) -> None:
    def run(*words: str) -> None:
        done = run_carrel_here("db", *words, cwd=store.folder, CARREL_DATABASE_URL=store.url)
        assert done.returncode == 0, done

    def has_sets() -> bool:
        return all(store.query(f"SELECT * FROM {sets.blocks}") for sets in BY_TABLE.values())

    forget(store)
    run("upgrade")
    assert has_sets()
    check_sets(store)
    run("backup", "all.gz")
    run("restore", "--replace", "all.gz")
    assert has_sets()
    check_sets(store)


@pytest.mark.rule("content.tally.sets")
async def test_texts_that_are_too_long_to_take_apart_are_looked_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await answers(store)
    monkeypatch.setattr("carrel.content.row_set_making.MOST_CHARACTERS", 50)
    forget(store)
    done = run_carrel_here("db", "upgrade", cwd=store.folder, CARREL_DATABASE_URL=store.url)
    assert done.returncode == 0, done
    assert [store.query(f"SELECT * FROM {sets.blocks}") for sets in BY_TABLE.values()] == [[], [], []]
    assert await answers(store) == found
    store.load({"entities": [entities()[0] | {"title": "Quite another"}]})
    assert store.query("SELECT * FROM entity_block") == []


# --- taking texts apart


def substrings(text: str) -> Iterator[str]:
    return (text[start:end] for start in range(len(text)) for end in range(start + 1, len(text) + 1))


@given(
    st.dictionaries(st.text("ab\0\n\U0010ffff", max_size=9) | st.text(max_size=12), st.integers(1, 3), max_size=12),
    st.integers(1, 6),
    st.sampled_from([1, 5, AT_ONCE]),
)
def test_who_holds_a_text_is_told_by_what_begins_with_it(texts: dict[str, int], many: int, at_once: int) -> None:
    with patch("carrel.content.pieces.AT_ONCE", at_once):
        told = list(pieces(list(texts), list(texts.values()), many))
    found = {piece: holders.tolist() for piece, holders in told}
    assert len(found) == len(told)
    held = {piece for text in texts for piece in substrings(text)}
    assert {piece for piece in found if len(piece) <= SHORT} == {piece for piece in held if len(piece) <= SHORT}
    for piece in held:
        holders = [number for number, text in enumerate(texts) if piece in text]
        first = min((each for each in found if each >= piece), default="")
        if len(piece) <= SHORT:
            assert found[piece] == holders
        elif sum(list(texts.values())[number] for number in holders) < many:
            assert not first.startswith(piece)
        else:
            assert first.startswith(piece)
            assert found[first] == holders


def test_a_text_that_is_longer_than_an_index_takes_is_told_as_far_as_that() -> None:
    text = "".join(chr(0x400 + number) for number in range(2 * LONGEST))
    found = dict(pieces([text, text[1:]], [1, 1], 2))
    assert max(map(len, found)) == LONGEST
    assert found[text[1 : LONGEST + 1]].tolist() == [0, 1]


# --- how they are kept

BLOCK = 2**14


@pytest.mark.parametrize("size", [0, 1, BLOCK // 16 - 1, BLOCK // 16, BLOCK])
def test_a_set_is_the_same_after_it_was_kept(size: int) -> None:
    offsets = np.sort(np.random.default_rng(1).permutation(BLOCK)[:size])
    data = packed(offsets, BLOCK)
    assert len(data) <= BLOCK // 8
    assert offsets_of(unpacked(data, BLOCK)).tolist() == offsets.tolist()


def test_sets_of_blocks_are_the_same_one_below_the_other() -> None:
    """Those of a few offsets, of more, and of bits; and none."""
    sizes = (0, 3, SMALL // 2, SMALL // 2 + 1, BLOCK // 16 - 1, BLOCK // 16, BLOCK)
    offsets = [np.sort(np.random.default_rng(size).permutation(BLOCK)[:size]) for size in sizes]
    lines = lines_of([None, *(packed(each, BLOCK) for each in offsets)], BLOCK)
    assert [offsets_of(line).tolist() for line in lines] == [[], *(each.tolist() for each in offsets)]


TIME = st.integers(-3, 3).map(lambda day: day * DAY) | st.integers(-3 * DAY, 3 * DAY)
BOUND = st.none() | TIME | st.integers(-3, 3).map(lambda day: day * DAY - 1)


FEW = 16
PERIOD = st.none() | st.tuples(TIME, TIME)


@given(
    st.dictionaries(st.integers(0, FEW - 1), PERIOD, min_size=1) | st.lists(PERIOD, min_size=FEW, max_size=FEW),
    BOUND,
    BOUND,
)
def test_dates_choose_what_starts_and_ends_within(
    dates: dict[int, tuple[int, int] | None] | list[tuple[int, int] | None], earliest: int | None, latest: int | None
) -> None:
    """Of a block in which some rows or all are there."""
    periods = dict(sorted(dates.items())) if isinstance(dates, dict) else dict(enumerate(dates))
    present = packed(np.array(list(periods), np.int64), FEW) if isinstance(dates, dict) else None
    asked = Dates(earliest, latest)
    sure, likely = (
        set(offsets_of(found).tolist()) for found in within(packed_dates([*periods.values()]), present, asked, FEW)
    )
    fitting = {
        offset
        for offset, period in periods.items()
        if period is not None
        and (earliest is None or period[0] >= earliest)
        and (latest is None or period[1] <= latest)
    }
    assert sure <= fitting <= likely
    if (0 if earliest is None else earliest) % DAY == 0 and (0 if latest is None else latest + 1) % DAY == 0:
        assert sure == likely


def test_of_a_day_that_is_within_in_part_nothing_is_sure() -> None:
    data = packed_dates([(0, 0), (DAY, DAY), (2 * DAY, 2 * DAY)])
    sure, likely = within(data, packed(np.arange(3), FEW), Dates(1, 2 * DAY), FEW)
    assert (offsets_of(sure).tolist(), offsets_of(likely).tolist()) == ([1], [0, 1, 2])
