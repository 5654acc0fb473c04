"""Substring search: whatever the needle, and by the indexes that are meant for it."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest

from carrel.content.entities import NEWEST_FIRST, NEWEST_UPDATE_FIRST
from carrel.content.field_types import fold
from carrel.content.page import Window
from carrel.content.performance import PerformanceFilter, PerformanceRepository
from carrel.content.projects import ProjectRepository
from carrel.storage.database import Session
from carrel.storage.schema_version import open_database
from carrel.storage.sql_syntax import MAX_TRIGRAMS, SqliteSyntax
from carrel.storage.sqlite_database import _LoopSession  # pyright: ignore[reportPrivateUsage]  # what it is to run
from carrel.workspace import Desk, find_workspace
from tests.bundles import Store, block, entity, performance, project, uid
from tests.content_desks import CALLER
from tests.databases import prepare_postgres

pytestmark = pytest.mark.anyio

REEF = uid(1)
TEXTS = (
    "Tide table",
    "100% of it",
    "a_b and axb",
    r"back\slash",
    'say "tide" AND NOT "ebb"',
    "it's OR * NEAR(a b)",
    "Straße und STRASSE",
    "Ébbe und Flut",
    "\N{GREEK CAPITAL LETTER SIGMA}\N{GREEK SMALL LETTER FINAL SIGMA}",
    "日本語の干満",
    "tab\tand  blanks",
    "x" * 400,
)
NEEDLES = (
    *TEXTS,
    *(text[1:-1] for text in TEXTS),
    *(text.upper() for text in TEXTS),
    "%",
    "_",
    "\\",
    "a_b",
    "%%%",
    '"',
    '""',
    "'",
    "''';--",
    "AND",
    "head_fold:tide",
    "NEAR(",
    "^",
    "-tide",
    "tide*",
    "{}",
    "İ",
    "ß",
    "本語",
    "語の干",
    " ",
    "   ",
    "e\N{COMBINING ACUTE ACCENT}",
    "Tide" * 25_000,
    "%_\\" * 33_000,
    '"' * 100_000,
)


@pytest.fixture
def store(ready_url: str, tmp_path: Path) -> Store:
    store = Store(ready_url, tmp_path)
    slugs = [f"guide:g{number}" for number in range(len(TEXTS))]
    store.load(
        {
            "projects": [project(id=REEF)],
            "entities": [
                entity(slug, id=uid(100 + number), title=text.replace("\t", " "), summary=TEXTS[number - 1])
                for number, (slug, text) in enumerate(zip(slugs, TEXTS, strict=True))
            ],
            "searchPerformance": [
                performance(text.replace("\t", " "), pageUrl=f"https://reef.example/{number}")
                for number, text in enumerate(TEXTS)
            ],
            "quotableBlocks": [
                block(slug, topicTag=text.replace("\t", " ")[:200]) for slug, text in zip(slugs, TEXTS, strict=True)
            ],
        }
    )
    return store


@pytest.fixture
async def desk(store: Store) -> AsyncIterator[Desk]:
    settings = {"database": {"url": store.url}, "server": {"toolsets": ["catalog", "bridge"]}}
    async with find_workspace(store.folder, settings, {}).open() as desk:
        yield desk


async def total(desk: Desk, toolset: str, tool: str, **arguments: Any) -> int:
    answer = await desk.pipeline(toolset).call(tool, {"projectId": REEF, **arguments}, CALLER)
    assert not answer.is_error, answer.text[:200]
    value = answer.value
    assert isinstance(value, dict)
    return value["totalCount"] if toolset == "catalog" else value["pagination"]["total"]


@pytest.mark.rule("content.substring.hostile")
@pytest.mark.parametrize("few", [0, 2000], ids=["by a scan", "by the index"])
async def test_a_needle_is_found_where_it_is_and_nowhere_else(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("carrel.content.pagination.MAX_CANDIDATE_ROWS", few)
    folded = [fold(text) for text in TEXTS]
    one_line = [fold(text.replace("\t", " ")) for text in TEXTS]
    for needle in NEEDLES:
        inside = fold(needle)
        queries = sum(inside in text for text in one_line)
        found = await total(desk, "bridge", "list_search_performance", query=needle)
        assert found == queries, needle[:50]
        topics = sum(inside in text[:200] for text in one_line)
        assert await total(desk, "bridge", "list_quotable_blocks", topicTag=needle) == topics, needle[:50]
        if 2 <= len(needle) <= 200:
            either = sum(
                inside in f"{title}\x01g{number}" or inside in folded[number - 1]
                for number, title in enumerate(one_line)
            )
            assert await total(desk, "catalog", "search_entities", query=needle) == either, needle[:50]


@pytest.mark.rule("content.substring.hostile")
async def test_a_needle_with_nul_is_in_no_row(desk: Desk) -> None:
    assert await total(desk, "bridge", "list_search_performance", query="\0") == 0
    assert await total(desk, "bridge", "list_search_performance", pageUrl="reef\0") == 0
    assert await total(desk, "bridge", "list_quotable_blocks", topicTag="tide\0") == 0
    assert await total(desk, "bridge", "search_entities", search="tide\0") == 0


@pytest.mark.rule("content.substring.plans")
async def test_sqlite_scans_covering_indexes_and_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is asked, the statements that read more than the rows that are shown."""
    plans: list[str] = []
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load({"projects": [project(id=REEF)]})
    settings = {"database": {"url": store.url}, "server": {"toolsets": ["catalog", "bridge"]}}
    monkeypatch.setattr("carrel.content.pagination.MAX_CANDIDATE_ROWS", -1)
    with closing(connect(tmp_path / "carrel.db")) as connection:

        async def explained(self: Any, sql: str, parameters: Any) -> list[Any]:
            if "found AS MATERIALIZED" in sql:
                plans.extend(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
            return connection.execute(sql, parameters).fetchall()

        monkeypatch.setattr("carrel.storage.sqlite_database._SnapshotSession.all", explained)
        async with find_workspace(store.folder, settings, {}).open() as desk:
            assert await total(desk, "catalog", "search_entities", query="tide") == 0
            assert await total(desk, "bridge", "search_entities", search="tide", entityType="guide") == 0
            assert await total(desk, "bridge", "list_search_performance", query="t", dateStart="2026-01-01") == 0
            assert await total(desk, "bridge", "list_quotable_blocks", topicTag="tide", claimType="statistic") == 0
    tables = ("entity", "search_performance", "quotable_block")
    scans = [plan for plan in plans if plan.split()[1] in tables and "LEFT-JOIN" not in plan]
    assert scans == [
        "SEARCH entity USING INDEX entity_scan (project_pk=?)",
        "SEARCH entity USING INDEX entity_scan (project_pk=? AND entity_type=?)",
        "SEARCH search_performance USING INDEX search_performance_scan (project_pk=? AND date_start>?)",
        "SEARCH quotable_block USING COVERING INDEX quotable_block_by_topic (project_pk=?)",
    ]


@pytest.mark.rule("content.substring.loop")
async def test_sqlite_looks_for_texts_on_no_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trigram index cannot be interrupted while it meets lists of rows that have common trigrams."""
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load({"projects": [project(id=REEF)]})
    on_the_loop: list[str] = []
    quick = _LoopSession.all

    async def noted(self: _LoopSession, sql: str, parameters: Any) -> list[Any]:
        on_the_loop.append(sql)
        return await quick(self, sql, parameters)

    monkeypatch.setattr(_LoopSession, "all", noted)
    settings = {"database": {"url": store.url}, "server": {"toolsets": ["catalog", "bridge"]}}
    async with find_workspace(store.folder, settings, {}).open() as desk:
        assert await total(desk, "catalog", "search_entities", query="tide") == 0
        assert await total(desk, "bridge", "list_search_performance", query="tide") == 0
        assert await total(desk, "bridge", "list_quotable_blocks", topicTag="tide") == 0
    assert on_the_loop, "what finds the project is quick"
    assert [sql for sql in on_the_loop if "_trigrams" in sql or "instr" in sql] == []


@pytest.mark.rule("content.substring.plans")
async def test_postgresql_plans_each_substring_search_for_its_texts(
    postgres_server_url: str, worker_id: str, tmp_path: Path
) -> None:
    """A prepared statement gets one plan for all: it would read a whole trigram index for a text that all rows have."""
    store = Store(prepare_postgres(postgres_server_url, f"carrel_{worker_id}_plans").url, tmp_path)
    store.load({"projects": [project(id=REEF)]})
    database = await open_database(store.location, pool_size=1)

    async def search(session: Session) -> None:
        found = await ProjectRepository(session).with_id(REEF)
        assert found is not None
        wanted = PerformanceFilter(query="tide", page_url="reef")
        assert (await PerformanceRepository(session, found).page(wanted, Window(5))).total == 0

    for _ in range(10):
        await database.snapshot(search, seconds=30)
    listed = await database.read(lambda session: session.all("SELECT statement FROM pg_prepared_statements", {}))
    await database.close()
    assert any("FROM project" in sql for (sql,) in listed), "what is always the same is prepared"
    assert [sql for (sql,) in listed if "search_performance" in sql] == []


def test_a_long_needle_is_looked_up_by_some_of_its_trigrams() -> None:
    needle = "".join(chr(0x400 + number % 500) for number in range(100_000))
    candidates = SqliteSyntax().candidates("entity", [(("head_fold",), needle)])
    assert candidates is not None
    assert str(candidates.parameters["trigrams"]).count(" AND ") < MAX_TRIGRAMS
    assert SqliteSyntax().candidates("entity", [(("head_fold",), "ab")]) is None


def test_a_list_in_either_order_of_entities_scans_the_same_index() -> None:
    assert NEWEST_FIRST.scan_index == NEWEST_UPDATE_FIRST.scan_index == "entity_scan"
