"""SQLite on a full disk, and on files that are read-only, damaged, gone or locked: what is answered, what is kept."""

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from carrel import InProcessClient
from carrel.errors import StoreError, StoreUnavailable
from carrel.mcp.pipeline import Answer
from carrel.storage.admin import integrity_problems
from carrel.storage.database import SqliteLocation
from carrel.workspace import find_workspace
from tests.databases import prepare_desk
from tests.faults import can_mount, damage, fill, no_file_may_grow, small_disk
from tests.program import Script, ending, misused, run_carrel_here
from tests.vaults import without_privileges
from tests.wire import MODERN, HttpServer, HttpWire, call, value

pytestmark = pytest.mark.anyio

CALLS = {
    "add_task": ({"title": "x"}, "Failed to create task"),
    "list_tasks": ({}, "Failed to list tasks"),
    "complete_task": ({"task_id": 1}, "Failed to complete task"),
    "delete_task": ({"task_id": 1}, "Failed to delete task"),
    "update_task": ({"task_id": 1, "title": "x"}, "Failed to update task"),
}
LONG = "d" * 1000
TASKS_ALONE = {"server": {"toolsets": ["tasks"]}}


class Ana(InProcessClient):
    """Remembers what was acknowledged."""

    def __init__(self, folder: Path, user: str = "ana") -> None:
        super().__init__(find_workspace(folder, TASKS_ALONE, {}), user)
        self.titles: list[str] = []

    async def add(self, title: str, description: str = "") -> Answer:
        answer = await self.call_tool("add_task", {"title": title, "description": description})
        if not answer.is_error:
            self.titles.append(title)
        return answer

    async def add_until_it_fails(self, most: int = 20_000) -> Answer:
        for number in range(most):
            if (answer := await self.add(f"t{number}", LONG)).is_error:
                return answer
        raise AssertionError(f"{most} tasks found room")

    async def listed(self) -> list[str]:
        answer = await self.call_tool("list_tasks")
        assert not answer.is_error, answer
        return [task["title"] for task in answer.value]

    async def all_is_kept(self) -> None:
        assert sorted(await self.listed()) == sorted(self.titles)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return prepare_desk(tmp_path)


@pytest.fixture
async def ana(desk: Path) -> AsyncIterator[Ana]:
    async with Ana(desk) as client:
        yield client


def file_of(folder: Path) -> Path:
    return folder / ".carrel" / "carrel.db"


def failed(answer: Answer, tool: str) -> None:
    """As the contract words it, with nothing of the cause."""
    assert (answer.text, answer.is_error) == (f'{{"error":"{CALLS[tool][1]}"}}', True)


def told(log: str, *words: str) -> None:
    for word in words:
        assert word in log, log[-3000:]


# --- no room


@pytest.mark.rule("faults.sqlite.full")
@pytest.mark.skipif(not can_mount(), reason="no right to mount; the same is shown with files that may not grow")
async def test_a_full_disk_refuses_writes_keeps_reads_and_needs_no_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk", megabytes=3) as disk:
        async with Ana(prepare_desk(disk)) as ana:
            await ana.add("before")
            filler = fill(disk)
            failed(await ana.add_until_it_fails(), "add_task")
            for name in ("complete_task", "update_task", "delete_task"):  # small changes may still find room
                answer = await ana.call_tool(name, {"task_id": 1, **({"title": "before"} if "update" in name else {})})
                if answer.is_error:
                    failed(answer, name)
                elif name == "delete_task":
                    ana.titles.remove("before")
            await ana.all_is_kept()
            told(caplog.text, "database or disk is full", "free space on the disk")
            filler.unlink()
            assert not (await ana.add("after")).is_error
            await ana.all_is_kept()
        assert integrity_problems(SqliteLocation(file_of(disk))) == []


