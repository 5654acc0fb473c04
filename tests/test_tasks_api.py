"""Tasks as Python API: the use cases, the repository that belongs to a user, and the in-process client."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel import InProcessClient
from carrel.errors import SettingsError
from carrel.mcp.pipeline import UnknownTool
from carrel.storage.database import Database, Session
from carrel.tasks import (
    AddTaskUseCase,
    CompleteTaskUseCase,
    DeleteTaskUseCase,
    InvalidTask,
    ListTasksUseCase,
    Task,
    TaskRepository,
    UpdateTaskUseCase,
)
from carrel.workspace import find_workspace
from tests.wire import LEGACY, StdioWire, call, environment, value

pytestmark = pytest.mark.anyio

FORBIDDEN = {"error": "Forbidden", "details": "user_id is not the authenticated user"}


def client(folder: Path, user: str, **settings: dict[str, Any]) -> InProcessClient:
    return InProcessClient(find_workspace(folder, settings, {}), user)


@pytest.mark.rule("tasks.api.use_cases")
async def test_the_five_use_cases_are_all_it_takes_to_keep_tasks(database: Database) -> None:
    async def work(session: Session) -> None:
        mine = TaskRepository(session, "ana")
        milk = await AddTaskUseCase(mine).execute("  Buy milk ", "2 litres")
        assert isinstance(milk, Task)
        assert (milk.title, milk.description, milk.completed) == ("Buy milk", "2 litres", False)
        call_ben = await AddTaskUseCase(mine).execute("Call Ben")
        assert isinstance(call_ben, Task)
        assert await ListTasksUseCase(mine).execute() == [milk, call_ben]
        done = Task(milk.id, "Buy milk", "2 litres", completed=True)
        assert await CompleteTaskUseCase(mine).execute(milk.id) == done
        assert await CompleteTaskUseCase(mine).execute(milk.id) == done
        assert await ListTasksUseCase(mine).execute("completed") == [done]
        assert await ListTasksUseCase(mine).execute("pending") == [call_ben]
        renamed = Task(milk.id, "Buy bread", None, completed=True)
        assert await UpdateTaskUseCase(mine).execute(milk.id, "Buy bread", "") == renamed
        assert await DeleteTaskUseCase(mine).execute(call_ben.id) == call_ben
        assert await DeleteTaskUseCase(mine).execute(call_ben.id) is None
        assert await ListTasksUseCase(mine).execute() == [renamed]

    await database.write(work)


@pytest.mark.rule("tasks.api.use_cases")
async def test_a_task_that_cannot_be_kept_is_a_value_not_an_exception(database: Database) -> None:
    async def work(session: Session) -> None:
        mine = TaskRepository(session, "ana")
        assert await AddTaskUseCase(mine).execute(" ") == InvalidTask("Title is required")
        assert await AddTaskUseCase(mine).execute("x" * 201) == InvalidTask("Title must be 200 characters or less")
        too_long = InvalidTask("Description must be 1000 characters or less")
        assert await AddTaskUseCase(mine).execute("x", "y" * 1001) == too_long
        assert await UpdateTaskUseCase(mine).execute(1, description="y" * 1001) == too_long
        assert await UpdateTaskUseCase(mine).execute(1) == InvalidTask("At least title or description required")
        assert await UpdateTaskUseCase(mine).execute(10**30, "x") is None
        assert await ListTasksUseCase(mine).execute() == []

    await database.write(work)


@pytest.mark.rule("tasks.user.repository")
async def test_a_repository_cannot_be_built_without_a_user(database: Database) -> None:
    async def work(session: Session) -> None:
        with pytest.raises(TypeError):  # what the type checker refuses is refused at run time too
            TaskRepository(session)  # pyright: ignore[reportCallIssue]
        for nobody in ("", None, "a\0b", "\ud800"):
            with pytest.raises(ValueError, match="user_id"):
                TaskRepository(session, nobody)  # pyright: ignore[reportArgumentType]

    await database.read(work)


@pytest.mark.rule("tasks.user.repository")
async def test_a_repository_never_reaches_another_users_tasks(database: Database) -> None:
    async def work(session: Session) -> None:
        task = await AddTaskUseCase(TaskRepository(session, "ana")).execute("ana's")
        assert isinstance(task, Task)
        theirs = TaskRepository(session, "ben")
        assert await ListTasksUseCase(theirs).execute() == []
        assert await CompleteTaskUseCase(theirs).execute(task.id) is None
        assert await UpdateTaskUseCase(theirs).execute(task.id, "ben's") is None
        assert await DeleteTaskUseCase(theirs).execute(task.id) is None
        assert await ListTasksUseCase(TaskRepository(session, "ana")).execute() == [task]

    await database.write(work)


# --- the in-process client


@pytest.mark.rule("tasks.api.in_process")
async def test_an_in_process_client_calls_every_tool_as_its_user(tmp_path: Path, database_url: str) -> None:
    async with client(tmp_path, "ana", database={"url": database_url}) as ana:
        added = await ana.call_tool("add_task", {"title": "Buy milk"})
        assert added.value == {"task_id": added.value["task_id"], "status": "created", "title": "Buy milk"}
        assert (json.loads(added.text), added.is_error) == (added.value, False)
        number = added.value["task_id"]
        await ana.call_tool("update_task", {"task_id": number, "description": "2 litres"})
        await ana.call_tool("complete_task", {"task_id": number})
        kept = [{"id": number, "title": "Buy milk", "description": "2 litres", "completed": True}]
        assert (await ana.call_tool("list_tasks")).value == kept
        assert (await ana.call_tool("list_tasks", {"user_id": "ana"})).value == kept
        async with client(tmp_path, "ben", database={"url": database_url}) as ben:
            assert (await ben.call_tool("list_tasks")).value == []
        assert (await ana.call_tool("delete_task", {"task_id": number})).value["status"] == "deleted"
        missing = await ana.call_tool("delete_task", {"task_id": number})
        assert (missing.value, missing.is_error) == ({"error": "Task not found", "task_id": number}, True)
        with pytest.raises(UnknownTool):
            await ana.call_tool("drop_task", {})


@pytest.mark.rule("tasks.api.in_process")
async def test_an_in_process_client_shows_its_tools_without_the_user(tmp_path: Path) -> None:
    async with client(tmp_path, "ana") as ana:
        tools = await ana.list_tools()
    assert [tool["name"] for tool in tools][:5] == [
        "add_task",
        "list_tasks",
        "complete_task",
        "delete_task",
        "update_task",
    ]
    assert "user_id" not in json.dumps([tool["inputSchema"] for tool in tools])
    assert tools[0]["inputSchema"]["required"] == ["title"]


@pytest.mark.rule("tasks.api.in_process", "tasks.user.authenticated")
@pytest.mark.parametrize("settings", [{}, {"tasks": {"user": "ben"}}])
async def test_an_in_process_client_is_forbidden_to_speak_for_another(
    tmp_path: Path, settings: dict[str, dict[str, Any]]
) -> None:
    """Also where the settings name that other user: who was authenticated stands above them."""
    async with client(tmp_path, "ana", **settings) as ana:
        for name, arguments in {
            "add_task": {"title": "x"},
            "list_tasks": {},
            "complete_task": {"task_id": 1},
            "delete_task": {"task_id": 1},
            "update_task": {"task_id": 1, "title": "x"},
        }.items():
            answer = await ana.call_tool(name, {"user_id": "ben", **arguments})
            assert (answer.value, answer.is_error) == (FORBIDDEN, True)
        assert (await ana.call_tool("add_task", {"title": "mine"})).is_error is False


@pytest.mark.rule("tasks.api.in_process")
async def test_an_in_process_client_has_a_user_and_settings_that_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="user_id"):
        client(tmp_path, "")
    with pytest.raises(SettingsError, match=r"did you mean database\.url"):
        client(tmp_path, "ana", database={"ulr": "x"})


@pytest.mark.rule("tasks.api.in_process")
def test_in_process_is_what_the_package_offers_every_time_it_is_asked(tmp_path: Path) -> None:
    program = """
import asyncio, carrel
async def main():
    for _ in range(2):
        async with carrel.in_process(user_id="ana") as ana:
            print((await ana.call_tool("add_task", {"title": "x"})).text)
asyncio.run(main())
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["task_id"] for line in done.stdout.splitlines()] == [1, 2]


# --- the user of the settings


@pytest.mark.rule("tasks.user.settings")
def test_a_user_in_the_settings_is_the_only_one_served(tmp_path: Path) -> None:
    (tmp_path / "carrel.toml").write_text('[tasks]\nuser = "ana"\n')
    wire = StdioWire(LEGACY, cwd=tmp_path)
    try:
        assert value(call(wire, "add_task", {"user_id": "ana", "title": "x"}))["task_id"] == 1
        for name, arguments in {
            "list_tasks": {},
            "delete_task": {"task_id": 1},
            "complete_task": {"task_id": 99},
        }.items():
            result = call(wire, name, {"user_id": "ben", **arguments})
            assert (value(result), result["isError"]) == (FORBIDDEN, True)
        assert len(value(call(wire, "list_tasks", {"user_id": "ana"}))) == 1
    finally:
        assert wire.close() == 0
