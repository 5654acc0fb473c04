"""Backups that are damaged, and restores in the middle of things: all of it or nothing."""

import gzip
import json
import os
import pty
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from carrel.errors import CarrelError, StoreError, UsageError
from carrel.storage.admin import integrity_problems
from carrel.storage.database import Location, PostgresLocation
from tests.backups import ALL, ODD, NewDatabase, backup, fill, held, location, new_database, parts, restored
from tests.databases import (
    add,
    described,
    new_id,
    prepare_desk,
    prepare_sqlite,
    query,
    url_of,
)
from tests.program import Script, ending, run_carrel_here
from tests.wire import CARREL, environment

__all__ = ["location", "new_database"]

# Adds pairs, each in a transaction of its own, until it is killed.
PAIR_WRITER = """
import asyncio, sys
from pathlib import Path
from carrel.errors import StoreError
from carrel.storage.database import locate
from carrel.storage.schema_version import open_database

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
from carrel.storage.database import locate

def progress(rows):
    print(rows, flush=True)
    sys.stdin.readline()

restore(locate(sys.argv[1], Path.cwd()), Path(sys.argv[2]), replace=True, progress=progress)
"""


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
    assert integrity_problems(location) == []


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
    assert integrity_problems(location) == []


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
