"""Backup and restore: on each engine and from one to the other, while writers write, all of it or nothing."""

import gzip
import json
import os
import pty
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import psycopg
import pytest

from carrel.errors import CarrelError, StoreError, UsageError
from carrel.storage.admin import faults, upgrade
from carrel.storage.backup import restore, write_backup
from carrel.storage.location import Location, PostgresLocation, SqliteLocation
from carrel.storage.schema import metadata
from tests.databases import (
    NEXT,
    add,
    add_tasks,
    build_next_release,
    described,
    new_id,
    prepare_desk,
    prepare_postgres,
    prepare_sqlite,
    query,
    url_of,
)
from tests.postgres import recreate_database
from tests.program import Script, ending, run_carrel_here
from tests.wire import CARREL, environment

ALL = "SELECT id, user_id, title, description, completed, created_at, completed_at FROM task ORDER BY id"
ODD = "o'dd \" \\ : % 😀 \u2028 e\u0301"

# Adds pairs, each in a transaction of its own, until it is killed.
PAIR_WRITER = """
import asyncio, sys
from pathlib import Path
from carrel.errors import StoreError
from carrel.storage.location import locate
from carrel.storage.opening import open_database

async def main(url):
    database = await open_database(locate(url, Path.cwd()), pool_size=2)
    sql = "INSERT INTO task (user_id, title, created_at) VALUES ('ana', :title, 0)"

    async def pair(session):
        await session.all(sql, {"title": "left"})
        await session.all(sql, {"title": "right"})

    while True:
        try:
            await database.write(pair)
        except StoreError as error:
            print("failed", error, flush=True)
        else:
            print("written", flush=True)

asyncio.run(main(sys.argv[1]))
"""

RESTORER = """
import sys
from pathlib import Path
from carrel.storage.backup import restore
from carrel.storage.location import locate

def progress(rows):
    print(rows, flush=True)
    sys.stdin.readline()

restore(locate(sys.argv[1], Path.cwd()), Path(sys.argv[2]), replace=True, progress=progress)
"""


# With files limited to 50 kB, as on a disk that is full.
RESTORER_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from carrel.errors import StoreError
from carrel.storage.backup import restore
from carrel.storage.location import locate
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    restore(locate(sys.argv[1], Path.cwd()), Path(sys.argv[2]), replace=True, progress=print)
except StoreError as error:
    print(error)
"""


def quiet(_rows: int) -> None:
    pass


def backup(location: Location, target: Path) -> dict[str, int]:
    return held(write_backup(location, target, quiet))


def restored(location: Location, source: Path, *, replace: bool = False) -> dict[str, int]:
    return held(restore(location, source, replace=replace, progress=quiet))


def held(rows: dict[str, int]) -> dict[str, int]:
    """The tables that hold something; every table is counted."""
    assert rows.keys() >= {name for name, table in metadata.tables.items() if not table.info.get("is_passing")}
    return {table: count for table, count in rows.items() if count}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().split("\n") if line]


def parts(path: Path) -> tuple[Any, list[Any], Any, list[list[Any]], Any]:
    """A backup's header, its tables without rows, the table of tasks, its rows, and the counts."""
    header, *content, counts = lines(path)
    tables = [line for line in content if isinstance(line, dict)]
    (table,) = [line for line in tables if line["table"] == "task"]
    return (
        header,
        [each for each in tables if each is not table],
        table,
        [line for line in content if isinstance(line, list)],
        counts,
    )


class NewDatabase(Protocol):
    def __call__(self, engine: str, *, ready: bool = False) -> Location: ...


@pytest.fixture(scope="session")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_next_release(tmp_path_factory.mktemp("next-release"))


@pytest.fixture
def new_database(tmp_path: Path, postgres_server_url: str, worker_id: str) -> NewDatabase:
    """Makes empty databases, by engine; with the schema in place, where they are to be ready."""
    count = iter(range(10))

    def make(engine: str, *, ready: bool = False) -> Location:
        name = f"carrel_{worker_id}_{next(count)}"
        if engine == "sqlite":
            path = tmp_path / name.rpartition("_")[2] / "carrel.db"
            return prepare_sqlite(path) if ready else SqliteLocation(path)
        if ready:
            return prepare_postgres(postgres_server_url, name)
        return PostgresLocation(recreate_database(postgres_server_url, name))

    return make


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, new_database: NewDatabase) -> Location:
    """Each test that asks for this runs on both engines, on a database that holds a few tasks."""
    location = new_database(request.param, ready=True)
    fill(location)
    return location


