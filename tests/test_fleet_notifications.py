"""What processes over one PostgreSQL tell each other, and what a server does with it."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest

from carrel import InProcessClient
from carrel.content.bundle.importer import import_content
from carrel.storage import notifications as notices_module
from carrel.storage.admin import upgrade
from carrel.storage.database import Database, PostgresLocation, SqliteLocation
from carrel.storage.notifications import ANY_CHANGE, Notifications
from carrel.storage.schema_version import open_database
from carrel.workspace import find_workspace
from tests.bundles import small, written
from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio

SECONDS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own; each test leaves it running."""
    server = PostgresServer()
    upgrade(PostgresLocation(server.url()))
    yield server
    server.close()


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[Database]:
    database = await open_database(PostgresLocation(server.url()), pool_size=2)
    yield database
    await database.close()


class Ear:
    """Hears what one process is told."""

    def __init__(self, database: Database, url: str) -> None:
        self.notices = Notifications(database, url)
        self._send, self._told = anyio.create_memory_object_stream[tuple[str, str]](1000)
        self.notices.listen(lambda kind, key: self._send.send_nowait((kind, key)))

    async def hear(self) -> tuple[str, str]:
        with anyio.fail_after(SECONDS):
            return await self._told.receive()

    async def close(self) -> None:
        await self.notices.close()
        self._send.close()
        self._told.close()


@pytest.fixture
async def ear(database: Database, server: PostgresServer) -> AsyncIterator[Ear]:
    """Which listens already."""
    ear = Ear(database, server.url())
    assert await ear.hear() == (ANY_CHANGE, "")
    yield ear
    await ear.close()


def notify(url: str, notice: str, *, keep: bool) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_notify('carrel', %s)", [notice])
        if not keep:
            connection.rollback()


@pytest.mark.rule("fleet.notices.heard")
async def test_all_are_told_what_was_committed_and_nothing_else(
    server: PostgresServer, database: Database, ear: Ear
) -> None:
    other = Ear(database, server.url())
    assert await other.hear() == (ANY_CHANGE, "")
    notify(server.url(), "search dropped", keep=False)
    notify(server.url(), "search kept", keep=True)
    await other.notices.tell("tokens", "a b")
    for each in (ear, other):
        assert [await each.hear(), await each.hear()] == [("search", "kept"), ("tokens", "a b")]
    await other.close()


@pytest.mark.rule("fleet.notices.restart")
async def test_after_a_restart_they_are_told_that_they_may_have_missed_something_and_then_the_next(
    server: PostgresServer, ear: Ear
) -> None:
    await anyio.to_thread.run_sync(server.stop)
    await anyio.to_thread.run_sync(server.start)
    assert await ear.hear() == (ANY_CHANGE, "")
    notify(server.url(), "search next", keep=True)
    assert await ear.hear() == ("search", "next")


@pytest.mark.rule("fleet.notices.polling")
async def test_behind_a_pooler_they_are_told_to_look_for_themselves(
    server: PostgresServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "NOTIFICATION_POLL_SECONDS", 0.05)
    pooler = PgBouncer(server.url())
    ear = Ear(database, pooler.url(server.url()))
    assert [await ear.hear() for _ in range(3)] == [(ANY_CHANGE, "")] * 3
    await ear.close()
    pooler.close()


async def test_with_sqlite_nobody_is_told_anything(tmp_path: Path) -> None:
    database = await open_database(SqliteLocation(tmp_path / "x.db"), pool_size=1)
    ear = Ear(database, "")
    await ear.notices.tell("search", "x")
    await ear.close()
    await database.close()


@pytest.mark.rule("fleet.notices.content")
async def test_a_server_that_started_without_content_says_that_there_is_some(
    server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"database": {"url": server.url()}, "code": {"root": ""}}
    workspace = find_workspace(tmp_path, settings, {})
    file = written(tmp_path / "content.json", small())
    said = "there is content now, which this server does not serve: restart it"
    caplog.set_level(logging.WARNING)
    async with InProcessClient(workspace, "ana"):
        with anyio.fail_after(SECONDS):
            while said not in caplog.text:
                await anyio.to_thread.run_sync(import_content, workspace.location, [file])
    async with InProcessClient(workspace, "ana") as client:
        assert not (await client.call_tool("list_projects")).is_error
        caplog.clear()
        await anyio.to_thread.run_sync(import_content, workspace.location, [file])
    assert said not in caplog.text
