"""A rolling upgrade: servers of two releases over one PostgreSQL, before, during and after `carrel db upgrade`."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from carrel.storage.admin import integrity_problems, migrate, schema_transaction, upgrade
from carrel.storage.database import PostgresLocation
from carrel.storage.schema_version import HEAD, OLDEST_SERVED, REVISIONS, mark, mismatch
from tests.databases import NEXT, build_next_release, described, query
from tests.postgres import recreate_database
from tests.program import Script, ending, run_carrel
from tests.wire import MODERN, HttpServer, HttpWire, call, value

# Upgrades, and waits for a table for a moment only.
UPGRADER = """
import sys
from carrel.storage import admin
from carrel.storage.database import PostgresLocation

admin.LOCK_SECONDS = admin.PAUSE_SECONDS = 0.2
print("ready", flush=True)
print(*admin.upgrade(PostgresLocation(sys.argv[1])), flush=True)
"""


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_next_release(tmp_path_factory.mktemp("next-release"))


@pytest.fixture
def location(postgres_server_url: str, worker_id: str) -> PostgresLocation:
    """A database without any tables."""
    return PostgresLocation(recreate_database(postgres_server_url, f"carrel_{worker_id}_rolling"))


# --- what a migration may do


TAKES_AWAY = {"0009", "0010"}
"""Migrations that do more than add. The schema serves no server that is older."""


@pytest.mark.rule("fleet.upgrade.additive")
def test_every_migration_only_adds_or_serves_no_older_server(location: PostgresLocation) -> None:
    """What was there is there as it was: a release's statements work after the next one's migrations too."""
    assert max(TAKES_AWAY) <= OLDEST_SERVED
    before: dict[str, Any] = {}
    for revision in REVISIONS:
        with schema_transaction(location) as connection:
            migrate(connection, revision)
        after = described(location)
        if before and revision not in TAKES_AWAY:
            check_added(before, after)
        before = after


def check_added(before: dict[str, Any], after: dict[str, Any]) -> None:
    tables = {column[0] for column in before["columns"]}
    for part in ("columns", "constraints", "indexes"):
        missing = [each for each in before[part] if each not in after[part]]
        assert missing == [], f"{part} are gone or changed"
    new_columns = [each for each in after["columns"] if each not in before["columns"] and each[0] in tables]
    for table, _, name, _, is_required, identity, default, *_ in new_columns:
        assert not is_required or default is not None or identity, f"{table}.{name} has neither NULL nor a default"
    new = [each for each in after["constraints"] if each not in before["constraints"] and each[0] in tables]
    assert new == [], "a constraint on a table that was there refuses what the release before writes"
    new = [each for each in after["indexes"] if each not in before["indexes"] and each[0] in tables]
    assert new == [], "an index on a table that was there holds up every write: leave it to storage/admin.py"


def test_the_check_of_migrations_sees_what_does_more_than_add(location: PostgresLocation) -> None:
    """The test above can fail: each of these is seen."""
    upgrade(location)
    before = described(location)
    for change, undo in (
        ("ALTER TABLE task ADD COLUMN extra integer NOT NULL", "ALTER TABLE task DROP COLUMN extra"),
        ("ALTER TABLE task ADD CONSTRAINT x CHECK (id > 0)", "ALTER TABLE task DROP CONSTRAINT x"),
        ("ALTER TABLE task RENAME COLUMN title TO name", "ALTER TABLE task RENAME COLUMN name TO title"),
        ("CREATE INDEX more ON task (title)", "DROP INDEX more"),
        ("DROP INDEX task_by_user", "SELECT 1"),
    ):
        query(location, change)
        with pytest.raises(AssertionError):
            check_added(before, described(location))
        query(location, undo)


# --- which servers a schema serves


def test_the_release_before_is_one_that_this_one_knows() -> None:
    assert OLDEST_SERVED in REVISIONS
    assert OLDEST_SERVED != HEAD or HEAD in TAKES_AWAY


@pytest.mark.parametrize(
    ("mark", "serves"),
    [
        (f"revision 9999 serves {HEAD} and newer", True),
        (f"revision 9999 serves {REVISIONS[0]} and newer", True),
        ("revision 9999 serves 9998 and newer", False),
        (f"revision 9998 serves {HEAD} and newer", False),
        ("revision 9999", False),
        ("", False),
        (None, False),
    ],
)
@pytest.mark.rule("fleet.upgrade.starting")
def test_a_newer_schema_is_served_if_its_mark_says_so(mark: str | None, serves: bool) -> None:
    assert (mismatch("9999", mark) is None) is serves


@pytest.mark.rule("fleet.upgrade.starting")
def test_an_upgrade_writes_down_whom_it_serves(location: PostgresLocation) -> None:
    upgrade(location)
    sql = "SELECT obj_description('alembic_version'::regclass, 'pg_class')"
    assert query(location, sql) == [(mark(HEAD),)]


# --- servers


class Clients(threading.Thread):
    """Add and list tasks without end, and keep what went wrong."""

    def __init__(self, server: HttpServer, user: str) -> None:
        super().__init__(daemon=True)
        self._wire = HttpWire(MODERN, server.url)
        self._user = {"user_id": user}
        self._ends = threading.Event()
        self.acknowledged: list[str] = []
        self.wrong: list[Any] = []
        self.start()

    def run(self) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            answer = call(self._wire, "add_task", {**self._user, "title": str(number)})
            if answer.get("isError"):
                self.wrong.append(answer)
                continue
            self.acknowledged.append(str(number))
            found = [task["title"] for task in value(call(self._wire, "list_tasks", self._user))]
            if sorted(found) != sorted(self.acknowledged):
                self.wrong.append(found)

    def go_on(self, calls: int = 10) -> None:
        """Until so many more have been made."""
        wanted = len(self.acknowledged) + calls
        deadline = time.monotonic() + 60
        while len(self.acknowledged) < wanted and not self.wrong and self.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def end(self) -> None:
        self._ends.set()
        self.join(30)
        self._wire.close()


@pytest.mark.rule("fleet.upgrade.running", "fleet.upgrade.starting")
def test_servers_of_two_releases_serve_through_an_upgrade(
    location: PostgresLocation, tmp_path: Path, next_release: Path
) -> None:
    upgrade(location)
    arguments = ("--toolsets", "tasks", "--database", location.url)
    new = {"PYTHONPATH": str(next_release)}
    servers = [HttpServer(*arguments, cwd=tmp_path)]
    clients = [Clients(servers[0], "ana")]
    try:
        clients[0].go_on()
        done = run_carrel("db", "upgrade", cwd=tmp_path, CARREL_DATABASE_URL=location.url, **new)
        assert f"upgraded from {HEAD} to revision {NEXT}" in done.stdout, done.stderr
        clients[0].go_on()
        with ThreadPoolExecutor(2) as threads:
            starting = [threads.submit(HttpServer, *arguments, cwd=tmp_path, **env) for env in (new, dict[str, str]())]
            servers += [each.result() for each in starting]
        clients += [Clients(servers[1], "bob"), Clients(servers[2], "cy")]
        for each in clients:
            each.go_on()
        assert "has upgraded to revision" in "".join(servers[2].log)
    finally:
        for each in clients:
            each.end()
        for server in servers:
            server.stop()
    assert [each.wrong for each in clients] == [[], [], []]
    kept = query(location, "SELECT count(*) FROM task")
    assert kept == [(sum(len(each.acknowledged) for each in clients),)]


@pytest.mark.rule("fleet.upgrade.waiting")
def test_an_upgrade_that_waits_for_a_table_lets_others_by(
    location: PostgresLocation, tmp_path: Path, next_release: Path
) -> None:
    upgrade(location)
    upgrader = Script(UPGRADER, location.url, cwd=tmp_path, PYTHONPATH=str(next_release))
    with ending([upgrader]), psycopg.connect(location.url) as reader, psycopg.connect(location.url) as other:
        reader.execute("SELECT FROM task")  # a transaction that goes on
        assert upgrader.hear() == "ready"
        other.autocommit = True
        for _ in range(3):
            until(other, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'task'::regclass")
            other.execute("SET lock_timeout = 10000")
            other.execute("SELECT FROM task LIMIT 1")  # stands behind the upgrade, until that gives way
        reader.rollback()
        assert upgrader.hear() == f"{HEAD} {NEXT}"


def until(connection: "psycopg.Connection[Any]", count: str) -> None:
    """Until it is not 0."""
    deadline = time.monotonic() + 30
    while connection.execute(count.encode()).fetchone() == (0,):
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.rule("fleet.upgrade.indexes")
def test_an_index_is_made_beside_those_who_write(location: PostgresLocation) -> None:
    upgrade(location)
    query(location, "DROP INDEX task_by_user")
    add = b"INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'x', 0)"
    with (
        ThreadPoolExecutor(2) as threads,
        psycopg.connect(location.url) as writer,
        psycopg.connect(location.url, autocommit=True) as other,
    ):
        writer.execute(add)  # whose end an index has to wait for
        upgrading = [threads.submit(upgrade, location) for _ in range(2)]
        other.execute("SET lock_timeout = 10000")
        until(other, "SELECT count(*) FROM pg_stat_progress_create_index")
        other.execute(add)
        assert not any(each.done() for each in upgrading)
        writer.commit()
        assert [each.result(30) for each in upgrading] == [(HEAD, HEAD)] * 2
    assert integrity_problems(location) == []


@pytest.mark.rule("fleet.upgrade.indexes")
def test_an_index_that_was_left_half_made_is_made_anew(location: PostgresLocation) -> None:
    upgrade(location)
    query(location, "DROP INDEX task_by_user")
    with psycopg.connect(location.url) as writer, psycopg.connect(location.url, autocommit=True) as other:
        writer.execute("INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'x', 0)")
        other.execute("SET statement_timeout = 100")
        with pytest.raises(psycopg.errors.QueryCanceled):
            other.execute("CREATE INDEX CONCURRENTLY task_by_user ON task (user_id)")
    assert "invalid" in "".join(integrity_problems(location))
    upgrade(location)
    assert integrity_problems(location) == []
