"""PostgreSQL goes away and comes back: what callers see of it, and what they do not."""

import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import psycopg
import pytest

from carrel import InProcessClient
from carrel.errors import StoreUnavailable
from carrel.storage.admin import upgrade
from carrel.storage.database import Database, PostgresLocation, Row, Session
from carrel.storage.schema_version import open_database
from carrel.workspace import find_workspace
from tests.postgres import PostgresServer
from tests.wire import MODERN, HttpServer, HttpWire, call, value

pytestmark = pytest.mark.anyio

POOL_SIZE = 4
BOUND_SECONDS = 12  # a call that finds no server: at most twice the 5 seconds it tries for a connection
ADD = "INSERT INTO task (user_id, title, created_at) VALUES ('ana', :title, 0) RETURNING title"
CALLS = {
    "add_task": ({"title": "x"}, "Failed to create task"),
    "list_tasks": ({}, "Failed to list tasks"),
    "complete_task": ({"task_id": 1}, "Failed to complete task"),
    "delete_task": ({"task_id": 1}, "Failed to delete task"),
    "update_task": ({"task_id": 1, "title": "x"}, "Failed to update task"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own; each test leaves it running."""
    server = PostgresServer()
    upgrade(PostgresLocation(server.url()))
    yield server
    server.close()


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[Database]:
    """Empty, with all its connections open and idle."""
    database = await open_database(PostgresLocation(server.url()), pool_size=POOL_SIZE)
    await database.write(lambda session: session.all("DELETE FROM task", {}))
    arrived: list[None] = []
    everyone = anyio.Event()

    async def meet(_session: Session) -> None:
        arrived.append(None)
        if len(arrived) == POOL_SIZE:
            everyone.set()
        await everyone.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(POOL_SIZE):
            tasks.start_soon(database.read, meet)
    yield database
    await database.close()


@pytest.fixture
async def ana(server: PostgresServer, tmp_path: Path) -> AsyncIterator[InProcessClient]:
    async with InProcessClient(find_workspace(tmp_path, {"database": {"url": server.url()}}, {}), "ana") as client:
        yield client


def restart(server: PostgresServer) -> None:
    server.stop()
    server.start()


async def add(database: Database, title: str) -> Row | None:
    return await database.write(lambda session: session.first(ADD, {"title": title}))


async def titles(database: Database) -> list[str]:
    rows = await database.read(lambda session: session.all("SELECT title FROM task ORDER BY id", {}))
    return [row[0] for row in rows]


def terminate(server: PostgresServer, pid: int) -> None:
    """End a connection from the server's side; it has ended when this returns."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


async def pid_of(session: Session) -> int:
    row = await session.first("SELECT pg_backend_pid()", {})
    assert row is not None
    return row[0]


# --- a restart


async def test_a_read_over_a_restart_succeeds_however_many_connections_died(
    server: PostgresServer, database: Database
) -> None:
    await add(database, "kept")
    restart(server)
    assert await titles(database) == ["kept"]
    restart(server)
    async with anyio.create_task_group() as tasks:
        for _ in range(2 * POOL_SIZE):
            tasks.start_soon(titles, database)


async def test_a_write_on_a_connection_that_died_before_it_began_is_begun_anew(
    server: PostgresServer, database: Database
) -> None:
    restart(server)
    for number in range(POOL_SIZE):
        assert await add(database, str(number)) == (str(number),)
    async with anyio.create_task_group() as tasks:
        for _ in range(POOL_SIZE):
            tasks.start_soon(add, database, "together")
    assert await titles(database) == ["0", "1", "2", "3"] + ["together"] * POOL_SIZE


@pytest.mark.rule("tasks.failure.database")
async def test_a_tool_that_writes_answers_its_failure_while_the_server_is_away_and_works_again(
    server: PostgresServer, ana: InProcessClient
) -> None:
    await ana.call_tool("list_tasks")
    server.stop()
    answer = await ana.call_tool("add_task", {"title": "lost"})
    assert (answer.text, answer.is_error) == ('{"error":"Failed to create task"}', True)
    server.start()
    answer = await ana.call_tool("add_task", {"title": "kept"})
    assert (answer.value["title"], answer.is_error) == ("kept", False)


# --- one connection


async def test_a_transaction_whose_connection_is_cut_leaves_nothing_and_the_next_works(
    server: PostgresServer, database: Database
) -> None:
    async def work(session: Session) -> None:
        await session.first(ADD, {"title": "half"})
        await anyio.to_thread.run_sync(terminate, server, await pid_of(session))
        await session.first(ADD, {"title": "other half"})

    with pytest.raises(StoreUnavailable):
        await database.write(work)
    await add(database, "next")
    assert await titles(database) == ["next"]


async def test_a_transaction_whose_connection_is_cut_before_the_commit_leaves_nothing(
    server: PostgresServer, database: Database
) -> None:
    async def work(session: Session) -> None:
        await session.first(ADD, {"title": "whole"})
        await anyio.to_thread.run_sync(terminate, server, await pid_of(session))

    with pytest.raises(StoreUnavailable):
        await database.write(work)
    assert await titles(database) == []


@pytest.mark.parametrize("cuts", [1, 2])
async def test_a_read_is_tried_twice_and_not_more(server: PostgresServer, database: Database, cuts: int) -> None:
    tries: list[int] = []

    async def work(session: Session) -> Row | None:
        tries.append(await pid_of(session))
        if len(tries) <= cuts:
            await anyio.to_thread.run_sync(terminate, server, tries[-1])
        return await session.first("SELECT 'read'", {})

    if cuts == 1:
        assert await database.read(work) == ("read",)
    else:
        with pytest.raises(StoreUnavailable):
            await database.read(work)
    assert len(set(tries)) == 2, "the second time on another connection"
    await database.ping()


# --- no server


@pytest.mark.rule("tasks.failure.database", "common.error.no_leak")
async def test_without_a_server_every_tool_answers_its_own_failure_and_nothing_else(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("carrel.storage.postgres.CONNECT_TIMEOUT_SECONDS", 1)  # not to wait for it
    workspace = find_workspace(tmp_path, {"database": {"url": server.url()}}, {})
    answers: dict[str, str] = {}
    async with InProcessClient(workspace, "ana") as ana:

        async def ask(name: str) -> None:
            answer = await ana.call_tool(name, CALLS[name][0])
            assert answer.is_error
            answers[name] = answer.text

        server.stop()
        try:
            async with anyio.create_task_group() as tasks:
                for name in CALLS:
                    tasks.start_soon(ask, name)
        finally:
            server.start()
        assert answers == {name: f'{{"error":"{message}"}}' for name, (_, message) in CALLS.items()}
        assert "refused" in caplog.text, "the cause is in the log"
        assert not (await ana.call_tool("add_task", {"title": "back"})).is_error


@pytest.mark.slow
@pytest.mark.rule("tasks.failure.database")
def test_a_server_says_that_it_is_not_ready_while_its_database_is_away(server: PostgresServer, tmp_path: Path) -> None:
    http = HttpServer("--database", server.url(), cwd=tmp_path)
    wire = HttpWire(MODERN, http.url)
    try:

        def asked(path: str) -> tuple[int, object]:
            started = time.monotonic()
            response = httpx.get(http.url + path, timeout=30, trust_env=False)
            assert time.monotonic() - started < BOUND_SECONDS
            return response.status_code, response.json()

        ready = (200, {"status": "ready", "stores": {"database": "ok"}})
        assert asked("/readyz") == ready
        server.stop()
        try:
            with ThreadPoolExecutor() as pool:
                readiness = pool.submit(asked, "/readyz")
                result = call(wire, "add_task", {"user_id": "ana", "title": "x"})
                assert asked("/healthz") == (200, {"status": "ok"})
            assert readiness.result() == (503, {"status": "unavailable", "stores": {"database": "unreachable"}})
            assert (value(result), result["isError"]) == ({"error": "Failed to create task"}, True)
        finally:
            server.start()
        assert asked("/readyz") == ready
        assert value(call(wire, "add_task", {"user_id": "ana", "title": "x"}))["status"] == "created"
    finally:
        wire.close()
        assert http.stop() == 128 + 15
