"""Both engines behind one interface: transactions, cancellation, errors, parameters, and what is left at the end."""

import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest

from carrel.errors import StoreError, StoreUnavailable
from carrel.storage import sqlite_database
from carrel.storage.admin import upgrade
from carrel.storage.database import Database, PostgresLocation, Row, Session, SqliteLocation, locate
from carrel.storage.schema_version import open_database
from carrel.storage.sqlite_database import SqliteDatabase
from tests.databases import prepare_sqlite
from tests.postgres import recreate_database

pytestmark = pytest.mark.anyio

POOL_SIZE = 4
ENOUGH_SECONDS = 5  # what takes longer was not prompt
ADD = "INSERT INTO task (user_id, title, created_at) VALUES (:user_id, :title, 0) RETURNING id"
TITLES = "SELECT title FROM task WHERE user_id = 'ana' ORDER BY id"
# Each runs for some 20 seconds when it is left alone.
LONG_ON_SQLITE = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000000) SELECT count(*) FROM n
"""
LONG_ON_POSTGRES = "SELECT pg_sleep(20)"
COUNTED = LONG_ON_SQLITE.replace("60000000", "100000")


class Mishap(Exception):
    pass


@pytest.fixture
def is_sqlite(database_url: str) -> bool:
    return database_url.startswith("sqlite")


@pytest.fixture
async def ready_sqlite(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    opened = await open_database(prepare_sqlite(tmp_path / "carrel.db"), pool_size=POOL_SIZE)
    assert isinstance(opened, SqliteDatabase)
    yield opened
    await opened.close()


@pytest.fixture
async def second(database: Database, database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """The same database, opened again, as another process would."""
    opened = await open_database(locate(database_url, tmp_path), pool_size=POOL_SIZE)
    yield opened
    await opened.close()


async def add(session: Session, title: str) -> int:
    row = await session.first(ADD, {"user_id": "ana", "title": title})
    assert row is not None
    return row[0]


async def titles(database: Database) -> list[str]:
    return [row[0] for row in await database.read(lambda session: session.all(TITLES, {}))]


async def answer(database: Database, sql: str, **parameters: object) -> Row | None:
    return await database.read(lambda session: session.first(sql, parameters))


# --- transactions


async def test_what_was_written_is_there_for_everybody(database: Database, second: Database) -> None:
    async def work(session: Session) -> list[int]:
        return [await add(session, "one"), await add(session, "two")]

    first, then = await database.write(work)
    assert first < then
    assert await titles(database) == await titles(second) == ["one", "two"]


async def test_a_write_that_fails_half_way_leaves_nothing(database: Database) -> None:
    async def work(session: Session) -> None:
        await add(session, "one")
        await add(session, "two")
        raise Mishap

    with pytest.raises(Mishap):
        await database.write(work)
    assert await titles(database) == []
    await database.write(lambda session: add(session, "next"))
    assert await titles(database) == ["next"]


async def test_a_write_whose_last_statement_fails_leaves_nothing(database: Database) -> None:
    async def work(session: Session) -> None:
        await add(session, "one")
        await add(session, "x" * 201)

    with pytest.raises(StoreError):
        await database.write(work)
    assert await titles(database) == []


async def test_a_write_cannot_go_on_from_a_statement_that_failed(database: Database) -> None:
    """On PostgreSQL the commit would do nothing and say nothing; on SQLite it would keep the rest."""

    async def swallow(session: Session) -> str:
        await add(session, "one")
        with pytest.raises(StoreError):
            await add(session, "x" * 201)
        return "all is well"

    async def go_on(session: Session) -> None:
        await swallow(session)
        await add(session, "two")

    for work in (swallow, go_on):
        with pytest.raises(StoreError):
            await database.write(work)
        assert await titles(database) == []
    await database.write(lambda session: add(session, "next"))
    assert await titles(database) == ["next"]


async def test_a_write_that_does_nothing_is_nothing(database: Database) -> None:
    async def work(_session: Session) -> str:
        return "done"

    assert await database.write(work) == "done"


async def test_reads_go_on_during_a_write_and_do_not_see_it(database: Database) -> None:
    await database.write(lambda session: add(session, "before"))
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(await titles(database))

    async def work(session: Session) -> None:
        await add(session, "during")
        async with anyio.create_task_group() as readers:
            for _ in range(POOL_SIZE - 1):
                readers.start_soon(look)
        assert await session.all(TITLES, {}) == [("before",), ("during",)]

    with anyio.fail_after(ENOUGH_SECONDS):
        await database.write(work)
    assert seen == [["before"]] * (POOL_SIZE - 1)
    assert await titles(database) == ["before", "during"]


async def test_concurrent_writes_all_arrive(database: Database, second: Database) -> None:
    async def count(each: Database) -> None:
        for _ in range(10):
            await each.write(lambda session: add(session, "x"))

    async with anyio.create_task_group() as tasks:
        for each in (database, second) * 4:
            tasks.start_soon(count, each)
    assert len(await titles(database)) == 80


async def test_sqlite_transactions_that_read_before_they_write_neither_fail_nor_lose_anything(tmp_path: Path) -> None:
    location = SqliteLocation(tmp_path / "carrel.db")
    two = [await open_database(location, pool_size=1) for _ in range(2)]
    await two[0].write(lambda session: add(session, "0"))

    async def increment(session: Session) -> None:
        ((count,),) = await session.all(TITLES, {})
        await session.all("UPDATE task SET title = :title", {"title": str(int(count) + 1)})

    async def increment_often(each: Database) -> None:
        for _ in range(50):
            await each.write(increment)

    async with anyio.create_task_group() as tasks:
        for each in two:
            tasks.start_soon(increment_often, each)
    assert await titles(two[0]) == ["100"]
    for each in two:
        await each.close()


async def test_a_statement_needs_no_rows_to_give(database: Database) -> None:
    async def work(session: Session) -> list[Any]:
        await add(session, "one")
        return [
            await session.all("UPDATE task SET title = 'two'", {}),
            await session.first("DELETE FROM task WHERE title = 'two'", {}),
            await session.first(TITLES, {}),
        ]

    assert await database.write(work) == [[], None, None]


# --- cancellation


async def test_a_cancelled_write_is_rolled_back_and_the_next_one_works(database: Database) -> None:
    async def work(session: Session) -> None:
        await add(session, "given up")
        written.set()
        await anyio.sleep_forever()

    for _ in range(POOL_SIZE + 1):
        written = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, work)
            await written.wait()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(ENOUGH_SECONDS):
        await database.write(lambda session: add(session, "kept"))
    assert await titles(database) == ["kept"]


async def test_a_cancelled_statement_ends_at_once_and_the_connection_lives_on(
    database: Database, is_sqlite: bool
) -> None:
    """On SQLite also one that had not begun yet when it was cancelled: PostgreSQL may take 5 seconds for that."""
    long_query = LONG_ON_SQLITE if is_sqlite else LONG_ON_POSTGRES

    async def work(session: Session) -> None:
        await add(session, "given up")
        await session.all(long_query, {})

    with anyio.fail_after(ENOUGH_SECONDS):
        for delay in (0, 0, 0.001, 0.01, 0.1) if is_sqlite else (0.1,) * (POOL_SIZE + 1):
            with anyio.move_on_after(delay) as scope:
                await database.read(lambda session: session.all(long_query, {}))
            assert scope.cancelled_caught
            with anyio.move_on_after(delay) as scope:
                await database.write(work)
            assert scope.cancelled_caught
        await database.write(lambda session: add(session, "kept"))
    assert await titles(database) == ["kept"]


async def test_a_cancelled_query_does_not_go_on_in_the_postgresql_server(postgres_url: str) -> None:
    database = await open_database(PostgresLocation(postgres_url), pool_size=2)
    for kind in (database.read, database.write):
        with anyio.move_on_after(0.2):
            await kind(lambda session: session.all(LONG_ON_POSTGRES, {}))
    running = "SELECT count(*) FROM pg_stat_activity WHERE query = :query AND state = 'active'"
    running += " AND datname = current_database()"
    assert await answer(database, running, query=LONG_ON_POSTGRES) == (0,)
    await database.close()


async def test_a_write_that_waits_for_its_turn_can_be_given_up(database: Database) -> None:
    await database.write(lambda session: add(session, "old"))
    begun, end = anyio.Event(), anyio.Event()

    async def rename(session: Session, title: str) -> None:
        await session.all("UPDATE task SET title = :title", {"title": title})

    async def slowly(session: Session) -> None:
        await rename(session, "first")
        begun.set()
        await end.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(database.write, slowly)
        await begun.wait()
        with anyio.move_on_after(0.05) as scope:
            await database.write(lambda session: rename(session, "second"))
        assert scope.cancelled_caught
        end.set()
    assert await titles(database) == ["first"]
    await database.write(lambda session: rename(session, "third"))
    assert await titles(database) == ["third"]


@pytest.mark.no_cover  # which makes it several times slower
async def test_a_read_that_takes_its_time_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    database = await open_database(SqliteLocation(tmp_path / "carrel.db"), pool_size=1)
    gaps: list[float] = []
    taken = 0.0
    async with anyio.create_task_group() as tasks:

        async def tick() -> None:
            while True:
                started = time.monotonic()
                await anyio.lowlevel.checkpoint()
                gaps.append(time.monotonic() - started)

        tasks.start_soon(tick)
        started = time.monotonic()
        assert await answer(database, LONG_ON_SQLITE.replace("60000000", "3000000")) == (3000000,)
        taken = time.monotonic() - started
        tasks.cancel_scope.cancel()
    await database.close()
    assert max(gaps) < taken / 2


async def test_a_read_that_was_not_quick_is_tried_on_the_event_loop_less_and_less_often(
    ready_sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tried(seconds: float, reads: int) -> list[int]:
        """The numbers of the reads that the event loop has begun, where it may take so long."""
        monkeypatch.setattr(sqlite_database, "LOOP_READ_SECONDS", seconds)
        begun: list[int] = []
        for number in range(reads):
            run: list[str] = []
            ready_sqlite._loop_session._connection.set_trace_callback(run.append)
            assert await ready_sqlite.read(lambda session: session.all(COUNTED, {})) == [(100_000,)]
            begun += [number] if run else []
        return begun

    assert await tried(-1.0, 8) == [0, 2, 6]
    assert await tried(5.0, 10) == [6, 7, 8, 9]
    assert await tried(-1.0, 4) == [0, 2]


# --- errors


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELEKT 1", {}),
        ("SELECT * FROM no_such_table", {}),
        ("SELECT :missing", {}),
        (ADD, {"user_id": "ana", "title": "x" * 201}),
        (ADD, {"user_id": "", "title": "x"}),
        (ADD, {"user_id": "ana", "title": None}),
        (ADD, {"user_id": "ana", "title": "\ud800"}),
        ("INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'x', :big)", {"big": 2**80}),
    ],
)
async def test_what_goes_wrong_in_an_engine_is_a_store_error_and_the_next_call_works(
    database: Database, sql: str, parameters: dict[str, object]
) -> None:
    async def work(session: Session) -> None:
        with pytest.raises(StoreError):  # not only outside: a domain may look at it
            await session.first(sql, parameters)
        await session.first(sql, parameters)

    for kind in (database.read, database.write):
        with pytest.raises(StoreError) as caught:
            await kind(work)
        assert not isinstance(caught.value, StoreUnavailable)
        assert await answer(database, "SELECT 1") == (1,)
    assert await titles(database) == []


async def test_a_sqlite_file_that_is_locked_too_long_is_a_store_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.storage.sqlite.BUSY_TIMEOUT_SECONDS", 0.1)
    location = SqliteLocation(tmp_path / "carrel.db")
    database, second = [await open_database(location, pool_size=1) for _ in range(2)]

    async def hold(session: Session) -> None:
        await add(session, "held")
        with pytest.raises(StoreError, match="locked"):
            await second.write(lambda session: add(session, "refused"))

    await database.write(hold)
    await second.write(lambda session: add(session, "after"))
    assert await titles(database) == ["held", "after"]
    await database.close()
    await second.close()


# --- parameters


@pytest.mark.parametrize(
    "text", ["a:b ::c :title", "100 % %s %(title)s %%", 'it\'s "so" \\ :)', "", "\u2028 😀 e\u0301", "?1 $1 @x #y"]
)
async def test_a_value_may_hold_anything(database: Database, text: str) -> None:
    await database.write(lambda session: add(session, f"x{text}"))
    assert await titles(database) == [f"x{text}"]
    assert await answer(database, "SELECT count(*) FROM task WHERE title = :title", title=f"x{text}") == (1,)


async def test_a_statement_may_hold_colons_per_cents_and_casts(database: Database, is_sqlite: bool) -> None:
    await database.write(lambda session: add(session, "50% off"))
    quoted = await answer(database, "SELECT '12:30 :n 100%', 'it''s :x', '::y'")
    assert quoted == ("12:30 :n 100%", "it's :x", "::y")
    assert await answer(database, "SELECT count(*) FROM task WHERE title LIKE '%\\% o%' ESCAPE '\\'") == (1,)
    sql = "SELECT CAST(:n1 AS integer) + CAST(:n1 AS integer) % CAST(:n_2 AS integer)"
    assert await answer(database, sql, n1=7, n_2=4) == (10,)
    if not is_sqlite:
        assert await answer(database, "SELECT :n::integer, 'x'::text, :t::text", n=7, t=":n") == (7, "x", ":n")


async def test_values_come_back_as_they_went_in(database: Database) -> None:
    async def work(session: Session) -> Row | None:
        columns = "title, description, completed, created_at, completed_at"
        sql = f"INSERT INTO task (user_id, {columns}) VALUES ('ana', :a, :b, :c, :d, :e) RETURNING {columns}"
        return await session.first(sql, {"a": "é", "b": None, "c": True, "d": 2**62, "e": None})

    assert await database.write(work) == ("é", None, True, 2**62, None)


# --- the end


async def test_a_closed_database_answers_that_it_is_closed(database: Database) -> None:
    await database.close()
    await database.close()
    with anyio.fail_after(ENOUGH_SECONDS):
        for kind in (database.read, database.write):
            with pytest.raises(StoreUnavailable):
                await kind(lambda session: session.first("SELECT 1", {}))
        with pytest.raises(StoreUnavailable):
            await database.ping()


async def test_closing_finishes_a_read_that_runs(tmp_path: Path) -> None:
    database = await open_database(SqliteLocation(tmp_path / "carrel.db"), pool_size=1)
    query = LONG_ON_SQLITE.replace("60000000", "200000")
    found: list[Row | None] = []

    async def look() -> None:
        found.append(await answer(database, query))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await anyio.lowlevel.checkpoint()
        await database.close()
    assert found == [(200000,)]


async def test_closing_ends_every_thread_also_in_a_cancelled_caller(tmp_path: Path) -> None:
    for is_cancelled in (False, True):
        before = set(threading.enumerate())
        database = await open_database(SqliteLocation(tmp_path / "carrel.db"), pool_size=1)
        await database.write(lambda session: session.all("SELECT 1", {}))
        assert set(threading.enumerate()) - before
        with anyio.CancelScope() as scope:
            if is_cancelled:
                scope.cancel()
            await database.close()
        assert set(threading.enumerate()) - before == set()
    assert os.listdir(tmp_path) == ["carrel.db"], "the last connection takes its log with it"


async def test_closing_leaves_no_connection(postgres_server_url: str, worker_id: str) -> None:
    url = recreate_database(postgres_server_url, f"carrel_{worker_id}_closing")
    upgrade(PostgresLocation(url))
    database = await open_database(PostgresLocation(url), pool_size=POOL_SIZE)
    async with anyio.create_task_group() as tasks:
        for _ in range(POOL_SIZE):
            tasks.start_soon(answer, database, "SELECT 1")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await database.close()
    with psycopg.connect(postgres_server_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE carrel_{worker_id}_closing".encode())  # refused while anyone is connected


async def test_a_database_that_answers_is_pinged_in_silence(database: Database) -> None:
    await database.ping()


# --- one view of the data


async def test_a_snapshot_sees_one_state_while_others_write(database: Database, second: Database) -> None:
    await database.write(lambda session: add(session, "one"))

    async def work(session: Session) -> tuple[list[Row], list[Row]]:
        before = await session.all(TITLES, {})
        await second.write(lambda other: add(other, "two"))
        return before, await session.all(TITLES, {})

    before, after = await database.snapshot(work, seconds=ENOUGH_SECONDS)
    assert before == after == [("one",)]
    assert await titles(database) == ["one", "two"]


async def test_snapshots_beside_each_other_each_see_their_own_state(database: Database, second: Database) -> None:
    """Also on SQLite, where short ones share a connection: the second to come goes elsewhere."""
    await database.write(lambda session: add(session, "one"))

    async def outer(session: Session) -> list[Row]:
        await session.all(TITLES, {})
        await second.write(lambda other: add(other, "two"))
        inner = await database.snapshot(lambda other: other.all(TITLES, {}), seconds=ENOUGH_SECONDS)
        return [*await session.all(TITLES, {}), *inner]

    assert await database.snapshot(outer, seconds=ENOUGH_SECONDS) == [("one",), ("one",), ("two",)]
