"""The five tools, thin on top of the use cases."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from carrel.common import is_storable
from carrel.mcp.toolset import Arguments, Caller, Failure, Scopes, Toolset, load_tools
from carrel.storage.database import Database
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
from carrel.tasks.task import USER_ID_LIMIT
from carrel.toolsets.tasks.dialect import BAD_USER, NOT_THE_USER, TasksDialect

T = TypeVar("T")


def tasks_toolset(database: Database, *, user: str | None = None) -> Toolset:
    """Build the toolset; `user` is the only user it serves, None serves the user that a call names."""
    tasks = _Handlers(database)
    handlers = {
        "add_task": tasks.add,
        "list_tasks": tasks.list,
        "complete_task": tasks.complete,
        "delete_task": tasks.delete,
        "update_task": tasks.update,
    }
    rules = {
        "user_id": {"minLength": 1, "maxLength": USER_ID_LIMIT, "pattern": r"^[^\x00]*$"},
        "task_id": {"minimum": 1},
    }
    whose = "the user's id" if user is None else f"the user_id {json.dumps(user)}"

    def admit(arguments: Arguments, caller: Caller) -> Failure | None:
        named = arguments["user_id"]
        if not is_storable(named):
            return Failure(BAD_USER)
        expected = caller.user or user
        return Failure(NOT_THE_USER, is_denial=True) if expected is not None and named != expected else None

    return Toolset(
        name="tasks",
        about=f"a user's task list; every call takes {whose}.",
        tools=load_tools("carrel.toolsets.tasks", handlers, rules),
        dialect=TasksDialect(),
        scopes=Scopes("tasks", "tasks"),
        targets=("task_id",),
        prepare=_prepare,
        admit=admit,
    )


class _Handlers:
    """The handlers: each runs a use case on a repository scoped to (session, user) and formats its outcome."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, arguments: Arguments, _caller: Caller) -> Any:
        task = await self._write(
            arguments, lambda tasks: AddTaskUseCase(tasks).execute(arguments["title"], arguments.get("description"))
        )
        return _changed(task, "created", arguments)

    async def list(self, arguments: Arguments, _caller: Caller) -> Any:
        user_id, status = arguments["user_id"], arguments.get("status", "all")
        tasks = await self._database.read(
            lambda session: ListTasksUseCase(TaskRepository(session, user_id)).execute(status)
        )
        return [
            {"id": number, "title": title, "description": description, "completed": completed}
            for number, title, description, completed in tasks
        ]

    async def complete(self, arguments: Arguments, _caller: Caller) -> Any:
        task = await self._write(arguments, lambda tasks: CompleteTaskUseCase(tasks).execute(_id(arguments)))
        return _changed(task, "completed", arguments)

    async def delete(self, arguments: Arguments, _caller: Caller) -> Any:
        task = await self._write(arguments, lambda tasks: DeleteTaskUseCase(tasks).execute(_id(arguments)))
        return _changed(task, "deleted", arguments)

    async def update(self, arguments: Arguments, _caller: Caller) -> Any:
        title, description = arguments.get("title"), arguments.get("description")
        task = await self._write(
            arguments, lambda tasks: UpdateTaskUseCase(tasks).execute(_id(arguments), title, description)
        )
        return _changed(task, "updated", arguments)

    async def _write(self, arguments: Arguments, work: Callable[[TaskRepository], Awaitable[T]]) -> T:
        user_id = arguments["user_id"]
        return await self._database.write(lambda session: work(TaskRepository(session, user_id)))


def _prepare(_tool: str, arguments: Arguments) -> Arguments:
    """Drop null titles and descriptions, and strip the title before the schema measures its length."""
    prepared = {
        key: value for key, value in arguments.items() if not (value is None and key in ("title", "description"))
    }
    title = prepared.get("title")
    if isinstance(title, str):
        prepared["title"] = title.strip()
    return prepared


def _id(arguments: Arguments) -> int:
    return int(arguments["task_id"])


def _changed(task: Task | InvalidTask | None, status: str, arguments: Arguments) -> Any:
    if task is None:
        return Failure({"error": "Task not found", "task_id": _id(arguments)})
    if isinstance(task, InvalidTask):
        return Failure({"error": task.reason})
    return {"task_id": task.id, "status": status, "title": task.title}
