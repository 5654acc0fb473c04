"""The tasks contract."""

from carrel.toolsets.tasks.toolset import tasks_toolset

__all__ = ["tasks_toolset"]
