"""The schema and its migrations: they agree, and an upgrade keeps everything, however many start it at once."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from carrel.storage.admin import integrity_problems, migrate, schema_transaction, upgrade
from carrel.storage.database import PostgresLocation, SqliteLocation, locate
from carrel.storage.schema import metadata
from carrel.storage.schema_version import HEAD, REVISIONS, prepare_sqlite
from tests.databases import NEXT, add, add_tasks, build_next_release, described, new_id, query, url_of
from tests.postgres import recreate_database
from tests.program import Script, ending, misused, run_carrel, run_carrel_here

# Opens or upgrades databases as it is told, a line each.
WORKER = """
import asyncio, sys
from pathlib import Path
from carrel.storage.admin import integrity_problems, upgrade
from carrel.storage.database import locate
from carrel.storage.schema_version import open_database

async def open_and_close(location):
    await (await open_database(location, pool_size=1)).close()

for line in sys.stdin:
    command, url = line.split()
    location = locate(url, Path.cwd())
    if command == "open":
        asyncio.run(open_and_close(location))
        print("opened", flush=True)
    else:
        print(*upgrade(location), *integrity_problems(location), flush=True)
"""


@pytest.fixture(scope="session")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_next_release(tmp_path_factory.mktemp("next-release"))


@pytest.fixture
def empty_postgres(postgres_server_url: str, worker_id: str) -> str:
    """A database without any tables."""
    return recreate_database(postgres_server_url, f"carrel_{worker_id}_empty")


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """Each test that asks for this runs on both engines, on a database without tables."""
    if request.param == "sqlite":
        return "sqlite:///carrel.db"
    return request.getfixturevalue("empty_postgres")


# --- the schema and the migrations are one


def test_the_list_of_revisions_is_that_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", "carrel.storage:migrations")
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == REVISIONS
    assert scripts.get_heads() == [HEAD]


def test_migrating_gives_what_the_schema_says_down_to_checks_and_indexes(
    tmp_path: Path, empty_url: str, postgres_server_url: str, worker_id: str
) -> None:
    location = locate(empty_url, tmp_path)
    upgrade(location)
    assert integrity_problems(location) == []
    created = (
        SqliteLocation(tmp_path / "created.db")
        if isinstance(location, SqliteLocation)
        else PostgresLocation(recreate_database(postgres_server_url, f"carrel_{worker_id}_created"))
    )
    with schema_transaction(created) as connection:
        metadata.create_all(connection)
    assert described(location) == described(created)


def contents(location: SqliteLocation) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every table, and what the file itself says about how it is kept."""
    with closing(sqlite3.connect(location.path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
        how = ("journal_mode", "page_size", "encoding", "auto_vacuum", "user_version", "application_id")
        return kept | {name: connection.execute(f"PRAGMA {name}").fetchall() for name in how}


def test_a_file_made_by_a_first_start_is_one_that_the_migrations_would_make(tmp_path: Path) -> None:
    migrated, made = SqliteLocation(tmp_path / "migrated.db"), SqliteLocation(tmp_path / "made.db")
    upgrade(migrated)
    prepare_sqlite(made).close()
    assert (described(made), contents(made)) == (described(migrated), contents(migrated))
    assert integrity_problems(made) == []


def test_a_first_start_leaves_another_programs_tables_as_they_are(tmp_path: Path) -> None:
    location = SqliteLocation(tmp_path / "carrel.db")
    query(location, "CREATE TABLE theirs (what TEXT)")
    query(location, "INSERT INTO theirs VALUES ('kept')")
    prepare_sqlite(location).close()
    assert query(location, "SELECT what FROM theirs") == [("kept",)]
    assert integrity_problems(location) == []


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_file_of_any_older_revision_becomes_what_a_first_start_makes(tmp_path: Path, revision: str) -> None:
    old, made = SqliteLocation(tmp_path / "old.db"), SqliteLocation(tmp_path / "made.db")
    with schema_transaction(old) as connection:
        migrate(connection, revision)
    for each in (old, made):
        prepare_sqlite(each).close()
    assert len(list(tmp_path.glob(f"old.db.before-{HEAD}-*"))) == 1
    assert described(old) == described(made)
    assert integrity_problems(old) == []


def test_a_description_notices_what_differs(tmp_path: Path, empty_url: str) -> None:
    """The test above can fail: each of these is seen."""
    location = locate(empty_url, tmp_path)
    upgrade(location)
    before = described(location)
    query(location, "DROP INDEX task_by_user")
    query(location, "CREATE INDEX task_by_user ON task (id, user_id)")
    assert described(location) != before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP INDEX task_by_user", "task_by_user"),
        ("ALTER TABLE task ADD COLUMN extra INTEGER", "extra"),
        ("DROP TABLE task", "task"),
    ],
)
def test_a_check_tells_where_the_schema_is_not_as_it_should_be(
    tmp_path: Path, empty_url: str, change: str, words: str
) -> None:
    location = locate(empty_url, tmp_path)
    upgrade(location)
    query(location, change)
    (fault,) = {fault.partition(":")[0] for fault in integrity_problems(location)}
    assert fault == f"the schema differs from revision {HEAD}"
    assert words in integrity_problems(location)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP INDEX entity_by_update", "entity_by_update is missing"),
        ("DROP TABLE search_performance_trigrams", "search_performance_trigrams is missing"),
    ],
)
def test_a_check_misses_what_alembic_cannot_compare_on_sqlite(tmp_path: Path, change: str, words: str) -> None:
    location = SqliteLocation(tmp_path / "carrel.db")
    upgrade(location)
    query(location, change)
    assert integrity_problems(location) == [f"the schema differs from revision {HEAD}: {words}"]


