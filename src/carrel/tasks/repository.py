"""One user's tasks in the database. Every statement names the user: a repository cannot be built without one."""

import time
from typing import Any

from carrel.common import is_storable
from carrel.storage.database import Row, Session
from carrel.tasks.task import USER_ID_LIMIT, Status, Task

MAX_TASK_ID = 2**63 - 1

_TASK_COLUMNS = "id, title, description, completed"
_WHERE_OWN = "WHERE user_id = :user_id AND id = :id"

_INSERT = f"""
    INSERT INTO task (user_id, title, description, created_at)
    VALUES (:user_id, :title, :description, :now) RETURNING {_TASK_COLUMNS}
"""
_LIST = {
    "all": f"SELECT {_TASK_COLUMNS} FROM task WHERE user_id = :user_id ORDER BY id",
    "pending": f"SELECT {_TASK_COLUMNS} FROM task WHERE user_id = :user_id AND NOT completed ORDER BY id",
    "completed": f"SELECT {_TASK_COLUMNS} FROM task WHERE user_id = :user_id AND completed ORDER BY id",
}
_COMPLETE = f"""
    UPDATE task SET completed = TRUE, completed_at = coalesce(completed_at, :now) {_WHERE_OWN} RETURNING {_TASK_COLUMNS}
"""
_DELETE = f"DELETE FROM task {_WHERE_OWN} RETURNING {_TASK_COLUMNS}"
_SET_TITLE = f"UPDATE task SET title = :title {_WHERE_OWN} RETURNING {_TASK_COLUMNS}"
_SET_DESCRIPTION = f"UPDATE task SET description = :description {_WHERE_OWN} RETURNING {_TASK_COLUMNS}"
_SET_BOTH = f"UPDATE task SET title = :title, description = :description {_WHERE_OWN} RETURNING {_TASK_COLUMNS}"
_new_task = tuple[Any, ...].__new__
"""The C constructor behind `Task()`: long lists are built without a Python call for each task."""


class TaskRepository:
    """The tasks of one user, over one database session."""

    def __init__(self, session: Session, user_id: str) -> None:
        if not user_id or len(user_id) > USER_ID_LIMIT or not is_storable(user_id):
            raise ValueError(f"user_id must be a non-empty string of at most {USER_ID_LIMIT} characters")
        self._session = session
        self._user_id = user_id

    async def add(self, title: str, description: str | None) -> Task:
        row = await self._session.first(
            _INSERT, {"user_id": self._user_id, "title": title, "description": description, "now": _now()}
        )
        assert row is not None  # noqa: S101 - INSERT ... RETURNING always gives its row
        return _task(row)

    async def list(self, status: Status) -> list[Task]:
        rows = await self._session.all(_LIST[status], {"user_id": self._user_id})
        return [_new_task(Task, (number, title, text, bool(completed))) for number, title, text, completed in rows]

    async def complete(self, task_id: int) -> Task | None:
        return await self._change(_COMPLETE, task_id, now=_now())

    async def delete(self, task_id: int) -> Task | None:
        return await self._change(_DELETE, task_id)

    async def set_title(self, task_id: int, title: str) -> Task | None:
        return await self._change(_SET_TITLE, task_id, title=title)

    async def set_description(self, task_id: int, description: str | None) -> Task | None:
        return await self._change(_SET_DESCRIPTION, task_id, description=description)

    async def set_both(self, task_id: int, title: str, description: str | None) -> Task | None:
        return await self._change(_SET_BOTH, task_id, title=title, description=description)

    async def _change(self, sql: str, task_id: int, **values: object) -> Task | None:
        if not 0 < task_id <= MAX_TASK_ID:
            return None
        row = await self._session.first(sql, {"user_id": self._user_id, "id": task_id, **values})
        return None if row is None else _task(row)


def _task(row: Row) -> Task:
    return Task(row[0], row[1], row[2], bool(row[3]))


def _now() -> int:
    return time.time_ns() // 1_000_000
