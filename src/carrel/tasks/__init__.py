"""Each user's tasks: five use cases over a repository that belongs to one user."""

from carrel.tasks.repository import TaskRepository
from carrel.tasks.task import InvalidTask, Status, Task
from carrel.tasks.use_cases import AddTask, CompleteTask, DeleteTask, ListTasks, UpdateTask

__all__ = [
    "AddTask",
    "CompleteTask",
    "DeleteTask",
    "InvalidTask",
    "ListTasks",
    "Status",
    "Task",
    "TaskRepository",
    "UpdateTask",
]