@pytest.mark.rule("faults.sqlite.full")
def test_files_that_may_not_grow_are_as_a_full_disk(desk: Path) -> None:
    server = HttpServer("--toolsets", "tasks", cwd=desk)
    wire = HttpWire(MODERN, server.url)
    kept: list[str] = []

    def add(title: str) -> Any:
        answer = value(call(wire, "add_task", {"user_id": "ana", "title": title, "description": LONG}))
        kept.extend([title] if answer.get("status") == "created" else [])
        return answer

    def listed() -> list[str]:
        return [task["title"] for task in value(call(wire, "list_tasks", {"user_id": "ana"}))]

    try:
        add("before")
        with no_file_may_grow(server.process.pid, beyond=file_of(desk).stat().st_size + 200_000):
            refused = next(answer for number in range(2000) if "error" in (answer := add(f"t{number}")))
            assert refused == {"error": "Failed to create task"}
            assert sorted(listed()) == sorted(kept)
        add("after")
        assert kept[-1] == "after"
        assert sorted(listed()) == sorted(kept)
    finally:
        wire.close()
        assert server.stop() == 143
    told("".join(server.log), "see whether the disk is full or failing")
    assert integrity_problems(SqliteLocation(file_of(desk))) == []


# --- no right to write


@pytest.mark.rule("faults.sqlite.read_only")
async def test_a_read_only_file_is_read_and_says_why_it_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    with without_privileges() as folder:
        prepare_desk(folder)
        async with Ana(folder) as ana:
            await ana.add("before")
        kept = ana.titles
        file_of(folder).chmod(0o444)
        async with Ana(folder) as ana:
            ana.titles = kept
            for name, (arguments, _) in CALLS.items():
                if name != "list_tasks":
                    failed(await ana.call_tool(name, arguments), name)
            await ana.all_is_kept()
        told(caplog.text, "readonly database", "let the server's user write to the database file, its -wal and -shm")
        for each in file_of(folder).parent.glob("carrel.db*"):  # SQLite has made the others with the same rights
            each.chmod(0o644)
        async with Ana(folder) as ana:
            ana.titles = kept
            assert not (await ana.add("after")).is_error
            await ana.all_is_kept()


@pytest.mark.rule("faults.sqlite.read_only")
async def test_a_read_only_folder_keeps_a_server_from_starting_and_it_says_why() -> None:
    with without_privileges() as folder:
        prepare_desk(folder)
        file_of(folder).parent.chmod(0o555)
        with pytest.raises(
            StoreUnavailable, match=r"cannot open the database carrel.db: .*let the server's user write"
        ):
            async with Ana(folder):
                raise AssertionError("it opened")
        file_of(folder).parent.chmod(0o755)
        async with Ana(folder) as ana:
            assert not (await ana.add("after")).is_error


# --- damage


def _page_of(path: Path, text: str) -> tuple[int, int]:
    """Where in the file the page is that has the text, and the size of a page."""
    content = path.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    return content.index(text.encode()) // size * size, size