def fill(location: Location) -> None:
    """Four tasks with every kind of value; the last id given out is 7, and its task is gone."""
    add_tasks(location)
    values = {"description": ODD * 20, "completed": True, "created_at": 2**53 + 1, "completed_at": 5}
    add(location, {"user_id": "ben", "title": "z" * 200, **values})
    add(location, {"user_id": "bén 😀", "title": ODD}, {"title": "gone"}, {"title": "gone"})
    query(location, "DELETE FROM task WHERE title = 'gone'")


# --- there and back


@pytest.mark.parametrize("source", ["sqlite", "postgres"])
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.rule("tasks.task_id.never_reused")
def test_a_backup_put_back_has_the_same_rows_and_the_same_next_id(
    tmp_path: Path, new_database: NewDatabase, source: str, target: str
) -> None:
    first, second = new_database(source, ready=True), new_database(target)
    fill(first)
    rows = query(first, ALL)
    assert backup(first, tmp_path / "one.gz") == {"task": 4}
    assert restored(second, tmp_path / "one.gz") == {"task": 4}
    assert query(second, ALL) == rows
    assert faults(second) == []
    backup(second, tmp_path / "two.gz")
    assert lines(tmp_path / "two.gz")[1:] == lines(tmp_path / "one.gz")[1:]
    assert new_id(first) == new_id(second) == 8


def test_a_backup_of_many_rows_is_whole(tmp_path: Path, location: Location) -> None:
    """More than are read and written at a time."""
    add(location, *[{"title": "x"}] * 2500)
    rows = query(location, ALL)
    counted: list[int] = []
    assert held(write_backup(location, tmp_path / "x.gz", counted.append)) == {"task": 2504}
    assert sum(counted) == 2504
    counted.clear()
    assert held(restore(location, tmp_path / "x.gz", replace=True, progress=counted.append)) == {"task": 2504}
    assert sum(counted) == 2504
    assert query(location, ALL) == rows


def test_an_empty_database_can_be_backed_up_and_put_back(tmp_path: Path, new_database: NewDatabase) -> None:
    for engine in ("sqlite", "postgres"):
        location = new_database(engine)
        with pytest.raises(CarrelError):
            backup(location, tmp_path / "nothing.gz")
        upgrade(location)
        assert backup(location, tmp_path / f"{engine}.gz") == {}
        assert restored(location, tmp_path / f"{engine}.gz") == {}
        assert new_id(location) == 1
    assert sorted(os.listdir(tmp_path)) == ["0", "postgres.gz", "sqlite.gz"]


@pytest.mark.rule("tasks.task_id.never_reused")
def test_ids_given_out_since_the_backup_are_not_given_out_again(tmp_path: Path, location: Location) -> None:
    backup(location, tmp_path / "x.gz")
    assert new_id(location) == 8
    restored(location, tmp_path / "x.gz", replace=True)
    assert [row[0] for row in query(location, ALL)] == [1, 2, 4, 5]
    assert new_id(location) == 9


def test_a_backup_of_an_older_schema_is_put_back_and_upgraded(
    tmp_path: Path, location: Location, next_release: Path
) -> None:
    rows = query(location, ALL)
    backup(location, tmp_path / "old.gz")
    program = """
import sys
from pathlib import Path
from carrel.storage.admin import changing, faults
from carrel.storage.backup import restore, write_backup
from carrel.storage.location import locate
location = locate(sys.argv[1], Path.cwd())
restore(location, Path("old.gz"), replace=True, progress=lambda rows: None)
with changing(location) as connection:
    connection.exec_driver_sql("INSERT INTO label VALUES ('a', 1), ('b', 4)")
for rows in (
    write_backup(location, Path("new.gz"), lambda rows: None),
    restore(location, Path("new.gz"), replace=True, progress=lambda rows: None),
):
    print({name: count for name, count in rows.items() if count})
print(*faults(location))
"""
    with ending([Script(program, url_of(location), cwd=tmp_path, PYTHONPATH=str(next_release))]) as (script,):
        assert script.finish().splitlines() == ["{'task': 4, 'label': 2}"] * 2 + [""]
    assert query(location, "SELECT * FROM label ORDER BY id") == [("a", 1), ("b", 4)]
    assert query(location, f"{ALL.replace(' FROM', ', priority FROM')}") == [(*row, 5 if row[4] else 3) for row in rows]
    assert query(location, "SELECT version_num FROM alembic_version") == [(NEXT,)]
    assert new_id(location) == 8
    with pytest.raises(UsageError, match="written by a newer Carrel"):
        restored(location, tmp_path / "new.gz", replace=True)


