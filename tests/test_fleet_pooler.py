"""Everything through a real pgbouncer in transaction mode, where two transactions may be on two connections."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from carrel.errors import StoreTimeout
from carrel.storage.admin import upgrade
from carrel.storage.database import PostgresLocation, Session
from carrel.storage.postgres import connect
from carrel.storage.schema_version import HEAD, open_database
from tests.bundles import small, uid, written
from tests.pgbouncer import PgBouncer
from tests.postgres import recreate_database
from tests.program import run_carrel, run_carrel_here
from tests.wire import MODERN, HttpServer, HttpWire, call, value

CALLS = 12
"""More than the 5 after which psycopg prepares a statement."""


@pytest.fixture(scope="module")
def pooler(postgres_server_url: str) -> Iterator[PgBouncer]:
    pooler = PgBouncer(postgres_server_url, connections=3)
    yield pooler
    pooler.close()


@pytest.fixture
def empty(postgres_server_url: str, worker_id: str) -> str:
    """A database without tables, past the pooler."""
    return recreate_database(postgres_server_url, f"carrel_{worker_id}_pooled")


@pytest.fixture
def pooled(pooler: PgBouncer, empty: str) -> Iterator[str]:
    """The same through it. Its connections end with the test: they would outlive the database."""
    yield pooler.url(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def carrel(folder: Path, *words: str, **env: str) -> str:
    done = run_carrel_here(*words, cwd=folder, CARREL_CODE_ROOT="", CARREL_EMBEDDINGS_PROVIDER="none", **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.rule("fleet.pooler.commands")
def test_the_commands_work_through_it(tmp_path: Path, pooled: str) -> None:
    run = partial(carrel, tmp_path, CARREL_DATABASE_URL=pooled)
    assert f"to revision {HEAD}" in run("db", "upgrade")
    for _ in range(2):  # the second time over connections that have been used
        written(tmp_path / "content.json", small())
        run("import", "content", "content.json")
    run("db", "backup", "all.gz")
    run("db", "restore", "--replace", "all.gz")
    run("index")
    assert "The tide" in run("search", "tide")
    run("export", "content", "out.json")
    assert "no problems found" in run("db", "check")


@pytest.mark.rule("fleet.pooler.commands")
def test_the_commands_take_the_direct_way_where_there_is_one(tmp_path: Path, empty: str) -> None:
    """There is nothing at `database.url`, so that whatever goes there fails."""
    nowhere = "postgresql://postgres@127.0.0.1:1/x"
    run = partial(carrel, tmp_path, CARREL_DATABASE_URL=nowhere, CARREL_DATABASE_DIRECT_URL=empty)
    run("db", "upgrade")
    run("import", "content", str(written(tmp_path / "content.json", small())))
    run("db", "backup", "all.gz")
    run("db", "restore", "--replace", "all.gz")
    assert "no problems found" in run("db", "check")


@pytest.mark.rule("fleet.pooler.commands")
def test_four_upgrades_at_once_are_one_upgrade(pooled: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(upgrade, [PostgresLocation(pooled)] * 4))
    assert sorted(map(str, found)) == sorted(map(str, [(None, HEAD), *[(HEAD, HEAD)] * 3]))


@pytest.mark.rule("fleet.pooler.serving")
def test_every_toolset_works(tmp_path: Path, pooled: str) -> None:
    upgrade(PostgresLocation(pooled))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tide.md").write_text("# Tide\n\nThe sea rises.")
    (tmp_path / "moon.py").write_text("def moon():\n    'pulls the tide'\n")
    env = {"CARREL_DATABASE_URL": pooled, "CARREL_EMBEDDINGS_PROVIDER": "none"}
    written(tmp_path / "content.json", small())
    assert run_carrel("import", "content", "content.json", cwd=tmp_path, **env).returncode == 0
    toolsets = "tasks,catalog,bridge,notes,code,journal"
    servers = [HttpServer("--toolsets", toolsets, cwd=tmp_path, **env) for _ in range(2)]

    def work(number: int) -> str:
        """One client's work; the last answer."""
        names = ("tasks", "catalog", "bridge", "journal", "code")
        with ExitStack() as stack:
            wires = [HttpWire(MODERN, servers[number % 2].url, f"/{name}/mcp") for name in names]
            for each in wires:
                stack.callback(each.close)
            tasks, catalog, bridge, journal, code = wires
            user = {"user_id": f"user-{number}"}
            for each in range(CALLS):
                assert value(call(tasks, "add_task", {**user, "title": str(each)}))["status"] == "created"
                found = value(call(tasks, "list_tasks", user))
                assert sorted(task["title"] for task in found) == sorted(map(str, range(each + 1)))
                assert "reef" in json.dumps(call(catalog, "list_projects", {}))
                answer = call(bridge, "search_entities", {"projectId": uid(1), "search": "tide"})
                assert "The tide" in json.dumps(answer), answer
            call(journal, "record_discovery", {"type": "rule", "content": moon(number)})
            return json.dumps(call(code, "context_search", {"query": moon(number)}))

    def moon(number: int) -> str:
        return f"the moon {number} pulls the sea"

    try:
        with ThreadPoolExecutor(4) as threads:
            for number, answer in enumerate(threads.map(work, range(4))):
                assert moon(number) in answer
        log = "".join(line for server in servers for line in server.log)
        assert "prepared statement" not in log
    finally:
        for server in servers:
            server.stop()


@pytest.mark.anyio
@pytest.mark.rule("fleet.pooler.prepared")
async def test_nothing_stays_prepared_however_often_it_is_asked(empty: str, pooled: str) -> None:
    upgrade(PostgresLocation(empty))
    one = await open_database(PostgresLocation(pooled), pool_size=4)
    other = await open_database(PostgresLocation(pooled), pool_size=4)

    async def ask(session: Session) -> Any:
        return await session.first("SELECT count(*) FROM pg_prepared_statements WHERE :x > 0", {"x": 1})

    async def several(database: Any) -> None:
        for _ in range(CALLS):
            assert await database.read(ask) == (0,)
            assert await database.snapshot(ask, seconds=5) == (0,)
            assert await database.write(ask) == (0,)

    async with anyio.create_task_group() as tasks:
        for database in (one, other, one, other):
            tasks.start_soon(several, database)
    with pytest.raises(StoreTimeout):
        await one.snapshot(lambda session: session.first("SELECT pg_sleep(9)", {}), seconds=0.1)
    with anyio.move_on_after(0.2):
        await one.read(lambda session: session.first("SELECT pg_sleep(30)", {}))
    row = await one.read(
        lambda session: session.first(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(30)' AND state = 'active'", {}
        )
    )
    assert row == (0,), "a cancelled call is cancelled in the server, too"
    await one.close()
    await other.close()


@pytest.mark.rule("fleet.pooler.prepared")
def test_the_administrators_connection_knows_whether_a_pooler_is_between(empty: str, pooled: str) -> None:
    for url, prepares in ((empty, True), (pooled, False)):
        connection = connect(url)
        assert (connection.prepare_threshold is not None) is prepares
        connection.close()