@pytest.fixture
async def many(desk: Path) -> list[str]:
    """Tasks of two users, on pages of their own each, with nothing left in the log; the titles of Ana's."""
    async with Ana(desk) as ana, Ana(desk, "bob") as bob:
        for number in range(40):
            await ana.add(f"a{number}", LONG)
        for number in range(40):
            await bob.add(f"b{number}", LONG)
    with closing(sqlite3.connect(file_of(desk))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ana.titles


@pytest.mark.rule("faults.sqlite.corrupt")
@pytest.mark.parametrize("is_running", [False, True], ids=["before the start", "under a running server"])
async def test_a_damaged_page_is_an_error_for_those_whose_it_is_and_never_a_wrong_answer(
    desk: Path, many: list[str], is_running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = file_of(desk)
    place, size = _page_of(path, "b20")
    shutil.copyfile(path, desk / "good.db")
    if not is_running:
        damage(path, place, size)
    async with Ana(desk) as ana, Ana(desk, "bob") as bob:
        if is_running:
            damage(path, place, size)
        ana.titles = many
        await ana.all_is_kept()
        assert not (await ana.add("next")).is_error
        failed(await bob.call_tool("list_tasks"), "list_tasks")
        failed(await bob.call_tool("delete_task", {"task_id": 61}), "delete_task")
        await ana.all_is_kept()
        told(caplog.text, "malformed", "run carrel db check, then restore a backup")
    assert "b20" not in caplog.text
    with pytest.raises(StoreError, match="malformed"):  # what carrel db check tells
        integrity_problems(SqliteLocation(path))
    for each in path.parent.glob("carrel.db*"):
        each.unlink()
    shutil.copyfile(desk / "good.db", path)
    async with Ana(desk, "bob") as bob:
        assert len(await bob.listed()) == 40


@pytest.mark.rule("faults.sqlite.corrupt")
async def test_a_file_that_is_no_database_any_more_keeps_a_server_from_starting(desk: Path) -> None:
    damage(file_of(desk), 0, 4096)
    with pytest.raises(StoreUnavailable, match=r"file is not a database \(run carrel db check, then restore a backup"):
        async with Ana(desk):
            raise AssertionError("it opened")


@pytest.mark.rule("faults.sqlite.corrupt")
def test_a_server_over_what_is_no_database_ends_with_one_line_that_says_what_to_do(desk: Path) -> None:
    damage(file_of(desk), 0, 4096)
    done = run_carrel_here("serve", "--toolsets", "tasks", cwd=desk)
    misused(done, "carrel.db", "restore a backup", status=1)


WRITER = """
import asyncio, sys, carrel

async def main():
    async with carrel.in_process(user_id="ana", settings={"server": {"toolsets": ["tasks"]}}) as ana:
        for number in range(30):
            assert not (await ana.call_tool("add_task", {"title": f"t{number}", "description": "d" * 1000})).is_error
        print("written", flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""


@pytest.mark.rule("faults.sqlite.wal")
async def test_of_a_damaged_log_all_that_stands_before_the_damage_is_kept_and_nothing_is_half(desk: Path) -> None:
    with ending([Script(WRITER, cwd=desk)]) as (writer,):
        assert writer.hear() == "written"
        writer.kill()
    damage(file_of(desk).with_name("carrel.db-wal"), 2 / 3, 100)
    async with Ana(desk) as ana:
        kept = await ana.listed()
        assert sorted(kept) == sorted(f"t{number}" for number in range(len(kept)))
        assert 10 <= len(kept) < 30
        ana.titles = kept
        assert not (await ana.add("after")).is_error
        await ana.all_is_kept()
    assert integrity_problems(SqliteLocation(file_of(desk))) == []


# --- gone, replaced, locked


@pytest.mark.rule("faults.sqlite.removed")
async def test_nothing_is_acknowledged_into_a_file_that_was_removed(
    desk: Path, ana: Ana, caplog: pytest.LogCaptureFixture
) -> None:
    await ana.add("before")
    path = file_of(desk)
    path.rename(desk / "aside.db")
    for name, (arguments, _) in CALLS.items():
        failed(await ana.call_tool(name, arguments), name)
    told(caplog.text, f"{path} was removed or replaced while it was in use", "put it back, or restart the server")
    (desk / "aside.db").rename(path)
    assert not (await ana.add("after")).is_error
    await ana.all_is_kept()


@pytest.mark.rule("faults.sqlite.removed")
async def test_nothing_is_read_from_or_written_to_a_file_that_another_has_replaced(
    desk: Path, ana: Ana, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await ana.add("before")
    os.link(file_of(desk), desk / "aside.db")
    other = prepare_desk(tmp_path_factory.mktemp("other"))
    async with Ana(other) as stranger:
        await stranger.add("restored")
    with closing(sqlite3.connect(file_of(other))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file_of(other).replace(file_of(desk))
    for name, (arguments, _) in CALLS.items():
        failed(await ana.call_tool(name, arguments), name)
    await ana.aclose()
    async with Ana(desk) as after:
        assert await after.listed() == ["restored"]
    with closing(sqlite3.connect(desk / "aside.db")) as connection:
        assert connection.execute("SELECT title FROM task").fetchall() == [("before",)], "not in the log alone"


@pytest.mark.rule("faults.sqlite.locked")
async def test_while_another_program_holds_the_file_locked_reads_go_on_and_writes_fail_in_time(
    desk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("carrel.storage.sqlite.BUSY_TIMEOUT_SECONDS", 0.1)
    async with Ana(desk) as ana:
        await ana.add("before")
        with closing(sqlite3.connect(file_of(desk), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            failed(await ana.add("refused"), "add_task")
            await ana.all_is_kept()
        told(caplog.text, "database is locked", "another program holds the database locked")
        assert not (await ana.add("after")).is_error
        await ana.all_is_kept()
