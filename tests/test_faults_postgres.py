"""PostgreSQL that is cut off, full, read-only, slow or out of something: what callers see, and what is kept."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from carrel import InProcessClient
from carrel.errors import StoreUnavailable
from carrel.mcp.pipeline import Answer
from carrel.workspace import find_workspace
from tests.databases import prepare_postgres
from tests.faults import Proxy, can_mount, no_file_may_grow, small_disk
from tests.postgres import UNPRIVILEGED, PostgresServer

pytestmark = pytest.mark.anyio

CALLS = {
    "add_task": ({"title": "x"}, "Failed to create task"),
    "list_tasks": ({}, "Failed to list tasks"),
    "complete_task": ({"task_id": 1}, "Failed to complete task"),
    "delete_task": ({"task_id": 1}, "Failed to delete task"),
    "update_task": ({"task_id": 1, "title": "x"}, "Failed to update task"),
}
WRITES = [name for name in CALLS if name != "list_tasks"]
LONG = "d" * 1000
POOL_SIZE = 3
ENOUGH_SECONDS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database of the test's own, owned by a user who is no superuser, as in earnest."""
    found = prepare_postgres(server.url(), "faults").url
    sql(server.url(), "DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk LOGIN")
    sql(
        found,
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk",
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO clerk",
    )
    return found.replace("postgres@", "clerk@")


@pytest.fixture(autouse=True)
def leave_the_server_as_it_was(server: PostgresServer) -> Iterator[None]:
    yield
    sql(server.url(), "DROP DATABASE IF EXISTS faults WITH (FORCE)", "DROP ROLE IF EXISTS clerk")


def sql(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each.encode())


def backends(url: str) -> list[int]:
    """The server's processes for the clerk."""
    with psycopg.connect(as_admin(url)) as connection:
        rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'clerk'").fetchall()
    return [pid for (pid,) in rows]


def as_admin(url: str) -> str:
    return url.replace("clerk@", "postgres@")


class Ana(InProcessClient):
    """Remembers what was acknowledged, and sees that every answer comes in time."""

    def __init__(self, folder: Path, url: str, *, call_timeout: int = 30) -> None:
        settings = {
            "server": {"toolsets": ["tasks"], "call_timeout": call_timeout},
            "database": {"url": url, "pool_size": POOL_SIZE},
        }
        super().__init__(find_workspace(folder, settings, {}), "ana")
        self.titles: list[str] = []

    async def ask(self, tool: str, **arguments: object) -> Answer:
        async with asyncio.timeout(ENOUGH_SECONDS):
            return await self.call_tool(tool, arguments)

    async def add(self, title: str, description: str = "") -> Answer:
        answer = await self.ask("add_task", title=title, description=description)
        if not answer.is_error:
            self.titles.append(title)
        return answer

    async def add_until_it_fails(self, most: int = 5000) -> Answer:
        for number in range(most):
            if (answer := await self.add(f"t{number}", LONG)).is_error:
                return answer
        raise AssertionError(f"{most} tasks found room")

    async def all_is_kept(self, *perhaps: str) -> None:
        """Everything that was acknowledged is there, and nothing else, but for what nobody could know of."""
        answer = await self.ask("list_tasks")
        assert not answer.is_error, answer
        found = {task["title"] for task in answer.value}
        assert found - set(perhaps) == set(self.titles) - set(perhaps)


@pytest.fixture
async def ana(tmp_path: Path, url: str) -> AsyncIterator[Ana]:
    async with Ana(tmp_path, url) as client:
        yield client


def failed(answer: Answer, tool: str) -> None:
    assert (answer.text, answer.is_error) == (f'{{"error":"{CALLS[tool][1]}"}}', True)


async def every_write_fails(ana: Ana) -> None:
    for tool in WRITES:
        failed(await ana.ask(tool, **CALLS[tool][0]), tool)


def told(log: str, *words: str) -> None:
    for word in words:
        assert word in log, log[-3000:]


# --- the network


@contextmanager
def _between(server: PostgresServer, url: str) -> Iterator[tuple[Proxy, str]]:
    proxy = Proxy(server.port)
    try:
        yield proxy, url.replace(f":{server.port}/", f":{proxy.port}/")
    finally:
        proxy.close()


@pytest.mark.rule("faults.postgres.cut")
@pytest.mark.parametrize("through", [0, 1, 700, 5000])
async def test_an_answer_that_is_cut_in_the_middle_is_read_again(
    server: PostgresServer, tmp_path: Path, url: str, through: int
) -> None:
    with _between(server, url) as (proxy, passing):
        async with Ana(tmp_path, passing) as ana:
            for number in range(20):
                await ana.add(f"t{number}", LONG)
            proxy.cut(after=b"ana", through=through)
            await ana.all_is_kept()
            assert proxy.cuts == 1


@pytest.mark.rule("faults.postgres.cut")
@pytest.mark.parametrize("through", [0, 1, 30, 130])
async def test_a_write_whose_answer_is_cut_is_told_to_have_failed_and_the_next_one_works(
    server: PostgresServer, tmp_path: Path, url: str, through: int, caplog: pytest.LogCaptureFixture
) -> None:
    with _between(server, url) as (proxy, passing):
        async with Ana(tmp_path, passing) as ana:
            await ana.add("before")
            proxy.cut(after=b"nobody knows", through=through)
            failed(await ana.add("nobody knows"), "add_task")
            assert proxy.cuts == 1
            told(caplog.text, "PostgreSQL: ")
            assert not (await ana.add("after")).is_error
            await ana.all_is_kept("nobody knows")


