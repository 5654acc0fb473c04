"""Content: projects, entities, what relates them, and what is known about them."""

import sqlalchemy as sa
from alembic import op

from carrel.storage.sql_syntax import sqlite_trigrams

revision = "0002"
down_revision = "0001"

EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

TRIGRAMS = {
    "entity": {"head_fold": "entity_head_trigrams", "summary_fold": "entity_summary_trigrams"},
    "search_performance": {
        "query_fold": "search_performance_query_trigrams",
        "page_url_fold": "search_performance_page_trigrams",
    },
}


def upgrade() -> None:
    op.create_table(
        "project",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("slug", EXACT, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_fold", EXACT, nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("project_by_name", "project", ["name_fold", "id"])
    op.create_index("project_id", "project", ["id"], unique=True)
    op.create_index("project_slug", "project", ["slug"], unique=True)
    op.create_table(
        "entity",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("entity_type", EXACT, nullable=False),
        sa.Column("slug", EXACT, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text()),
        sa.Column("difficulty", sa.Text()),
        sa.Column("concept_kind", EXACT),
        sa.Column("comparison_targets", sa.Text(), comment="a JSON array of entity ids"),
        sa.Column("repo_url", sa.Text()),
        sa.Column("repo_default_branch", sa.Text()),
        sa.Column("license", sa.Text()),
        sa.Column("status", EXACT, nullable=False),
        sa.Column("canonical_url", sa.Text()),
        sa.Column("content_ref", sa.Text()),
        sa.Column("published_at", sa.BigInteger()),
        sa.Column("archived_at", sa.BigInteger()),
        sa.Column("last_verified_at", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "title_key", EXACT, nullable=False, comment="folded title, U+0001, id: what the nodes of a graph sort by"
        ),
        sa.Column("head_fold", EXACT, nullable=False, comment="folded title, U+0001, folded slug"),
        sa.Column("summary_fold", EXACT),
        sa.UniqueConstraint("project_pk", "pk", name="entity_in_project"),
        sa.UniqueConstraint("project_pk", "pk", "title_key", name="entity_with_title"),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "entity_by_creation", "entity", ["project_pk", "created_at", "id", "entity_type", "status", "concept_kind"]
    )
    op.create_index(
        "entity_by_kind", "entity", ["project_pk", "concept_kind", "created_at", "id", "entity_type", "status"]
    )
    op.create_index(
        "entity_by_status", "entity", ["project_pk", "status", "created_at", "id", "entity_type", "concept_kind"]
    )
    op.create_index(
        "entity_by_type", "entity", ["project_pk", "entity_type", "created_at", "id", "status", "concept_kind"]
    )
    op.create_index("entity_by_update", "entity", ["project_pk", sa.text("updated_at DESC"), "id"])
    op.create_index("entity_id", "entity", ["id"], unique=True)
    op.create_index("entity_slug", "entity", ["project_pk", "entity_type", "slug"], unique=True)
    op.create_table(
        "entity_tally",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("entity_type", EXACT, nullable=False),
        sa.Column("status", EXACT, nullable=False),
        sa.Column("concept_kind", EXACT, nullable=False, comment="empty for none"),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "entity_type", "status", "concept_kind", name="entity_tally_pk"),
    )
    op.create_table(
        "gram_tally",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("scope", EXACT, nullable=False, comment="of which texts, and how long the gram is"),
        sa.Column("gram", EXACT, nullable=False),
        sa.Column("entity_type", EXACT, nullable=False, comment="empty for rows that have none"),
        sa.Column("status", EXACT, nullable=False),
        sa.Column("concept_kind", EXACT, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint(
            "project_pk", "scope", "gram", "entity_type", "status", "concept_kind", name="gram_tally_pk"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "item",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("kind", EXACT, nullable=False, comment="sourceItem, video or distributionEvent"),
        sa.Column("url", EXACT),
        sa.Column("title", EXACT),
        sa.Column("details", sa.Text(), nullable=False, comment="a JSON object of everything else it was given with"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("project_pk", "pk", name="item_in_project"),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index("item_by_title", "item", ["project_pk", "kind", "title"])
    op.create_index("item_by_url", "item", ["project_pk", "kind", "url"], unique=True)
    op.create_index("item_id", "item", ["id"], unique=True)
    op.create_table(
        "quotable_block_expiry_tally",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("verified_day", sa.BigInteger(), nullable=False, comment="days from the beginning of the calendar"),
        sa.Column("claim_type", EXACT, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "verified_day", "claim_type", name="quotable_block_expiry_tally_pk"),
    )
    op.create_table(
        "quotable_block_tally",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("topic_fold", EXACT, nullable=False),
        sa.Column("claim_type", EXACT, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "topic_fold", "claim_type", name="quotable_block_tally_pk"),
    )
    op.create_table(
        "search_performance_tally",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("date_start", sa.BigInteger(), nullable=False),
        sa.Column("date_end", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "date_start", "date_end", name="search_performance_tally_pk"),
    )
    op.create_table(
        "quotable_block",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("entity_pk", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_digest", EXACT, nullable=False, comment="SHA-256 of the text: finds it again"),
        sa.Column("claim_type", EXACT, nullable=False),
        sa.Column("source_citation", sa.Text()),
        sa.Column("verified_until", sa.BigInteger()),
        sa.Column("topic_tag", sa.Text()),
        sa.Column("topic_fold", EXACT, nullable=False, comment="empty without a tag"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_pk", "entity_pk"],
            ["entity.project_pk", "entity.pk"],
            name="quotable_block_entity",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "quotable_block_by_claim", "quotable_block", ["project_pk", "claim_type", "created_at", "id", "verified_until"]
    )
    op.create_index(
        "quotable_block_by_creation",
        "quotable_block",
        ["project_pk", "created_at", "id", "claim_type", "verified_until"],
    )
    op.create_index("quotable_block_by_entity", "quotable_block", ["project_pk", "entity_pk", "created_at", "id"])
    op.create_index("quotable_block_by_expiry", "quotable_block", ["project_pk", "verified_until", "claim_type"])
    op.create_index("quotable_block_by_text", "quotable_block", ["project_pk", "entity_pk", "text_digest"])
    op.create_index(
        "quotable_block_by_topic",
        "quotable_block",
        ["project_pk", "topic_fold", "created_at", "id", "claim_type", "verified_until"],
    )
    op.create_index("quotable_block_id", "quotable_block", ["id"], unique=True)
    op.create_table(
        "relation",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("relation_type", EXACT, nullable=False),
        sa.Column("from_pk", sa.BigInteger()),
        sa.Column("from_title_key", EXACT),
        sa.Column("from_item", sa.BigInteger()),
        sa.Column("to_pk", sa.BigInteger()),
        sa.Column("to_title_key", EXACT),
        sa.Column("to_item", sa.BigInteger()),
        sa.Column("notes", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("(from_pk IS NULL) <> (from_item IS NULL)", name="relation_has_one_start"),
        sa.CheckConstraint("(to_pk IS NULL) <> (to_item IS NULL)", name="relation_has_one_end"),
        sa.CheckConstraint("from_item IS NULL OR to_item IS NULL", name="relation_has_an_entity"),
        sa.CheckConstraint("(from_pk IS NULL) = (from_title_key IS NULL)", name="relation_start_has_title"),
        sa.CheckConstraint("(to_pk IS NULL) = (to_title_key IS NULL)", name="relation_end_has_title"),
        sa.ForeignKeyConstraint(
            ["project_pk", "from_pk", "from_title_key"],
            ["entity.project_pk", "entity.pk", "entity.title_key"],
            name="relation_from_entity",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_pk", "to_pk", "to_title_key"],
            ["entity.project_pk", "entity.pk", "entity.title_key"],
            name="relation_to_entity",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_pk", "from_item"], ["item.project_pk", "item.pk"], name="relation_from_item", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project_pk", "to_item"], ["item.project_pk", "item.pk"], name="relation_to_item", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "relation_by_creation", "relation", ["project_pk", "created_at", "id", "from_pk", "to_pk", "relation_type"]
    )
    op.create_index("relation_by_end", "relation", ["project_pk", "to_pk", "created_at", "id", "relation_type"])
    op.create_index("relation_by_start", "relation", ["project_pk", "from_pk", "created_at", "id", "relation_type"])
    op.create_index("relation_id", "relation", ["id"], unique=True)
    op.create_index(
        "relation_neighbours_in",
        "relation",
        ["project_pk", "to_pk", "from_title_key", "from_pk", "relation_type"],
        sqlite_where=sa.text("from_pk IS NOT NULL AND to_pk IS NOT NULL"),
        postgresql_where=sa.text("from_pk IS NOT NULL AND to_pk IS NOT NULL"),
    )
    op.create_index(
        "relation_neighbours_out",
        "relation",
        ["project_pk", "from_pk", "to_title_key", "to_pk", "relation_type"],
        sqlite_where=sa.text("from_pk IS NOT NULL AND to_pk IS NOT NULL"),
        postgresql_where=sa.text("from_pk IS NOT NULL AND to_pk IS NOT NULL"),
    )
    op.create_index(
        "relation_pair",
        "relation",
        ["project_pk", "from_pk", "to_pk", "relation_type"],
        unique=True,
        sqlite_where=sa.text("from_pk IS NOT NULL AND to_pk IS NOT NULL"),
        postgresql_where=sa.text("from_pk IS NOT NULL AND to_pk IS NOT NULL"),
    )
    op.create_index(
        "relation_pair_from_item",
        "relation",
        ["project_pk", "from_item", "to_pk", "relation_type"],
        unique=True,
        sqlite_where=sa.text("from_item IS NOT NULL"),
        postgresql_where=sa.text("from_item IS NOT NULL"),
    )
    op.create_index(
        "relation_pair_to_item",
        "relation",
        ["project_pk", "to_item", "from_pk", "relation_type"],
        unique=True,
        sqlite_where=sa.text("to_item IS NOT NULL"),
        postgresql_where=sa.text("to_item IS NOT NULL"),
    )
    op.create_table(
        "search_performance",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("entity_pk", sa.BigInteger()),
        sa.Column("page_url", EXACT, nullable=False),
        sa.Column("query", EXACT, nullable=False),
        sa.Column("impressions", sa.BigInteger(), nullable=False),
        sa.Column("clicks", sa.BigInteger(), nullable=False),
        sa.Column("ctr", sa.Double, nullable=False),
        sa.Column("avg_position", sa.Double, nullable=False),
        sa.Column("date_start", sa.BigInteger(), nullable=False),
        sa.Column("date_end", sa.BigInteger(), nullable=False),
        sa.Column("captured_at", sa.BigInteger(), nullable=False),
        sa.Column("query_fold", EXACT, nullable=False),
        sa.Column("page_url_fold", EXACT, nullable=False),
        sa.ForeignKeyConstraint(
            ["project_pk", "entity_pk"], ["entity.project_pk", "entity.pk"], name="search_performance_entity"
        ),
        sa.CheckConstraint("clicks >= 0 AND clicks <= impressions", name="search_performance_clicks"),
        sa.CheckConstraint("ctr >= 0 AND ctr <= 1", name="search_performance_ctr"),
        sa.CheckConstraint("date_start <= date_end", name="search_performance_dates"),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "search_performance_by_entity",
        "search_performance",
        ["project_pk", "entity_pk", sa.text("date_start DESC"), sa.text("date_end DESC"), "query", "page_url"],
        postgresql_include=["pk"],
    )
    op.create_index("search_performance_id", "search_performance", ["id"], unique=True)
    op.create_index(
        "search_performance_in_order",
        "search_performance",
        ["project_pk", sa.text("date_start DESC"), sa.text("date_end DESC"), "query", "page_url"],
        unique=True,
        postgresql_include=["pk"],
    )
    if op.get_bind().dialect.name == "sqlite":
        for table, columns in TRIGRAMS.items():
            for statement in sqlite_trigrams(table, list(columns)):
                op.execute(statement)
        return
    op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    for table, columns in TRIGRAMS.items():
        for column, index in columns.items():
            op.create_index(index, table, [column], postgresql_using="gin", postgresql_ops={column: "gin_trgm_ops"})
