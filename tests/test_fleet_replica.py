"""A streaming replica: what is read from it, and when it is not."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest

from carrel import InProcessClient
from carrel.content.bundle.importer import import_content
from carrel.errors import SettingsError, StoreTimeout
from carrel.storage import replica as replica_module
from carrel.storage.admin import upgrade
from carrel.storage.database import Database, PostgresLocation, locate
from carrel.storage.replica import has_reached
from carrel.storage.schema_version import open_database
from carrel.workspace import find_workspace
from tests.bundles import project, written
from tests.program import Script, ending
from tests.replica import ReplicatedServer

pytestmark = pytest.mark.anyio

LAG = 1.0
"""Instead of 5 seconds, not to wait for them."""

# Another process: for every line it says from which server it reads, and how many projects there are.
READER = """
import asyncio, sys
from carrel.storage import replica
from carrel.storage.database import PostgresLocation
from carrel.storage.schema_version import open_database

replica.MAX_LAG_SECONDS = float(sys.argv[3])
COUNT = "SELECT pg_is_in_recovery(), (SELECT count(*) FROM project)"

async def main():
    database = await open_database(PostgresLocation(sys.argv[1], replica_url=sys.argv[2]), pool_size=2)
    while await asyncio.to_thread(sys.stdin.readline):
        row = await database.snapshot(lambda session: session.first(COUNT, {}), seconds=5)
        print("replica" if row[0] else "primary", row[1], flush=True)
    await database.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ReplicatedServer]:
    """Each test leaves both running, and the replica replaying."""
    server = ReplicatedServer()
    upgrade(PostgresLocation(server.url()))
    server.start_replica()
    yield server
    server.close()


@pytest.fixture
def location(server: ReplicatedServer) -> PostgresLocation:
    return PostgresLocation(server.url(), replica_url=server.replica_url())


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "MAX_LAG_SECONDS", LAG)
    monkeypatch.setattr(replica_module, "REPLICA_POLL_SECONDS", 0.05)


@pytest.fixture
async def database(location: PostgresLocation) -> AsyncIterator[Database]:
    database = await open_database(location, pool_size=4)
    await until(database, "replica")
    yield database
    await database.close()


async def place(database: Database) -> str:
    row = await database.snapshot(lambda session: session.first("SELECT pg_is_in_recovery()", {}), seconds=5)
    return "replica" if row and row[0] else "primary"


async def until(database: Database, wanted: str) -> None:
    with anyio.fail_after(30):
        while await place(database) != wanted:
            await anyio.lowlevel.checkpoint()


def write(
    server: ReplicatedServer, sql: str = "DELETE FROM file_access WHERE false; SELECT pg_current_xact_id()"
) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.encode())


@pytest.fixture
def paused(server: ReplicatedServer) -> Iterator[Callable[[], None]]:
    """Stop the replay, with something written that is missing then."""

    def pause() -> None:
        server.pause_replay()
        write(server)

    yield pause
    server.resume_replay()


# --- which server


@pytest.mark.rule("fleet.replica.content")
async def test_content_is_read_from_the_replica_and_everything_else_from_the_primary(database: Database) -> None:
    assert await place(database) == "replica"
    row = await database.read(lambda session: session.first("SELECT pg_is_in_recovery()", {}))
    assert row == (False,)
    row = await database.write(lambda session: session.first("SELECT pg_is_in_recovery()", {}))
    assert row == (False,)


async def test_a_read_that_takes_too_long_on_the_replica_is_not_tried_again(database: Database) -> None:
    started = time.monotonic()
    with pytest.raises(StoreTimeout):
        await database.snapshot(lambda session: session.first("SELECT pg_sleep(9)", {}), seconds=0.2)
    assert time.monotonic() - started < 5
    assert await place(database) == "replica"


async def test_what_fails_on_the_replica_alone_is_read_from_the_primary(database: Database) -> None:
    """As a statement does that conflicts with what is replayed, or for whose table the replica is not far enough."""

    async def work(session: Any) -> Any:
        return await session.first("SELECT 1 / (NOT pg_is_in_recovery())::int", {})

    assert await database.snapshot(work, seconds=5) == (1,)
    assert await place(database) == "replica"