@pytest.mark.rule("faults.postgres.silent")
async def test_a_network_that_swallows_everything_holds_a_call_no_longer_than_its_timeout(
    server: PostgresServer,
    tmp_path: Path,
    url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("carrel.storage.postgres.CANCEL_TIMEOUT_SECONDS", 0.2)  # not to wait for it
    with _between(server, url) as (proxy, passing):
        async with Ana(tmp_path, passing, call_timeout=1) as ana:
            await ana.add("before")
            proxy.is_silent = True
            started = time.monotonic()
            failed(await ana.add("nobody knows"), "add_task")
            failed(await ana.ask("list_tasks"), "list_tasks")
            assert time.monotonic() - started < ENOUGH_SECONDS
            told(caplog.text, "add_task was given up after 1 s")
            proxy.is_silent = False
            for _ in range(2 * POOL_SIZE):
                if not (await ana.add("after")).is_error:
                    break
            await ana.all_is_kept("nobody knows")


# --- the server's disk


@pytest.mark.rule("faults.postgres.full")
async def test_a_full_disk_refuses_writes_keeps_reads_and_needs_no_restart(
    server: PostgresServer, ana: Ana, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await ana.add("before")
    with ExitStack() as stack:
        if can_mount():
            place = Path(tempfile.mkdtemp(prefix="carrel-small-"))
            stack.enter_context(small_disk(place, megabytes=1, owner=UNPRIVILEGED))
            sql(server.url(), f"CREATE TABLESPACE small LOCATION '{place}'")
            sql(as_admin(url), "ALTER TABLE task SET TABLESPACE small")
            failed(await ana.add_until_it_fails(), "add_task")
            told(caplog.text, "No space left on device")
        else:
            with no_file_may_grow(*backends(url), beyond=200_000):
                failed(await ana.add_until_it_fails(), "add_task")
        told(caplog.text, "could not extend file")
        await ana.all_is_kept()
        if can_mount():
            sql(as_admin(url), "ALTER TABLE task SET TABLESPACE pg_default", "DROP TABLESPACE small")
        assert not (await ana.add("after")).is_error
        await ana.all_is_kept()
    told(caplog.text, "free space on the database server's disk")


# --- a server that will not


@pytest.mark.rule("faults.postgres.read_only")
async def test_a_database_that_is_read_only_for_a_while_is_written_to_again_without_a_restart(
    server: PostgresServer, tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = url.rpartition("/")[2]
    async with Ana(tmp_path, url) as ana:
        await ana.add("before")
    kept = ana.titles
    sql(server.url(), f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with Ana(tmp_path, url) as ana:
        ana.titles = kept
        await every_write_fails(ana)
        await ana.all_is_kept()
        told(caplog.text, "read-only transaction", "point database.url at the primary, or let it write again")
        sql(server.url(), f"ALTER DATABASE {name} RESET default_transaction_read_only")
        assert not (await ana.add("after")).is_error
        await ana.all_is_kept()


@pytest.mark.rule("faults.postgres.timeout")
async def test_a_statement_that_the_server_ends_is_a_failure_in_time(
    server: PostgresServer, tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sql(server.url(), "ALTER ROLE clerk SET statement_timeout = '200ms'")
    async with Ana(tmp_path, url) as ana:
        await ana.add("before")
        with psycopg.connect(as_admin(url)) as other:
            other.execute("LOCK TABLE task IN ACCESS EXCLUSIVE MODE")
            await every_write_fails(ana)
            failed(await ana.ask("list_tasks"), "list_tasks")
        told(caplog.text, "statement timeout", "see in pg_stat_activity what the statement waited for")
        assert not (await ana.add("after")).is_error
        await ana.all_is_kept()


@pytest.mark.rule("faults.postgres.connections")
async def test_fewer_connections_than_the_pool_would_have_are_shared(
    server: PostgresServer, tmp_path: Path, url: str
) -> None:
    sql(server.url(), "ALTER ROLE clerk CONNECTION LIMIT 2")
    async with Ana(tmp_path, url) as ana:
        answers = await asyncio.gather(*(ana.add(f"t{number}") for number in range(24)))
        assert not any(answer.is_error for answer in answers)
        await ana.all_is_kept()


@pytest.mark.rule("faults.postgres.connections")
async def test_a_server_that_takes_nobody_in_keeps_a_start_from_succeeding_with_what_to_do(
    server: PostgresServer, tmp_path: Path, url: str
) -> None:
    with psycopg.connect(url):
        sql(server.url(), "ALTER ROLE clerk CONNECTION LIMIT 1")
        with pytest.raises(StoreUnavailable, match=r"too many connections.*lower database.pool_size, or raise"):
            async with Ana(tmp_path, url):
                raise AssertionError("it opened")
    async with Ana(tmp_path, url) as ana:
        assert not (await ana.add("after")).is_error


@pytest.mark.rule("faults.postgres.memory")
async def test_a_server_without_memory_for_another_lock_is_a_failure_until_it_has_some(
    server: PostgresServer, ana: Ana, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await ana.add("before")
    with psycopg.connect(as_admin(url), autocommit=True) as other:
        with pytest.raises(psycopg.errors.OutOfMemory):
            other.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 10000000) AS n")
        failed(await ana.add("refused"), "add_task")
        other.execute("SELECT pg_advisory_unlock_all()")
    told(caplog.text, "out of shared memory", "raise its max_locks_per_transaction")
    assert not (await ana.add("after")).is_error
    await ana.all_is_kept()
