"""The one schema, for both engines. A change here needs a migration; a test compares the two."""

from carrel.storage.schema import code, content, doors, limits, tasks
from carrel.storage.schema.base import metadata
from carrel.storage.schema.content import is_for_trigrams
from carrel.storage.schema.tasks import task

__all__ = ["code", "content", "doors", "is_for_trigrams", "limits", "metadata", "task", "tasks"]
