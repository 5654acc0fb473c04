"""Discoveries, sessions and accesses in the database, on both engines."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.code.knowledge import accesses as accesses_module
from carrel.code.knowledge.accesses import (
    HALF_LIFE_MS,
    MAX_BOOST,
    SATURATION_READS,
    Access,
    AccessCounter,
    AccessRepository,
    boost,
    boosted,
)
from carrel.code.knowledge.code_base import DEFAULT_CODE_BASE, code_base_of
from carrel.code.knowledge.discoveries import (
    TYPES,
    Discovery,
    DiscoveryPage,
    DiscoveryRepository,
    InvalidDiscovery,
    NewDiscovery,
    validated,
)
from carrel.code.knowledge.discovery_exchange import (
    DiscoveryImportError,
    ImportReport,
    export_lines,
    import_discoveries,
    read_lines,
)
from carrel.code.knowledge.sessions import InvalidSession, NewSummary, SessionRepository
from carrel.code.knowledge.sessions import validated as checked_session
from carrel.common import instant, iso
from carrel.errors import StoreUnavailable
from carrel.storage.database import Database, PostgresLocation, Session, SqliteLocation, Work
from tests.program import Script, ending

pytestmark = pytest.mark.anyio

T = TypeVar("T")
HERE = "here"


def write(database: Database, work: Callable[[DiscoveryRepository], Awaitable[T]], name: str = HERE) -> Awaitable[T]:
    return database.write(lambda session: work(DiscoveryRepository(session, name)))


def newest(database: Database, limit: int = 100, name: str = HERE, **filters: Any) -> Awaitable[DiscoveryPage]:
    return database.read(lambda session: DiscoveryRepository(session, name).newest(limit, **filters))


async def load(database: Database, *lines: str, name: str = HERE) -> ImportReport:
    incoming = read_lines([line.encode() for line in lines])
    return await write(database, lambda discoveries: import_discoveries(discoveries, incoming, lambda _: None), name)


def refused(*lines: str | bytes) -> list[tuple[int, str]]:
    with pytest.raises(DiscoveryImportError) as caught:
        read_lines([line if isinstance(line, bytes) else line.encode() for line in lines])
    return [(fault.line, fault.message) for fault in caught.value.errors]


# --- discoveries


@pytest.mark.rule("knowledge.discovery.types", "knowledge.discovery.content")
def test_what_is_wrong_with_a_discovery_is_told_for_all_of_its_fields() -> None:
    assert validated("rule", "x" * 10_000, "m" * 200, None) == NewDiscovery("rule", "x" * 10_000, "m" * 200, None)
    wrong = validated("hint", " \n", "a\0b", "s" * 201)
    assert isinstance(wrong, InvalidDiscovery)
    assert [str(fault) for fault in wrong.errors] == [
        "type must be one of pattern, rule, decision, issue",
        "content must not be empty",
        "module must not contain NUL or unpaired surrogates",
        "session must have 200 characters or less",
    ]
    for content in ("x" * 10_001, "\ud800", "", "a\0"):
        assert isinstance(validated("rule", content), InvalidDiscovery)
    assert isinstance(checked_session("", "t" * 201, ""), InvalidSession)


@pytest.mark.rule("knowledge.discovery.order")
async def test_discoveries_are_listed_newest_first_and_ties_by_id(database: Database) -> None:
    made = [
        await write(
            database, lambda each, n=number: each.add(NewDiscovery(TYPES[n % 4], f"no {n}", "ab"[n % 2]), n // 3)
        )
        for number in range(12)
    ]
    expected = sorted(made, key=lambda each: (-each.date, each.id))
    assert await newest(database) == DiscoveryPage(expected, 12)
    assert await newest(database, 5) == DiscoveryPage(expected[:5], 12)
    for filters in ({"type": "rule"}, {"module": "a"}, {"type": "issue", "module": "b"}, {"module": "A"}):
        kept = [each for each in expected if all(each._asdict()[key] == value for key, value in filters.items())]
        assert await newest(database, 2, **filters) == DiscoveryPage(kept[:2], len(kept))


@pytest.mark.rule("knowledge.discovery.isolation")
async def test_code_bases_in_one_database_do_not_mix(database: Database) -> None:
    mine = await write(database, lambda each: each.add(NewDiscovery("rule", "mine")))
    assert await newest(database, name="there") == DiscoveryPage([], 0)
    assert not await write(database, lambda each: each.remove(mine.id), "there")
    assert not await write(database, lambda each: each.change(mine._replace(content="theirs")), "there")
    assert await write(database, lambda each: each.insert(mine._replace(content="theirs")), "there")
    assert (await newest(database)).discoveries == [mine]
    for name in ("", "a\0b", "é" * 201):
        with pytest.raises(ValueError, match="code base"):
            await write(database, lambda each: each.get(mine.id), name)


@pytest.mark.rule("knowledge.code_base.name")
def test_a_database_within_the_workspace_has_one_code_base_and_one_elsewhere_may_have_several(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    assert code_base_of(folder, SqliteLocation(folder / ".carrel" / "carrel.db")) == DEFAULT_CODE_BASE
    assert code_base_of(folder, SqliteLocation(tmp_path / "shared.db")) == "project"
    assert code_base_of(folder, PostgresLocation("postgresql://x/y")) == "project"
    assert code_base_of(folder, SqliteLocation(folder / "carrel.db"), "shop") == "shop"
    assert code_base_of(tmp_path / "a\udcff", PostgresLocation("postgresql://x/y")) == "a"
    assert code_base_of(Path("/"), PostgresLocation("postgresql://x/y")) == DEFAULT_CODE_BASE


async def test_a_summary_of_a_session_is_kept_and_listed(database: Database) -> None:
    async def work(session: Session) -> tuple[Any, Any]:
        sessions = SessionRepository(session, HERE)
        return await sessions.add(NewSummary("T", "old", None), 1), await sessions.add(
            NewSummary(None, "new", "auth"), 2
        )

    old, new = await database.write(work)
    found = await database.read(lambda session: SessionRepository(session, HERE).newest(10))
    assert found == ([new, old], 2)
    assert await database.read(lambda session: SessionRepository(session, HERE).newest(1, module="auth")) == ([new], 1)
    assert await database.read(lambda session: SessionRepository(session, "there").newest(10)) == ([], 0)


# --- in and out


@pytest.mark.rule("knowledge.import.faults")
def test_all_faults_are_told_with_their_lines() -> None:
    good = '{"type": "rule", "content": "x"}'
    twice = '{"id": "A0000000-0000-4000-8000-000000000000", "type": "rule", "content": "%s"}'
    assert refused(
        "\ufeff" + good,
        "",
        '{"type": "hint", "content": "", "modul": "x", "date": "yesterday"}',
        "[1]",
        "{",
        b"\xff\n",
        '{"content": 5, "id": "x", "module": ""}',
        twice % "one",
        twice % "one",
        (twice % "two").lower(),
        '{"type": "rule", "content": "a\\u0000b"}',
    ) == [
        (3, "'modul' is unknown; known are id, type, content, module, session, date"),
        (3, "date must be a day, YYYY-MM-DD, or a time, YYYY-MM-DDTHH:mm:ssZ"),
        (3, "type must be one of pattern, rule, decision, issue"),
        (3, "content must not be empty"),
        (4, "it must be a JSON object"),
        (5, "it must be JSON"),
        (6, "it must be UTF-8"),
        (7, "id must be a UUID"),
        (7, "type is missing"),
        (7, "content must be a string"),
        (7, "module must not be empty"),
        (10, "has the id of line 8, and says something else"),
        (11, "content must not contain NUL or unpaired surrogates"),
    ]


@pytest.mark.rule("knowledge.import.idempotent", "knowledge.import.by_id")
async def test_the_same_line_is_one_discovery_and_a_line_with_an_id_changes_it(database: Database) -> None:
    plain = '{"type": "rule", "content": "x"}'
    dated = '{"type": "rule", "content": "x", "date": "2025-01-15T10:00:00Z"}'
    named = '{"id": "A0000000-0000-4000-8000-000000000000", "type": "issue", "content": "y", "date": "2025-01-15"}'
    lines = (plain, dated, plain, named)
    assert await load(database, *lines) == ImportReport(added=3)
    before = await newest(database)
    assert await load(database, *lines) == ImportReport(unchanged=3)
    assert await newest(database) == before
    assert await load(database, named.replace('"y"', '"z"').replace(', "date": "2025-01-15"', "")) == ImportReport(
        updated=1
    )
    changed = next(each for each in (await newest(database)).discoveries if each.type == "issue")
    assert changed[1:] == ("issue", "z", None, None, instant("2025-01-15"))


@pytest.mark.rule("knowledge.import.idempotent")
async def test_a_line_that_two_bring_in_at_once_is_one_discovery(database: Database) -> None:
    lines = [f'{{"type": "rule", "content": "{number}"}}' for number in range(20)]
    reports = await asyncio.gather(*(load(database, *lines) for _ in range(4)))
    assert sum(report.added for report in reports) == 20
    assert (await newest(database)).total == 20


@pytest.mark.rule("knowledge.import.round_trip")
async def test_what_is_exported_comes_back_identically(database: Database) -> None:
    odd = "o'dd \" \\ \u2028 \x85 % :name 😀 e\u0301\n\tx"
    for number in range(3):
        await write(
            database, lambda each, n=number: each.add(NewDiscovery(TYPES[n], odd * (n + 1), odd, "s"), n * 10**12 + 1)
        )

    async def collect(session: Session) -> list[str]:
        return [line async for line in export_lines(DiscoveryRepository(session, HERE))]

    lines = await database.read(collect)
    assert await load(database, *lines) == ImportReport(unchanged=3)
    assert await load(database, *lines, name="elsewhere") == ImportReport(added=3)
    assert await newest(database, name="elsewhere") == await newest(database)


def test_a_time_is_what_it_says_in_any_zone() -> None:
    expected = instant("2025-01-15T10:00:00Z")
    assert iso(expected or 0) == "2025-01-15T10:00:00.000Z"
    for text in ("2025-01-15T12:00:00+02:00", "2025-01-15 10:00", "2025-01-15T10:00:00.000Z", "2025-01-15t10:00:00z"):
        assert instant(text) == expected
    for text in ("", "2025", "2025-02-30", "20250115", "2025-W03", "2025-01-15T25:00", "0001-01-01T00:00+23:59"):
        assert instant(text) is None


# --- accesses


async def counted(database: Database, name: str = HERE) -> dict[str, int]:
    found = await database.read(lambda session: AccessRepository(session, name).most_read(1000))
    return {each.path: each.reads for each in found}


@pytest.mark.rule("knowledge.access.counted")
async def test_a_read_is_counted_soon_and_what_is_left_when_the_counter_closes(database: Database) -> None:
    times = iter([5, 9, 7, 1])
    counter = AccessCounter(database, HERE, clock=lambda: next(times))
    for path in ("a.py", "a.py", "b.py"):
        counter.record_read(path)
    async with asyncio.timeout(10):
        while not await counter.most_read(1):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.02)
    counter.record_read("a.py")
    await counter.close()
    assert await counter.most_read(10) == [Access("a.py", 3, 9), Access("b.py", 1, 7)]
    assert await counter.most_read(1) == [Access("a.py", 3, 9)]
    assert await counter.get_many(["b.py", "c.py", "\ud800"]) == {"b.py": Access("b.py", 1, 7)}
    assert await counted(database, "there") == {}


COUNTING = """
import asyncio, sys
from pathlib import Path
from carrel.code.knowledge.accesses import AccessCounter
from carrel.storage.database import locate
from carrel.storage.schema_version import open_database

