"""An import is one transaction: all of it is written or nothing."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from carrel.content.bundle.importer import Report, import_content
from carrel.errors import SchemaMismatch, StoreError
from carrel.storage.admin import integrity_problems
from carrel.storage.database import PostgresLocation
from tests.bundles import Store, block, entity, project, small, total, uid, written
from tests.content_stores import empty_sqlite, store
from tests.databases import described
from tests.postgres import recreate_database
from tests.program import Script
from tests.wire import environment

__all__ = ["empty_sqlite", "store"]


@pytest.mark.rule("content.dry_run.writes_nothing")
def test_a_dry_run_tells_the_same_and_writes_nothing(store: Store) -> None:
    store.load({"projects": [project(id=uid(1))]})
    before = store.state()
    report = store.load(small(), dry_run=True)
    assert total(report) == (12, 1, 0)
    assert store.state() == before
    assert store.load(small()).counts == report.counts


@pytest.mark.rule("content.dry_run.writes_nothing")
def test_a_dry_run_makes_no_database(empty_sqlite: Store) -> None:
    assert total(empty_sqlite.load(small(), dry_run=True)) == (13, 0, 0)
    assert [path.name for path in empty_sqlite.folder.iterdir()] == ["bundle.json"]


@pytest.mark.rule("content.dry_run.locks_nobody")
def test_a_dry_run_goes_through_while_somebody_writes(empty_sqlite: Store) -> None:
    empty_sqlite.load(small())
    other = sqlite3.connect(empty_sqlite.folder / "carrel.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert total(empty_sqlite.load(small(), dry_run=True)) == (0, 0, 13)
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.rule("content.transaction.all_or_nothing")
def test_a_failure_while_writing_leaves_nothing_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.load({"projects": [project("first")]})
    before = store.state()

    def fail(*_: object) -> None:
        raise StoreError("no more room")

    monkeypatch.setattr("carrel.content.bundle.importer.refresh_row_counts", fail)
    with pytest.raises(StoreError, match="no more room"):
        store.load(small())
    monkeypatch.undo()
    assert store.state() == before
    assert total(store.load(small())) == (13, 0, 0)


KILLED = """
import signal
import sys
from pathlib import Path
from carrel.content.bundle.importer import import_content
from carrel.storage.database import locate

def progress(step, more, total):
    if step == "writing" and more:
        print("writing", flush=True)
        sys.stdin.readline()

# A shell that runs the tests in the background has its children ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
import_content(locate(sys.argv[1], Path.cwd()), [Path(sys.argv[2])], progress=progress)
"""


@pytest.mark.rule("content.transaction.all_or_nothing")
def test_an_import_that_is_killed_half_way_has_written_nothing(store: Store, tmp_path: Path) -> None:
    store.load({"projects": [project("first")]})
    before = store.state()
    script = Script(KILLED, store.url, written(tmp_path / "bundle.json", small()), cwd=tmp_path)
    assert script.hear() == "writing"
    script.kill()
    assert store.state() == before
    assert total(store.load(small())) == (13, 0, 0)


def test_a_large_import_leaves_the_schema_as_it_was(empty_sqlite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are made anew after many rows: all of them, and all rows are in them."""
    empty_sqlite.load({"projects": [project("first")]})
    before = described(empty_sqlite.location)
    monkeypatch.setattr("carrel.storage.bulk.INDEX_REBUILD_ROWS", 1)
    empty_sqlite.load(small())
    assert described(empty_sqlite.location) == before
    assert integrity_problems(empty_sqlite.location) == []
    assert total(empty_sqlite.load(small())) == (0, 0, 13)


@pytest.mark.rule("content.transaction.one_at_a_time")
def test_imports_at_the_same_time_come_one_after_another(store: Store, tmp_path: Path) -> None:
    store.load({"projects": [project()]})
    errors: list[Exception] = []
    added: list[Report] = []

    def run(number: int) -> None:
        records = [entity(f"guide:g{n}") for n in range(number, number + 60)]
        path = written(tmp_path / f"{number}.json", {"entities": records})
        try:
            added.append(import_content(store.location, [path]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n * 30,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(each.counts["entities"].added for each in added) == 150
    assert store.query("SELECT sum(total) FROM entity_tally") == [(150,)]


@pytest.mark.rule("content.database.current")
def test_postgres_must_be_upgraded_first(postgres_server_url: str, worker_id: str, tmp_path: Path) -> None:
    location = PostgresLocation(recreate_database(postgres_server_url, f"carrel_{worker_id}_empty"))
    with pytest.raises(SchemaMismatch, match="carrel db upgrade"):
        import_content(location, [written(tmp_path / "x.json", small())])


@pytest.mark.rule("content.format.streaming")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_bundle(store: Store, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom carrel.content.bundle.importer import import_content\n"
        "from carrel.storage.database import locate\n"
        "import_content(locate(sys.argv[1], Path.cwd()), [Path(sys.argv[2])])\n"
        "print(next(line for line in open('/proc/self/status') if 'VmHWM' in line).split()[1])"
    )

    def peak(count: int, name: str) -> int:
        records = [entity(f"concept:{name}{n}", summary="word " * 100) for n in range(count)]
        bundle = {
            "projects": [project()],
            "entities": records,
            "quotableBlocks": [block(f"concept:{name}{n}") for n in range(count)],
        }
        words = [sys.executable, "-c", program, store.url, str(written(tmp_path / "x.json", bundle))]
        done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
        return int(done.stdout)

    small_one, large_one = peak(2_000, "a"), peak(16_000, "b")  # 1.5 MB and 13 MB of JSON
    assert large_one - small_one < 45_000, (small_one, large_one)


@pytest.mark.rule("content.transaction.all_or_nothing")
def test_ctrl_c_ends_an_import_and_nothing_is_written(tmp_path: Path) -> None:
    store = Store("sqlite:///carrel.db", tmp_path)
    store.load({"projects": [project("first")]})
    before = store.state()
    script = Script(KILLED, store.url, written(tmp_path / "bundle.json", small()), cwd=tmp_path)
    assert script.hear() == "writing"
    os.kill(script.process.pid, signal.SIGINT)
    script.process.communicate(timeout=30)
    assert script.process.returncode != 0
    assert store.state() == before
