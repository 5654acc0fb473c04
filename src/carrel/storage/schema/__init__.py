"""The one schema, for both engines. A change here needs a migration; a test compares the two."""

from carrel.storage.schema import code, content, doors, limits, tasks
from carrel.storage.schema.base import metadata
from carrel.storage.schema.content import is_for_trigrams, is_on
from carrel.storage.schema.tasks import task

__all__ = [
    "FORMER_TABLES",
    "code",
    "content",
    "doors",
    "is_for_trigrams",
    "is_on",
    "limits",
    "metadata",
    "task",
    "tasks",
]

FORMER_TABLES = {
    "gram_tally": True,
    "quotable_block_tally": True,
    "search_performance_block": False,
    "search_performance_gram": False,
    "entity_block": False,
    "entity_gram": False,
    "quotable_block_block": False,
    "quotable_block_gram": False,
}
"""Tables that older revisions have (0002 to 0009), each with whether their backups hold it."""
