"""The one schema, for both engines. A change here needs a migration; a test compares the two."""

from carrel.storage.schema import content_tables, core_tables
from carrel.storage.schema.content_tables import is_for_trigrams, is_on
from carrel.storage.schema.core_tables import metadata, task

__all__ = [
    "FORMER_TABLES",
    "content_tables",
    "core_tables",
    "is_for_trigrams",
    "is_on",
    "metadata",
    "task",
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