async def main(url):
    database = await open_database(locate(url, Path.cwd()), pool_size=2)
    counters = [AccessCounter(database, "here") for _ in range(2)]
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(3000):
        for counter in counters:
            counter.record_read(f"src/{number % 40}.py")
        if number % 500 == 0:
            await asyncio.sleep(0.2)
    for counter in counters:
        await counter.close()
    await database.close()
    print("done", flush=True)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.rule("knowledge.access.exact")
async def test_counts_are_exact_when_several_processes_count(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    with ending([Script(COUNTING, database_url, cwd=tmp_path) for _ in range(2)]) as scripts:
        assert [each.hear() for each in scripts] == ["ready"] * 2
        for each in scripts:
            each.say()
        assert [each.hear() for each in scripts] == ["done"] * 2
    assert await counted(database) == {f"src/{number}.py": 300 for number in range(40)}


class Doubtful:
    """A database whose answers to writes are lost: after it has done them, or before."""

    def __init__(self, database: Database, *losses: str) -> None:
        self.losses = list(losses)
        self._database = database
        self.read, self.snapshot, self.ping, self.close = (
            database.read,
            database.snapshot,
            database.ping,
            database.close,
        )

    async def can_write(self) -> bool:
        return await self._database.can_write()

    async def write(self, work: Work[T]) -> T:
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "before":
            raise StoreUnavailable("away")
        result = await self._database.write(work)
        if loss == "after":
            raise StoreUnavailable("lost the connection during the commit")
        return result


@pytest.mark.rule("knowledge.access.in_doubt", "knowledge.access.away")
async def test_a_batch_in_doubt_is_neither_lost_nor_counted_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accesses_module, "WRITE_DELAY_SECONDS", 0.01)
    flaky = Doubtful(database, "after", "before", "", "before", "after", "after")
    counter, other = AccessCounter(flaky, HERE), AccessCounter(database, HERE)
    for _ in range(5):
        counter.record_read("a.py")
        other.record_read("a.py")
        await asyncio.sleep(0.03)
    noted = 0
    async with asyncio.timeout(20):
        while flaky.losses:
            counter.record_read("b.py")
            noted += 1
            await asyncio.sleep(0.01)
    await counter.close()
    await other.close()
    found = await counted(database)
    assert (found["a.py"], found.get("b.py", 0)) == (10, noted)