# --- what is left alone


def test_a_file_that_exists_is_not_written_over(tmp_path: Path, location: Location) -> None:
    (tmp_path / "x.gz").write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        backup(location, tmp_path / "x.gz")
    assert (tmp_path / "x.gz").read_text() == "precious"


def test_nothing_is_left_of_a_backup_that_fails(tmp_path: Path, location: Location) -> None:
    folder = tmp_path / "backups"
    with pytest.raises(StoreError, match="cannot write"):
        backup(location, folder / "x.gz")

    def give_up(_rows: int) -> None:
        raise KeyboardInterrupt

    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_backup(location, folder / "x.gz", give_up)
    assert os.listdir(folder) == []
    backup(location, folder / "x.gz")
    assert (folder / "x.gz").stat().st_mode & 0o077 == 0, "it is as private as the tasks in it"


def test_a_database_that_has_rows_is_replaced_only_when_told_so(tmp_path: Path, location: Location) -> None:
    backup(location, tmp_path / "x.gz")
    query(location, "UPDATE task SET title = 'changed'")
    rows = query(location, ALL)
    with pytest.raises(UsageError, match="--replace"):
        restored(location, tmp_path / "x.gz")
    assert query(location, ALL) == rows
    restored(location, tmp_path / "x.gz", replace=True)
    assert query(location, ALL) != rows
    if isinstance(location, SqliteLocation):
        (aside,) = location.path.parent.glob("carrel.db.before-restore-*")
        assert query(SqliteLocation(aside), ALL) == rows


def test_an_empty_database_needs_no_telling_and_no_copy(tmp_path: Path, location: Location) -> None:
    backup(location, tmp_path / "x.gz")
    rows = query(location, ALL)
    query(location, "DELETE FROM task")
    restored(location, tmp_path / "x.gz")
    assert query(location, ALL) == rows
    if isinstance(location, SqliteLocation):
        assert list(location.path.parent.glob("*.before-restore-*")) == []


def test_what_was_counted_in_the_last_minute_is_neither_backed_up_nor_in_the_way(
    tmp_path: Path, location: Location
) -> None:
    query(location, "INSERT INTO rate_window (client, calls, wait, seen_at) VALUES ('ana', '[]', 0, 1)")
    backup(location, tmp_path / "x.gz")
    assert "rate_window" not in gzip.decompress((tmp_path / "x.gz").read_bytes()).decode()
    query(location, "DELETE FROM task")
    restored(location, tmp_path / "x.gz")


def test_nothing_is_replaced_where_the_copy_aside_cannot_be_made(
    tmp_path: Path, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = new_database("sqlite", ready=True)
    assert isinstance(location, SqliteLocation)
    fill(location)
    backup(location, tmp_path / "x.gz")
    add(location, *[{"title": "x", "description": "x" * 1000}] * 100)
    rows = query(location, ALL)
    with ending([Script(RESTORER_WITHOUT_ROOM, url_of(location), tmp_path / "x.gz", cwd=tmp_path)]) as (script,):
        assert script.hear().startswith("cannot copy carrel.db aside: ")
        assert script.finish() == ""
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=0))
    with pytest.raises(StoreError, match=r"no room beside carrel\.db"):
        restored(location, tmp_path / "x.gz", replace=True)
    assert query(location, ALL) == rows
    assert list(location.path.parent.glob("*.before-*")) == []


def test_a_table_that_was_lost_comes_back(tmp_path: Path, location: Location) -> None:
    backup(location, tmp_path / "x.gz")
    rows = query(location, ALL)
    query(location, "DROP TABLE task")
    restored(location, tmp_path / "x.gz")
    assert query(location, ALL) == rows
    assert faults(location) == []


def test_tables_of_another_program_are_neither_backed_up_nor_touched(tmp_path: Path, location: Location) -> None:
    query(location, "CREATE TABLE theirs (id INTEGER PRIMARY KEY, task_id INTEGER, what BYTEA)")
    query(location, "INSERT INTO theirs (id, task_id) VALUES (1, 1)")
    assert backup(location, tmp_path / "x.gz") == {"task": 4}
    restored(location, tmp_path / "x.gz", replace=True)
    assert query(location, "SELECT id, task_id FROM theirs") == [(1, 1)]


