"""Substring search without an index of our own: its tables go, and SQLite gets two indexes to scan."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

GONE = (
    "search_performance_gram",
    "search_performance_block",
    "entity_gram",
    "entity_block",
    "quotable_block_gram",
    "quotable_block_block",
    "gram_tally",
)


def upgrade() -> None:
    for table in GONE:
        op.drop_table(table)
    if op.get_bind().dialect.name == "sqlite":
        op.create_index(
            "entity_scan",
            "entity",
            ["project_pk", "entity_type", "status", "concept_kind", "head_fold", "summary_fold"],
        )
        op.create_index(
            "search_performance_scan",
            "search_performance",
            ["project_pk", sa.text("date_start DESC"), sa.text("date_end DESC"), "query_fold", "page_url_fold"],
        )