@pytest.mark.rule("fleet.replica.behind")
async def test_a_replica_that_is_behind_is_left_alone_until_it_has_caught_up(
    server: ReplicatedServer, database: Database, paused: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    paused()
    await until(database, "primary")
    await anyio.sleep(2 * replica_module.REPLICA_POLL_SECONDS)
    assert caplog.messages == ["content is read from the primary until the replica can be used again"]
    server.resume_replay()
    await until(database, "replica")
    assert caplog.messages[1:] == ["content is read from the replica"]


@pytest.mark.rule("fleet.replica.behind")
async def test_a_server_that_is_no_replica_is_not_read_from(server: ReplicatedServer) -> None:
    database = await open_database(PostgresLocation(server.url(), replica_url=server.url()), pool_size=2)
    for _ in range(200):
        assert await place(database) == "primary"
    await database.close()


@pytest.mark.rule("fleet.replica.away")
async def test_while_the_replica_is_away_the_primary_answers_and_later_the_replica_again(
    server: ReplicatedServer, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop_replica()
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(place, database)
        assert await place(database) == "primary"
        assert caplog.text.count("content is read from the primary") == 1
    finally:
        server.start_replica()
    await until(database, "replica")


@pytest.mark.rule("fleet.replica.away")
async def test_a_server_starts_without_its_replica(server: ReplicatedServer, location: PostgresLocation) -> None:
    server.stop_replica()
    try:
        database = await open_database(location, pool_size=2)
        assert await place(database) == "primary"
    finally:
        server.start_replica()
    await until(database, "replica")
    await database.close()


# --- what one has written oneself


@pytest.mark.rule("fleet.replica.own_writes")
async def test_of_200_tasks_each_is_listed_by_another_server_right_after_it_was_added(
    server: ReplicatedServer, paused: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(replica_module, "MAX_LAG_SECONDS", 600)  # as if it were near enough, whatever it lacks
    settings = {
        "database": {"url": server.url(), "replica_url": server.replica_url()},
        "server": {"toolsets": ["tasks"]},
    }
    workspace = find_workspace(tmp_path, settings, {})
    async with InProcessClient(workspace, "ana") as one, InProcessClient(workspace, "ana") as other:
        paused()
        for number in range(1, 201):
            await one.call_tool("add_task", {"title": str(number)})
            assert len((await other.call_tool("list_tasks")).value) == number


@pytest.mark.rule("fleet.replica.own_writes")
def test_an_import_is_seen_by_every_server_when_it_returns(
    server: ReplicatedServer, location: PostgresLocation, tmp_path: Path, paused: Callable[[], None]
) -> None:
    write(server, "DELETE FROM project")

    def bring(slug: str) -> float:
        started = time.monotonic()
        import_content(location, [written(tmp_path / f"{slug}.json", {"projects": [project(slug)]})])
        return time.monotonic() - started

    reader = Script(READER, server.url(), server.replica_url(), str(LAG), cwd=tmp_path)
    with ending([reader]):

        def asked() -> str:
            reader.say()
            return reader.hear()

        deadline = time.monotonic() + 30
        while asked() != "replica 0":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        bring("first")
        assert asked() == "replica 1"
        paused()
        assert bring("second") >= LAG, "nobody reads from the replica any more after that"
        assert asked() == "primary 2"


@pytest.mark.parametrize(
    ("replayed", "inserted", "reached"),
    [
        (100, 100, True),
        (101, 100, True),
        (100, 101, False),
        (8192, 8192 + 24, True),  # only the header of a page is between
        (8192, 8192 + 40, True),
        (8192, 8192 + 48, False),
        (8200, 8224, False),
    ],
)
def test_a_replica_at_the_end_of_a_page_is_where_the_primary_is(replayed: int, inserted: int, reached: bool) -> None:
    assert has_reached(replayed, inserted) is reached


# --- the settings


@pytest.mark.parametrize("name", ["replica_url", "direct_url"])
def test_a_sqlite_file_has_no_other_server(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"database.{name} is of use with PostgreSQL only"):
        locate("sqlite:///x.db", tmp_path, **{name: "postgresql://localhost/x"})