@pytest.mark.rule("knowledge.access.away")
async def test_what_waits_for_a_database_is_bounded_and_given_up_at_the_end(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accesses_module, "MAX_BUFFERED_PATHS", 3)
    monkeypatch.setattr(accesses_module, "CLOSE_TIMEOUT_SECONDS", 0.2)
    counter = AccessCounter(Doubtful(database, *["before"] * 99), HERE)
    for number in range(10):
        counter.record_read(f"{number % 5}.py")
    await counter.close()
    assert "6 file accesses were not counted" in caplog.text
    assert await counted(database) == {}


@pytest.mark.rule("knowledge.access.away")
async def test_counts_survive_connections_that_postgresql_cuts(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from carrel.storage.schema_version import open_database

    monkeypatch.setattr(accesses_module, "WRITE_DELAY_SECONDS", 0.02)
    database = await open_database(PostgresLocation(postgres_url), pool_size=2)
    counter = AccessCounter(database, "cut")
    try:
        for number in range(60):
            counter.record_read("a.py")
            await asyncio.sleep(0.01)
            if number % 15 == 0:
                with psycopg.connect(postgres_url, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = 'carrel' AND datname = current_database()"
                    )
        await counter.close()
        assert await counted(database, "cut") == {"a.py": 60}
    finally:
        await database.close()


async def test_paths_that_no_database_keeps_hold_nothing_up(database: Database) -> None:
    counter = AccessCounter(database, HERE)
    for path in ("a\0b", "\ud800", "", "é" * 1001, "é" * 1000, "a.py"):
        counter.record_read(path)
    await counter.close()
    assert await counted(database) == {"a.py": 1, "é" * 1000: 1}


# --- the scorer


@pytest.mark.rule("knowledge.access.boost")
@settings(max_examples=200)
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(-(10**12), 10**13), st.integers(0, 10**12))
def test_the_boost_is_small_and_grows_with_reads_and_falls_with_age(
    count: int, more: int, age: int, older: int
) -> None:
    now = 10**13
    gain = boost(count, now - age, now)
    assert 0 <= gain <= MAX_BOOST
    assert boost(count + more, now - age, now) >= gain >= boost(count, now - age - older, now)
    assert (gain == 0) == (count == 0) or age > 100 * HALF_LIFE_MS
    assert 0.5 <= boosted(0.5, gain) < boosted(0.6, gain) <= boosted(1, gain) <= 1


@pytest.mark.rule("knowledge.access.boost")
def test_a_file_that_is_read_often_and_now_has_all_of_the_boost() -> None:
    assert boost(SATURATION_READS, 0, 0) == boost(10**6, 0, 0) == MAX_BOOST
    assert boost(SATURATION_READS, 0, HALF_LIFE_MS) == pytest.approx(MAX_BOOST / 2)
    assert boost(5, 0, 0) > boost(1, 0, 0) > 0 == boost(0, 0, 0)


def test_a_discovery_as_json_has_its_fields_in_order() -> None:
    assert list(Discovery("i", "rule", "c", None, None, 0).as_json().items()) == [
        ("id", "i"),
        ("type", "rule"),
        ("content", "c"),
        ("module", None),
        ("session", None),
        ("date", "1970-01-01T00:00:00.000Z"),
    ]
