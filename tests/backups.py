"""Backups and what is in them, and databases of each engine to make them of."""

import gzip
import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from carrel.storage.backup import restore, write_backup
from carrel.storage.database import Location, PostgresLocation, SqliteLocation
from carrel.storage.schema import metadata
from tests.databases import (
    add,
    add_tasks,
    build_next_release,
    prepare_postgres,
    prepare_sqlite,
    query,
)
from tests.postgres import recreate_database

ALL = "SELECT id, user_id, title, description, completed, created_at, completed_at FROM task ORDER BY id"
ODD = "o'dd \" \\ : % 😀 \u2028 e\u0301"


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
