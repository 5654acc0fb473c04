"""The five tools, thin on top of the use cases."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from carrel.mcp.toolset import Arguments, Caller, Failure, Toolset, load_tools
from carrel.storage.database import Database
from carrel.tasks import (
    AddTask,
    CompleteTask,
    DeleteTask,
    InvalidTask,
    ListTasks,
    Task,
    TaskRepository,
    UpdateTask,
)
from carrel.tasks.task import is_storable
from carrel.toolsets.tasks.dialect import BAD_USER, NOT_THE_USER, TasksDialect

T = TypeVar("T")


def tasks_toolset(database: Database, *, user: str | None = None) -> Toolset:
    """The toolset over a database; `user` is the one user it serves, None serves whoever a call names."""

    def admit(arguments: Arguments, caller: Caller) -> Failure | None:
        named = arguments["user_id"]
        if not is_storable(named):
            return Failure(BAD_USER)
        expected = caller.user or user
        return Failure(NOT_THE_USER) if expected is not None and named != expected else None

    def mine(arguments: Arguments, work: Callable[[TaskRepository], Awaitable[T]]) -> Any:
        return lambda session: work(TaskRepository(session, arguments["user_id"]))

    async def add_task(arguments: Arguments, _caller: Caller) -> Any:
        def work(tasks: TaskRepository) -> Awaitable[Task | InvalidTask]:
            return AddTask(tasks).execute(arguments["title"], arguments.get("description"))

        return _changed(await database.write(mine(arguments, work)), "created", arguments)

    async def list_tasks(arguments: Arguments, _caller: Caller) -> Any:
        def work(tasks: TaskRepository) -> Awaitable[list[Task]]:
            return ListTasks(tasks).execute(arguments.get("status", "all"))

        return [_shown(task) for task in await database.read(mine(arguments, work))]

    async def complete_task(arguments: Arguments, _caller: Caller) -> Any:
        def work(tasks: TaskRepository) -> Awaitable[Task | None]:
            return CompleteTask(tasks).execute(int(arguments["task_id"]))

        return _changed(await database.write(mine(arguments, work)), "completed", arguments)

    async def delete_task(arguments: Arguments, _caller: Caller) -> Any:
        def work(tasks: TaskRepository) -> Awaitable[Task | None]:
            return DeleteTask(tasks).execute(int(arguments["task_id"]))

        return _changed(await database.write(mine(arguments, work)), "deleted", arguments)

    async def update_task(arguments: Arguments, _caller: Caller) -> Any:
        def work(tasks: TaskRepository) -> Awaitable[Task | InvalidTask | None]:
            return UpdateTask(tasks).execute(
                int(arguments["task_id"]), arguments.get("title"), arguments.get("description")
            )

        return _changed(await database.write(mine(arguments, work)), "updated", arguments)

    handlers = {
        "add_task": add_task,
        "list_tasks": list_tasks,
        "complete_task": complete_task,
        "delete_task": delete_task,
        "update_task": update_task,
    }
    rules = {"user_id": {"minLength": 1, "pattern": r"^[^\x00]*$"}, "task_id": {"minimum": 1}}
    tools = load_tools(__package__, handlers, rules)
    whose = "the user's id" if user is None else f"the user_id {json.dumps(user)}"
    about = f"a user's task list; every call takes {whose}."
    return Toolset("tasks", about, tools, TasksDialect(), prepare=_prepare, admit=admit)


def _prepare(_tool: str, arguments: Arguments) -> Arguments:
    """Null counts as not given, and a title is looked at without the white space around it."""
    prepared = {
        key: value
        for key, value in arguments.items()
        if not (value is None and key in ("title", "description"))
    }
    if isinstance(prepared.get("title"), str):
        prepared["title"] = prepared["title"].strip()
    return prepared


def _changed(task: Task | InvalidTask | None, status: str, arguments: Arguments) -> Any:
    if task is None:
        return Failure({"error": "Task not found", "task_id": int(arguments["task_id"])})
    if isinstance(task, InvalidTask):
        return Failure({"error": task.reason})
    return {"task_id": task.id, "status": status, "title": task.title}


def _shown(task: Task) -> Any:
    return {"id": task.id, "title": task.title, "description": task.description, "completed": task.completed}