def test_a_database_without_our_tables_but_with_one_of_that_name_is_not_touched(
    tmp_path: Path, location: Location, new_database: NewDatabase
) -> None:
    backup(location, tmp_path / "x.gz")
    theirs = new_database("sqlite" if isinstance(location, SqliteLocation) else "postgres")
    query(theirs, "CREATE TABLE task (what TEXT)")
    query(theirs, "INSERT INTO task VALUES ('precious')")
    with pytest.raises(StoreError, match="already exists"):
        restored(theirs, tmp_path / "x.gz", replace=True)
    assert query(theirs, "SELECT * FROM task") == [("precious",)]


# --- files that are no backup


def damaged(good: Path) -> dict[str, bytes]:
    header, others, table, rows, counts = parts(good)
    before = [header, *others]
    whole = good.read_bytes()

    def packed_lines(*some: Any) -> bytes:
        return gzip.compress("".join(json.dumps(line) + "\n" for line in some).encode())

    def without_one(counts: Any) -> Any:
        return {"rows": {name: rows for name, rows in counts["rows"].items() if name != others[0]["table"]}}

    return {
        "empty": b"",
        "no gzip": b"precious",
        "cut short": whole[: len(whole) // 2],
        "without its end": whole[:-8],
        "garbled": whole[:60] + bytes(byte ^ 0x55 for byte in whole[60:90]) + whole[90:],
        "with more behind it": whole + b"more",
        "two in one": whole + whole,
        "gzip of nothing": gzip.compress(b""),
        "gzip of text": gzip.compress(b"To be, or not to be\n"),
        "gzip of bytes": gzip.compress(b"\xff\xfe\x00"),
        "deep": gzip.compress(b"[" * 100_000),
        "foreign JSON": packed_lines({"a": 1}, [1], {"rows": {}}),
        "JSON without objects": packed_lines(1, 2),
        "without its last line": packed_lines(*before, table, *rows),
        "without a row": packed_lines(*before, table, *rows[1:], counts),
        "without the table": packed_lines(*before, *rows, counts),
        "a row too short": packed_lines(*before, table, rows[0][1:], *rows[1:], counts),
        "rows before their table": packed_lines(*before, *rows, table, counts),
        "another table": packed_lines(
            *before, {**table, "table": "users"}, *rows, {"rows": counts["rows"] | {"users": 4}}
        ),
        "one table less": packed_lines(header, *others[1:], table, *rows, without_one(counts)),
        "no table": packed_lines(header, {"rows": {}}),
        "another column": packed_lines(*before, {**table, "columns": list("abcdefg")}, *rows, counts),
        "a title too long": packed_lines(*before, table, [1, "ana", "x" * 201, *rows[0][3:]], *rows[1:], counts),
        "a title that is none": packed_lines(*before, table, [1, "ana", None, *rows[0][3:]], *rows[1:], counts),
        "an object for a title": packed_lines(*before, table, [1, "ana", {}, *rows[0][3:]], *rows[1:], counts),
        "a word for a truth": packed_lines(*before, table, [*rows[0][:4], "yes", *rows[0][5:]], *rows[1:], counts),
        "half a character": packed_lines(*before, table, [1, "ana", "\ud800", *rows[0][3:]], *rows[1:], counts),
        "an id beyond all": packed_lines(*before, table, [2**70, *rows[0][1:]], *rows[1:], counts),
        "a last id beyond all": packed_lines(*before, {**table, "last_id": 2**70}, *rows, counts),
        "an id twice": packed_lines(*before, table, rows[0], *rows[:3], counts),
        "a newer format": packed_lines({**header, "carrel-backup": 2}, *others, table, *rows, counts),
        "a newer revision": packed_lines({**header, "revision": "9999"}, *others, table, *rows, counts),
        "no revision": packed_lines({"carrel-backup": 1}, *others, table, *rows, counts),
    }


def test_a_damaged_or_foreign_file_is_refused_and_nothing_is_changed(tmp_path: Path, location: Location) -> None:
    backup(location, tmp_path / "good.gz")
    query(location, "UPDATE task SET title = 'changed' WHERE id = 1")
    before = query(location, ALL), described(location)
    bad = tmp_path / "bad.gz"
    for kind, content in damaged(tmp_path / "good.gz").items():
        bad.write_bytes(content)
        with pytest.raises(CarrelError) as caught:
            restored(location, bad, replace=True)
        assert isinstance(caught.value, UsageError | StoreError), kind
        assert query(location, ALL) == before[0], kind
    with pytest.raises(UsageError, match="does not exist"):
        restored(location, tmp_path / "nowhere.gz", replace=True)
    assert described(location) == before[1]
    assert new_id(location) == 8


def test_the_program_tells_of_a_damaged_file_without_a_traceback(tmp_path: Path) -> None:
    prepare_desk(tmp_path)
    run_carrel_here("db", "backup", "good.gz", cwd=tmp_path)
    whole = (tmp_path / "good.gz").read_bytes()
    (tmp_path / "bad.gz").write_bytes(whole[:30] + b"garbled" + whole[37:])
    done = run_carrel_here("db", "restore", "bad.gz", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("carrel: bad.gz cannot be read as a Carrel backup: ")


# --- in the middle of things


def test_a_restore_that_is_killed_half_way_has_changed_nothing(tmp_path: Path, location: Location) -> None:
    add(location, *[{"title": "x"}] * 1500)
    backup(location, tmp_path / "x.gz")
    query(location, "DELETE FROM task WHERE title = 'x'")
    before = query(location, ALL), described(location)
    with ending([Script(RESTORER, url_of(location), tmp_path / "x.gz", cwd=tmp_path)]) as (script,):
        assert script.hear() == "1000"  # dropped, made anew and half filled
        script.kill()
    assert (query(location, ALL), described(location)) == before
    assert faults(location) == []


def test_a_backup_beside_a_writer_has_each_of_its_transactions_whole_or_not_at_all(
    tmp_path: Path, location: Location
) -> None:
    query(location, "DELETE FROM task")
    sizes: list[int] = []
    with ending([Script(PAIR_WRITER, url_of(location), cwd=tmp_path) for _ in range(2)]) as writers:
        for number in range(6):
            for writer in writers:
                assert [writer.hear() for _ in range(20)] == ["written"] * 20
            backup(location, tmp_path / f"{number}.gz")
            _, _, table, rows, _ = parts(tmp_path / f"{number}.gz")
            titles = [row[table["columns"].index("title")] for row in rows]
            assert titles.count("left") == titles.count("right") == len(titles) / 2
            assert max(row[0] for row in rows) <= table["last_id"]
            sizes.append(len(rows))
    assert sizes[0] >= 80
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1], "they did write all the while"


def test_servers_go_on_over_a_restore(tmp_path: Path, location: Location) -> None:
    """A write waits for it, or comes before it and is gone with the rest; none fails, none is half there."""
    backup(location, tmp_path / "x.gz")
    with ending([Script(PAIR_WRITER, url_of(location), cwd=tmp_path) for _ in range(2)]) as writers:
        for _ in range(3):
            for writer in writers:
                assert [writer.hear() for _ in range(10)] == ["written"] * 10
            restored(location, tmp_path / "x.gz", replace=True)
        heard = [writer.kill() for writer in writers]
    assert "failed" not in "".join(heard)
    titles = [row[2] for row in query(location, ALL)]
    assert titles.count("left") == titles.count("right")
    assert {"one", "two", ODD} <= set(titles)
    assert faults(location) == []


def test_a_row_that_comes_while_a_restore_begins_is_not_lost(tmp_path: Path, new_database: NewDatabase) -> None:
    location = new_database("postgres", ready=True)
    assert isinstance(location, PostgresLocation)
    backup(location, tmp_path / "x.gz")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with (
        ThreadPoolExecutor() as pool,
        psycopg.connect(location.url) as server,
        psycopg.connect(location.url, autocommit=True) as observer,
    ):
        server.execute("INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'just now', 0)")
        restoring = pool.submit(restored, location, tmp_path / "x.gz")
        while observer.execute(waiting.encode()).fetchone() != (1,):
            assert not restoring.done()
        server.commit()
        with pytest.raises(UsageError, match="--replace"):
            restoring.result()
    assert [row[2] for row in query(location, ALL)] == ["just now"]


# --- what the program shows


@pytest.mark.parametrize("words", [["backup", "x.gz"], ["restore", "--replace", "good.gz"]], ids=" ".join)
def test_progress_is_shown_on_a_terminal_and_never_on_stdout(tmp_path: Path, words: list[str]) -> None:
    location = prepare_sqlite(tmp_path / ".carrel" / "carrel.db")
    fill(location)
    backup(location, tmp_path / "good.gz")
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*CARREL, "db", words[0], "--json", *words[1:]],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=60,
        check=True,
    )
    shown = os.read(ours, 1000).decode()
    os.close(theirs)
    os.close(ours)
    assert held(json.loads(done.stdout)["rows"]) == {"task": 4}
    assert "4 rows" in shown
