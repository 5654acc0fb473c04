"""The five things a user can do with tasks. Public API: build one on a repository and execute it."""

from dataclasses import dataclass

from carrel.tasks.repository import TaskRepository
from carrel.tasks.task import (
    NOTHING_TO_UPDATE,
    InvalidTask,
    Status,
    Task,
    checked_description,
    checked_title,
)


@dataclass(frozen=True, slots=True)
class AddTaskUseCase:
    """Adds a task."""

    repository: TaskRepository

    async def execute(self, title: str, description: str | None = None) -> Task | InvalidTask:
        valid_title = checked_title(title)
        if isinstance(valid_title, InvalidTask):
            return valid_title
        valid_description = checked_description(description)
        if isinstance(valid_description, InvalidTask):
            return valid_description
        return await self.repository.add(valid_title, valid_description)


@dataclass(frozen=True, slots=True)
class ListTasksUseCase:
    """Lists a user's tasks."""

    repository: TaskRepository

    async def execute(self, status: Status = "all") -> list[Task]:
        """Return the user's tasks in order of id."""
        return await self.repository.list(status)


@dataclass(frozen=True, slots=True)
class CompleteTaskUseCase:
    """Completes a task."""

    repository: TaskRepository

    async def execute(self, task_id: int) -> Task | None:
        """Complete a task and return it, also if it was completed before; None if the user has no such task."""
        return await self.repository.complete(task_id)


@dataclass(frozen=True, slots=True)
class DeleteTaskUseCase:
    """Deletes a task."""

    repository: TaskRepository

    async def execute(self, task_id: int) -> Task | None:
        """Delete a task and return it; None if the user has no such task."""
        return await self.repository.delete(task_id)


@dataclass(frozen=True, slots=True)
class UpdateTaskUseCase:
    """Changes the title, the description or both of a task."""

    repository: TaskRepository

    async def execute(
        self, task_id: int, title: str | None = None, description: str | None = None
    ) -> Task | InvalidTask | None:
        """Update the fields that are not None; an empty description clears it. Return None if the user has no such
        task."""
        if title is None and description is None:
            return InvalidTask(NOTHING_TO_UPDATE)
        valid_title = None if title is None else checked_title(title)
        if isinstance(valid_title, InvalidTask):
            return valid_title
        valid_description = checked_description(description)
        if isinstance(valid_description, InvalidTask):
            return valid_description
        if valid_title is None:
            return await self.repository.set_description(task_id, valid_description)
        if description is None:
            return await self.repository.set_title(task_id, valid_title)
        return await self.repository.set_both(task_id, valid_title, valid_description)
