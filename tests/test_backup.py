"""Backup and restore: on each engine and from one to the other, and what they leave alone."""

import gzip
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from carrel.errors import CarrelError, StoreError, UsageError
from carrel.storage.admin import integrity_problems, upgrade
from carrel.storage.backup import restore, write_backup
from carrel.storage.database import Location, SqliteLocation
from tests.backups import ALL, NewDatabase, backup, fill, held, lines, location, new_database, next_release, restored
from tests.databases import (
    NEXT,
    add,
    new_id,
    query,
    url_of,
)
from tests.program import Script, ending

__all__ = ["location", "new_database", "next_release"]

# With files limited to 50 kB, as on a disk that is full.
RESTORER_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from carrel.errors import StoreError
from carrel.storage.backup import restore
from carrel.storage.database import locate
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    restore(locate(sys.argv[1], Path.cwd()), Path(sys.argv[2]), replace=True, progress=print)
except StoreError as error:
    print(error)
"""


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
    assert integrity_problems(second) == []
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
from carrel.storage.admin import integrity_problems, schema_transaction
from carrel.storage.backup import restore, write_backup
from carrel.storage.database import locate
location = locate(sys.argv[1], Path.cwd())
restore(location, Path("old.gz"), replace=True, progress=lambda rows: None)
with schema_transaction(location) as connection:
    connection.exec_driver_sql("INSERT INTO label VALUES ('a', 1), ('b', 4)")
for rows in (
    write_backup(location, Path("new.gz"), lambda rows: None),
    restore(location, Path("new.gz"), replace=True, progress=lambda rows: None),
):
    print({name: count for name, count in rows.items() if count})
print(*integrity_problems(location))
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
    assert integrity_problems(location) == []


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