def test_a_check_tells_of_damage_to_a_sqlite_file(tmp_path: Path) -> None:
    location = SqliteLocation(tmp_path / "carrel.db")
    upgrade(location)
    add(location, *[{"title": "x"}] * 3)
    with closing(sqlite3.connect(location.path)) as connection:
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'task_by_user'"
        (page,) = connection.execute(index).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with location.path.open("r+b") as file:  # the index loses its last entry
        file.seek((page - 1) * size + 3)
        file.write((2).to_bytes(2, "big"))
    found = integrity_problems(location)
    assert found
    assert all(fault.startswith("integrity: ") for fault in found)
    done = run_carrel_here("db", "check", cwd=tmp_path, CARREL_DATABASE_URL="sqlite:///carrel.db")
    assert (done.returncode, done.stdout) == (1, "\n".join(found) + "\n")


def test_tables_of_another_program_are_no_fault(tmp_path: Path, empty_url: str) -> None:
    location = locate(empty_url, tmp_path)
    query(location, "CREATE TABLE theirs (id INTEGER PRIMARY KEY, what TEXT UNIQUE)")
    upgrade(location)
    assert integrity_problems(location) == []


# --- an upgrade of what is there


def test_a_server_upgrades_an_older_sqlite_file_by_itself_and_keeps_a_copy(tmp_path: Path, next_release: Path) -> None:
    location = SqliteLocation(tmp_path / ".carrel" / "carrel.db")
    upgrade(location)
    before = add_tasks(location)
    done = run_carrel("serve", cwd=tmp_path, PYTHONPATH=str(next_release))
    assert (done.returncode, done.stderr) == (0, "")
    assert query(location, "SELECT version_num FROM alembic_version") == [(NEXT,)]
    assert [(*row, 3) for row in before] == query(
        location, "SELECT id, title, description, completed, created_at, priority FROM task ORDER BY id"
    )
    (copy,) = location.path.parent.glob(f"carrel.db.before-{NEXT}-*")
    aside = SqliteLocation(copy)
    assert query(aside, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    assert query(aside, "SELECT id, title, description, completed, created_at FROM task ORDER BY id") == before
    assert integrity_problems(aside) == []
    checked = run_carrel("db", "check", cwd=tmp_path, PYTHONPATH=str(next_release))
    assert checked.stdout == "SQLite, carrel.db: no problems found\n"
    assert new_id(location) == 4


def test_a_sqlite_file_that_is_up_to_date_is_not_copied(tmp_path: Path) -> None:
    upgrade(SqliteLocation(tmp_path / "carrel.db"))
    assert upgrade(SqliteLocation(tmp_path / "carrel.db")) == (HEAD, HEAD)
    assert os.listdir(tmp_path) == ["carrel.db"]


def test_postgresql_is_upgraded_by_command_and_keeps_everything(
    tmp_path: Path, empty_postgres: str, next_release: Path
) -> None:
    location = PostgresLocation(empty_postgres)
    upgrade(location)
    before = add_tasks(location)
    refused = f"the database is at revision {HEAD}, this Carrel needs {NEXT}: run carrel db upgrade"
    env = {"CARREL_DATABASE_URL": empty_postgres, "PYTHONPATH": str(next_release)}
    misused(run_carrel("serve", cwd=tmp_path, **env), refused, status=1)
    with ending([Script(WORKER, cwd=tmp_path, PYTHONPATH=str(next_release))]) as workers:
        assert at_once(workers, f"upgrade {empty_postgres}") == [f"{HEAD} {NEXT}"], "and no faults after it"
    sql = "SELECT id, title, description, completed, created_at, priority FROM task ORDER BY id"
    assert query(location, sql) == [(*row, 3) for row in before]
    assert new_id(location) == 4


def test_a_server_that_faces_an_empty_postgresql_names_the_command(tmp_path: Path, empty_postgres: str) -> None:
    done = run_carrel("serve", "--database", empty_postgres, cwd=tmp_path)
    misused(done, "the database has no Carrel tables yet: run carrel db upgrade", status=1)


@pytest.mark.parametrize("command", [["db", "upgrade"], ["db", "check"], ["db", "backup", "x.gz"]], ids=" ".join)
def test_a_database_of_a_newer_carrel_is_left_alone(tmp_path: Path, empty_url: str, command: list[str]) -> None:
    location = locate(empty_url, tmp_path)
    upgrade(location)
    query(location, "UPDATE alembic_version SET version_num = '9999'")
    done = run_carrel_here(*command, cwd=tmp_path, CARREL_DATABASE_URL=empty_url)
    assert done.returncode == 1
    assert "at revision 9999" in done.stdout + done.stderr
    assert "pip install -U carrel" in done.stdout + done.stderr
    assert query(location, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_server_that_faces_a_newer_schema_names_the_command(tmp_path: Path, empty_url: str) -> None:
    location = locate(empty_url, tmp_path)
    upgrade(location)
    query(location, "UPDATE alembic_version SET version_num = '9999'")
    done = run_carrel("serve", "--database", empty_url, cwd=tmp_path)
    misused(done, "at revision 9999, which this Carrel does not know", "pip install -U carrel", status=1)
    assert query(location, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_an_upgrade_that_fails_half_way_changes_nothing(tmp_path: Path, empty_url: str, next_release: Path) -> None:
    location = locate(empty_url, tmp_path)
    upgrade(location)
    add(location, {"title": "poison"})
    before = add_tasks(location), described(location)
    env = {"CARREL_DATABASE_URL": empty_url, "PYTHONPATH": str(next_release)}
    misused(run_carrel("db", "upgrade", cwd=tmp_path, **env), "task_title_is_no_poison", status=1)
    assert query(location, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    sql = "SELECT id, title, description, completed, created_at FROM task ORDER BY id"
    assert (query(location, sql), described(location)) == before


# --- several at once


def at_once(workers: list[Script], line: str) -> list[str]:
    for each in workers:
        each.say(line)
    return [each.hear() for each in workers]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Script]]:
    """Four processes that do the same at the same time."""
    folder = tmp_path_factory.mktemp("four")
    with ending([Script(WORKER, cwd=folder) for _ in range(4)]) as workers:
        yield workers


def test_four_processes_may_start_at_once_on_a_sqlite_file_that_is_not_there_yet(
    tmp_path: Path, four: list[Script]
) -> None:
    for number in range(20):
        location = SqliteLocation(tmp_path / str(number) / "carrel.db")
        assert at_once(four, f"open sqlite:///{location.path}") == ["opened"] * 4
        assert list(location.path.parent.glob("*.before-*")) == []
    assert integrity_problems(SqliteLocation(tmp_path / "19" / "carrel.db")) == []


def test_four_upgrades_at_once_are_one_upgrade(tmp_path: Path, empty_url: str, four: list[Script]) -> None:
    location = locate(empty_url, tmp_path)
    assert sorted(at_once(four, f"upgrade {url_of(location)}")) == [f"{HEAD} {HEAD}"] * 3 + [f"None {HEAD}"]


def test_four_processes_may_start_at_once_on_an_older_sqlite_file_and_one_upgrades_it(
    tmp_path: Path, next_release: Path
) -> None:
    with ending([Script(WORKER, cwd=tmp_path, PYTHONPATH=str(next_release)) for _ in range(4)]) as workers:
        for number in range(5):
            location = SqliteLocation(tmp_path / str(number) / "carrel.db")
            upgrade(location)
            assert at_once(workers, f"open {url_of(location)}") == ["opened"] * 4
            assert query(location, "SELECT version_num FROM alembic_version") == [(NEXT,)]
            assert len(list(location.path.parent.glob(f"carrel.db.before-{NEXT}-*"))) == 1
