"""SQLite files that somebody else has made: nothing in them acts, holds a server up, or leads out of the file."""

import os
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from carrel import InProcessClient
from carrel.errors import StoreDamaged, StoreError, StoreUnavailable
from carrel.search.documents import Document, Passage
from carrel.search.local.local_store import LocalStore
from carrel.storage.database import SqliteLocation
from carrel.storage.schema_version import prepare_sqlite
from carrel.storage.sqlite import connect, open_unchanged, translate_errors
from carrel.workspace import find_workspace
from carrel.workspace.index_backlog import counts
from tests.databases import prepare_desk, query
from tests.generated import ROOT
from tests.program import misused, run_carrel_here

pytestmark = pytest.mark.anyio

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in statements:
            connection.execute(each)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return prepare_desk(tmp_path) / ".carrel" / "carrel.db"


@pytest.mark.rule("faults.sqlite.one_opener")
def test_one_module_opens_sqlite() -> None:
    source = ROOT / "src" / "carrel"
    opening = {path for path in source.rglob("*.py") if re.search(r"\bsqlite3\b", path.read_text(encoding="utf-8"))}
    assert opening == {source / "storage" / "sqlite.py"}


@pytest.mark.rule("faults.sqlite.hostile")
@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TRIGGER t AFTER INSERT ON task BEGIN DELETE FROM task WHERE id < new.id; END",),
        (f"CREATE TRIGGER t AFTER INSERT ON task BEGIN INSERT INTO task SELECT * FROM ({ENDLESS} i FROM n); END",),
        ("CREATE TRIGGER task_trigrams_x AFTER INSERT ON task BEGIN DELETE FROM task; END",),
        (
            "DROP TABLE task",
            "CREATE VIEW task AS SELECT 1 AS id",
            "CREATE TRIGGER t INSTEAD OF INSERT ON task BEGIN SELECT 1; END",
        ),
        (
            "ALTER TABLE alembic_version RENAME TO x",
            f"CREATE VIEW alembic_version AS {ENDLESS} i AS version_num FROM n",
        ),
        ("DROP TABLE task", "CREATE VIRTUAL TABLE task USING fts5(id, user_id, title)"),
    ],
    ids=["deletes", "never ends", "named as ours", "on a view", "revision that never ends", "virtual"],
)
def test_a_file_whose_schema_would_act_is_refused_and_left_as_it_is(file: Path, statements: tuple[str, ...]) -> None:
    change(file, *statements)
    before = query_raw(file, "SELECT type, name, sql FROM sqlite_master")
    started = time.monotonic()
    done = run_carrel_here("serve", "--toolsets", "tasks", cwd=file.parent.parent)
    misused(done, "carrel.db holds the ", "which Carrel did not make", "drop it", status=1)
    assert time.monotonic() - started < 20
    assert query_raw(file, "SELECT type, name, sql FROM sqlite_master") == before
    with pytest.raises(StoreDamaged, match="did not make"), open_unchanged(file):
        raise AssertionError("it was looked into")


def query_raw(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.rule("faults.sqlite.hostile")
def test_what_another_program_keeps_for_itself_in_the_file_is_let_be(file: Path) -> None:
    change(
        file,
        "CREATE TABLE theirs (what TEXT)",
        "CREATE VIEW titles AS SELECT title FROM task",
        "CREATE TRIGGER theirs_too AFTER INSERT ON theirs BEGIN SELECT 1; END",
    )
    prepare_sqlite(SqliteLocation(file)).close()
    assert query(SqliteLocation(file), "SELECT * FROM titles") == []


@pytest.mark.rule("faults.sqlite.hostile")
def test_a_function_with_effects_is_not_called_by_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    change(path, "CREATE TABLE theirs (what TEXT, more DEFAULT (load_extension('/tmp/evil.so')))")
    with closing(connect(path)) as connection:
        with pytest.raises(StoreError, match="unsafe use of load_extension"), translate_errors():
            connection.execute("INSERT INTO theirs (what) VALUES ('x')")
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
        assert connection.execute("PRAGMA mmap_size").fetchone() == (0,)
        with pytest.raises(StoreError, match="too big"), translate_errors():
            connection.execute("SELECT zeroblob(300 * 1024 * 1024)").fetchone()


@pytest.mark.rule("faults.sqlite.hostile")
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_regular_file_is_told_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "carrel.db"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(StoreUnavailable, match=r"cannot open the database carrel.db: it is no regular file"):
        prepare_sqlite(SqliteLocation(path))


@pytest.mark.rule("faults.sqlite.hostile")
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_link_in_the_place_of_a_log_leads_nowhere(file: Path, tmp_path: Path, suffix: str) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    for each in file.parent.glob("carrel.db-*"):
        each.unlink()
    file.with_name(f"carrel.db{suffix}").symlink_to(outside)
    try:
        with closing(prepare_sqlite(SqliteLocation(file))) as connection:
            connection.execute("INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'x', 0)")
    except StoreUnavailable:
        pass  # told; what counts is that nobody wrote there
    assert outside.read_bytes() == b"theirs"


def porridge(store: LocalStore) -> None:
    store.put("book", [Document("a", "Breakfast", (Passage("porridge"),), "1", 0)])
    assert store.versions("book") == {"a": "1"}


@pytest.mark.rule("faults.sqlite.hostile")
def test_a_search_index_that_holds_anything_else_is_made_anew(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "search")
    porridge(store)
    store.close()
    path = tmp_path / "search" / "index.db"
    change(path, "CREATE TRIGGER t AFTER INSERT ON document BEGIN DELETE FROM document; END")
    store = LocalStore(tmp_path / "search")
    assert query_raw(path, "SELECT name FROM sqlite_master WHERE type = 'trigger'") == []
    porridge(store)
    store.close()


@pytest.mark.rule("faults.sqlite.hostile")
def test_counting_what_is_left_to_index_ends_whatever_the_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.workspace.index_backlog.QUERY_TIMEOUT_SECONDS", 0.2)
    (tmp_path / ".carrel" / "search").mkdir(parents=True)
    change(tmp_path / ".carrel" / "search" / "index.db", f"CREATE VIEW pending AS {ENDLESS} i FROM n")
    with pytest.raises(StoreError, match="ended a statement"):
        counts(find_workspace(tmp_path, {}, {}), "pending")


@pytest.mark.rule("faults.sqlite.hostile")
async def test_an_index_of_notes_that_holds_anything_else_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("text\n", encoding="utf-8")
    path = tmp_path / ".carrel" / "notes" / "index.db"
    for is_hostile in (False, True):
        if is_hostile:
            change(path, "CREATE TRIGGER t AFTER INSERT ON note BEGIN DELETE FROM note; END")
        async with InProcessClient(find_workspace(tmp_path, {"server": {"toolsets": ["notes"]}}, {}), "ana") as ana:
            assert (await ana.call_tool("get_node", {"id": "a.md"})).value["content"] == "text\n"
    assert "made anew" in caplog.text
    assert query_raw(path, "SELECT name FROM sqlite_master WHERE type = 'trigger'") == []
