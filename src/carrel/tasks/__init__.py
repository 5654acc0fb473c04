"""Each user's tasks: five use cases over a repository that belongs to one user."""

from carrel.tasks.repository import TaskRepository
from carrel.tasks.task import InvalidTask, Status, Task
from carrel.tasks.use_cases import (
    AddTaskUseCase,
    CompleteTaskUseCase,
    DeleteTaskUseCase,
    ListTasksUseCase,
    UpdateTaskUseCase,
)

__all__ = [
    "AddTaskUseCase",
    "CompleteTaskUseCase",
    "DeleteTaskUseCase",
    "InvalidTask",
    "ListTasksUseCase",
    "Status",
    "Task",
    "TaskRepository",
    "UpdateTaskUseCase",
]
