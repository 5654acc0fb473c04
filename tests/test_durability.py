"""What was acknowledged is kept: among processes that write at once, and when one is killed in the middle."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import psycopg
import pytest

from carrel.storage.admin import integrity_problems
from carrel.storage.database import Database, Location, Row, Session, SqliteLocation, locate
from carrel.storage.schema_version import open_database
from carrel.tasks import AddTaskUseCase, DeleteTaskUseCase, ListTasksUseCase, Task, TaskRepository
from tests.program import Script, ending, run_carrel_here, run_together

KILLS = {"sqlite": 20, "postgresql": 5}

ADDER = """
import asyncio, sys, carrel

async def main(url, name, count):
    async with carrel.in_process(user_id="ana", settings={"database": {"url": url}}) as ana:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(count)):
            answer = await ana.call_tool("add_task", {"title": f"{name}-{number}"})
            print(answer.text)

asyncio.run(main(*sys.argv[1:]))
"""

# Two tasks in each transaction: half of one would be a left without its right.
PAIRS = """
import asyncio, sys
from pathlib import Path
from carrel.storage.database import locate
from carrel.storage.schema_version import open_database
from carrel.tasks import AddTaskUseCase, TaskRepository

async def main(url):
    database = await open_database(locate(url, Path.cwd()), pool_size=4)

    async def pair(session):
        tasks = TaskRepository(session, "ana")
        left = await AddTaskUseCase(tasks).execute("left", "l" * 1000)
        right = await AddTaskUseCase(tasks).execute(f"right of {left.id}", "r" * 1000)
        return left.id, right.id

    async def burst():
        while True:
            print(*await database.write(pair), flush=True)

    await asyncio.gather(*(burst() for _ in range(4)))

asyncio.run(main(sys.argv[1]))
"""


def rows(location: Location) -> list[Row]:
    query = "SELECT id, title, description FROM task ORDER BY id"
    if isinstance(location, SqliteLocation):
        with closing(sqlite3.connect(location.path)) as connection:
            return connection.execute(query).fetchall()
    with psycopg.connect(location.url) as connection:
        return connection.execute(query.encode()).fetchall()


def test_four_processes_add_250_tasks_each_and_all_are_kept(tmp_path: Path, database_url: str) -> None:
    """On SQLite they also make the database, all at once."""
    scripts = [Script(ADDER, database_url, name, "250", cwd=tmp_path) for name in "abcd"]
    answers = [json.loads(line) for output in run_together(scripts) for line in output.splitlines()]
    expected = {f"{name}-{number}" for name in "abcd" for number in range(250)}
    assert {(answer["status"], answer["title"]) for answer in answers} == {("created", title) for title in expected}
    kept = rows(locate(database_url, tmp_path))
    assert len(kept) == len(answers) == 1000
    assert {number: title for number, title, _ in kept} == {each["task_id"]: each["title"] for each in answers}


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_loses_nothing_that_it_acknowledged(tmp_path: Path, database_url: str) -> None:
    location = locate(database_url, tmp_path)
    chance = random.Random(20)
    acknowledged: set[int] = set()
    for _ in range(KILLS[database_url.partition(":")[0]]):
        with ending([Script(PAIRS, database_url, cwd=tmp_path)]) as (writer,):
            lines = [writer.hear() for _ in range(chance.randrange(1, 60))]
            rest = writer.kill()
        lines += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged.update(int(number) for line in lines for number in line.split())

        kept = {number: (title, description) for number, title, description in rows(location)}
        assert acknowledged - kept.keys() == set()
        lefts = {number for number, whole in kept.items() if whole == ("left", "l" * 1000)}
        rights = {number: whole for number, whole in kept.items() if number not in lefts}
        assert sorted(rights.values()) == sorted((f"right of {number}", "r" * 1000) for number in lefts)
        assert integrity_problems(location) == []
    assert len(acknowledged) > 100
    done = run_carrel_here("db", "check", cwd=tmp_path, CARREL_DATABASE_URL=database_url)
    assert (done.returncode, done.stdout) == (0, f"{location}: no problems found\n")


# --- ids


async def _add(database: Database, title: str = "x") -> int:
    async def work(session: Session) -> Task:
        task = await AddTaskUseCase(TaskRepository(session, "ana")).execute(title)
        assert isinstance(task, Task)
        return task

    return (await database.write(work)).id


async def _delete_all(database: Database) -> None:
    async def work(session: Session) -> None:
        tasks = TaskRepository(session, "ana")
        for task in await ListTasksUseCase(tasks).execute():
            await DeleteTaskUseCase(tasks).execute(task.id)

    await database.write(work)


@pytest.mark.anyio
@pytest.mark.rule("tasks.task_id.never_reused")
async def test_an_id_is_not_given_out_again_when_all_tasks_are_gone_and_the_server_was_restarted(
    tmp_path: Path, database_url: str
) -> None:
    given: list[int] = []
    for _ in range(3):
        database = await open_database(locate(database_url, tmp_path), pool_size=2)
        given += [await _add(database), await _add(database)]
        await _delete_all(database)
        await database.close()
    assert given == sorted(set(given))


@pytest.mark.anyio
@pytest.mark.rule("tasks.task_id.never_reused")
async def test_an_id_is_not_given_out_again_under_concurrency(database: Database) -> None:
    given: list[int] = []

    async def add_and_delete() -> None:
        for _ in range(10):
            given.append(await _add(database))
            await _delete_all(database)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(add_and_delete)
    assert len(given) == len(set(given)) == 40
