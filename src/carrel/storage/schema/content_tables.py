"""The knowledge graph. Rows refer to each other by `pk`, a number that never leaves the database; the UUID does."""

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    event,
    text,
)

from carrel.storage.schema.core_tables import exact, metadata
from carrel.storage.sql_syntax import sqlite_trigrams


def _pk() -> Column[int]:
    return Column("pk", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True)


def _project_pk() -> Column[int]:
    return Column("project_pk", BigInteger, ForeignKey("project.pk", ondelete="CASCADE"), nullable=False)


def _trigrams(name: str, column: str) -> Index:
    """What finds a part of a text on PostgreSQL; SQLite has a table of its own for it, see `_searchable`."""
    index = Index(name, column, postgresql_using="gin", postgresql_ops={column: "gin_trgm_ops"})
    index.info["dialect"] = "postgresql"
    return index.ddl_if(dialect="postgresql")


def _scan(name: str, *columns: str | TextClause) -> Index:
    """What SQLite reads from end to end for a part of a text: a fraction of the table. PostgreSQL reads the table."""
    index = Index(name, "project_pk", *columns)
    index.info["dialect"] = "sqlite"
    return index.ddl_if(dialect="sqlite")


def is_for_trigrams(index: Index) -> bool:
    return index.dialect_options["postgresql"]["using"] == "gin"


def is_on(index: Index, dialect: str) -> bool:
    """Whether the engine has the index."""
    return index.info.get("dialect", dialect) == dialect


project = Table(
    "project",
    metadata,
    _pk(),
    Column("id", exact(), nullable=False),
    Column("slug", exact(), nullable=False),
    Column("name", Text, nullable=False),
    Column("name_fold", exact(), nullable=False),
    Column("description", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("project_id", "id", unique=True),
    Index("project_slug", "slug", unique=True),
    Index("project_by_name", "name_fold", "id"),
    sqlite_autoincrement=True,
)

entity = Table(
    "entity",
    metadata,
    _pk(),
    _project_pk(),
    Column("id", exact(), nullable=False),
    Column("entity_type", exact(), nullable=False),
    Column("slug", exact(), nullable=False),
    Column("title", Text, nullable=False),
    Column("summary", Text),
    Column("difficulty", Text),
    Column("concept_kind", exact()),
    Column("comparison_targets", Text, comment="a JSON array of entity ids"),
    Column("repo_url", Text),
    Column("repo_default_branch", Text),
    Column("license", Text),
    Column("status", exact(), nullable=False),
    Column("canonical_url", Text),
    Column("content_ref", Text),
    Column("published_at", BigInteger),
    Column("archived_at", BigInteger),
    Column("last_verified_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("title_key", exact(), nullable=False, comment="folded title, U+0001, id: what the nodes of a graph sort by"),
    Column("head_fold", exact(), nullable=False, comment="folded title, U+0001, folded slug"),
    Column("summary_fold", exact()),
    UniqueConstraint("project_pk", "pk", name="entity_in_project"),
    UniqueConstraint("project_pk", "pk", "title_key", name="entity_with_title"),
    Index("entity_id", "id", unique=True),
    Index("entity_slug", "project_pk", "entity_type", "slug", unique=True),
    Index("entity_by_update", "project_pk", text("updated_at DESC"), "id"),
    Index("entity_by_creation", "project_pk", "created_at", "id", "entity_type", "status", "concept_kind"),
    Index("entity_by_type", "project_pk", "entity_type", "created_at", "id", "status", "concept_kind"),
    Index("entity_by_status", "project_pk", "status", "created_at", "id", "entity_type", "concept_kind"),
    Index("entity_by_kind", "project_pk", "concept_kind", "created_at", "id", "entity_type", "status"),
    _scan("entity_scan", "entity_type", "status", "concept_kind", "head_fold", "summary_fold"),
    _trigrams("entity_head_trigrams", "head_fold"),
    _trigrams("entity_summary_trigrams", "summary_fold"),
    sqlite_autoincrement=True,
)

item = Table(
    "item",
    metadata,
    _pk(),
    _project_pk(),
    Column("id", exact(), nullable=False),
    Column("kind", exact(), nullable=False, comment="sourceItem, video or distributionEvent"),
    Column("url", exact()),
    Column("title", exact()),
    Column("details", Text, nullable=False, comment="a JSON object of everything else it was given with"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("project_pk", "pk", name="item_in_project"),
    Index("item_id", "id", unique=True),
    Index("item_by_url", "project_pk", "kind", "url", unique=True),
    Index("item_by_title", "project_pk", "kind", "title"),
    sqlite_autoincrement=True,
)

# An end is an entity or an item. Entities' title keys are copied here, so that neighbours can be read in the order of
# their titles; the foreign key carries every change of a title over.
_IS_BETWEEN_ENTITIES = text("from_pk IS NOT NULL AND to_pk IS NOT NULL")


def _between_entities(name: str, *columns: str, unique: bool = False) -> Index:
    where = _IS_BETWEEN_ENTITIES
    return Index(name, "project_pk", *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _with_item(name: str, *columns: str) -> Index:
    where = text(f"{columns[0]} IS NOT NULL")
    return Index(name, "project_pk", *columns, unique=True, sqlite_where=where, postgresql_where=where)


relation = Table(
    "relation",
    metadata,
    _pk(),
    _project_pk(),
    Column("id", exact(), nullable=False),
    Column("relation_type", exact(), nullable=False),
    Column("from_pk", BigInteger),
    Column("from_title_key", exact()),
    Column("from_item", BigInteger),
    Column("to_pk", BigInteger),
    Column("to_title_key", exact()),
    Column("to_item", BigInteger),
    Column("notes", Text),
    Column("created_at", BigInteger, nullable=False),
    CheckConstraint("(from_pk IS NULL) <> (from_item IS NULL)", name="relation_has_one_start"),
    CheckConstraint("(to_pk IS NULL) <> (to_item IS NULL)", name="relation_has_one_end"),
    CheckConstraint("from_item IS NULL OR to_item IS NULL", name="relation_has_an_entity"),
    CheckConstraint("(from_pk IS NULL) = (from_title_key IS NULL)", name="relation_start_has_title"),
    CheckConstraint("(to_pk IS NULL) = (to_title_key IS NULL)", name="relation_end_has_title"),
    ForeignKeyConstraint(
        ["project_pk", "from_pk", "from_title_key"],
        ["entity.project_pk", "entity.pk", "entity.title_key"],
        name="relation_from_entity",
        onupdate="CASCADE",
        ondelete="CASCADE",
    ),
    ForeignKeyConstraint(
        ["project_pk", "to_pk", "to_title_key"],
        ["entity.project_pk", "entity.pk", "entity.title_key"],
        name="relation_to_entity",
        onupdate="CASCADE",
        ondelete="CASCADE",
    ),
    ForeignKeyConstraint(
        ["project_pk", "from_item"], ["item.project_pk", "item.pk"], name="relation_from_item", ondelete="CASCADE"
    ),
    ForeignKeyConstraint(
        ["project_pk", "to_item"], ["item.project_pk", "item.pk"], name="relation_to_item", ondelete="CASCADE"
    ),
    Index("relation_id", "id", unique=True),
    _between_entities("relation_pair", "from_pk", "to_pk", "relation_type", unique=True),
    _with_item("relation_pair_from_item", "from_item", "to_pk", "relation_type"),
    _with_item("relation_pair_to_item", "to_item", "from_pk", "relation_type"),
    _between_entities("relation_neighbours_out", "from_pk", "to_title_key", "to_pk", "relation_type"),
    _between_entities("relation_neighbours_in", "to_pk", "from_title_key", "from_pk", "relation_type"),
    Index("relation_by_start", "project_pk", "from_pk", "created_at", "id", "relation_type"),
    Index("relation_by_end", "project_pk", "to_pk", "created_at", "id", "relation_type"),
    Index("relation_by_creation", "project_pk", "created_at", "id", "from_pk", "to_pk", "relation_type"),
    sqlite_autoincrement=True,
)

search_performance = Table(
    "search_performance",
    metadata,
    _pk(),
    _project_pk(),
    Column("id", exact(), nullable=False),
    Column("entity_pk", BigInteger),
    Column("page_url", exact(), nullable=False),
    Column("query", exact(), nullable=False),
    Column("impressions", BigInteger, nullable=False),
    Column("clicks", BigInteger, nullable=False),
    Column("ctr", Double, nullable=False),
    Column("avg_position", Double, nullable=False),
    Column("date_start", BigInteger, nullable=False),
    Column("date_end", BigInteger, nullable=False),
    Column("captured_at", BigInteger, nullable=False),
    Column("query_fold", exact(), nullable=False),
    Column("page_url_fold", exact(), nullable=False),
    ForeignKeyConstraint(
        ["project_pk", "entity_pk"], ["entity.project_pk", "entity.pk"], name="search_performance_entity"
    ),
    CheckConstraint("clicks >= 0 AND clicks <= impressions", name="search_performance_clicks"),
    CheckConstraint("ctr >= 0 AND ctr <= 1", name="search_performance_ctr"),
    CheckConstraint("date_start <= date_end", name="search_performance_dates"),
    Index("search_performance_id", "id", unique=True),
    Index(
        "search_performance_in_order",
        "project_pk",
        text("date_start DESC"),
        text("date_end DESC"),
        "query",
        "page_url",
        unique=True,
        postgresql_include=["pk"],
    ),
    Index(
        "search_performance_by_entity",
        "project_pk",
        "entity_pk",
        text("date_start DESC"),
        text("date_end DESC"),
        "query",
        "page_url",
        postgresql_include=["pk"],
    ),
    _scan("search_performance_scan", text("date_start DESC"), text("date_end DESC"), "query_fold", "page_url_fold"),
    _trigrams("search_performance_query_trigrams", "query_fold"),
    _trigrams("search_performance_page_trigrams", "page_url_fold"),
    sqlite_autoincrement=True,
)

quotable_block = Table(
    "quotable_block",
    metadata,
    _pk(),
    _project_pk(),
    Column("id", exact(), nullable=False),
    Column("entity_pk", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("text_digest", exact(), nullable=False, comment="SHA-256 of the text: finds it again"),
    Column("claim_type", exact(), nullable=False),
    Column("source_citation", Text),
    Column("verified_until", BigInteger),
    Column("topic_tag", Text),
    Column("topic_fold", exact(), nullable=False, comment="empty without a tag"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["project_pk", "entity_pk"],
        ["entity.project_pk", "entity.pk"],
        name="quotable_block_entity",
        ondelete="CASCADE",
    ),
    Index("quotable_block_id", "id", unique=True),
    Index("quotable_block_by_creation", "project_pk", "created_at", "id", "claim_type", "verified_until"),
    Index("quotable_block_by_entity", "project_pk", "entity_pk", "created_at", "id"),
    Index("quotable_block_by_claim", "project_pk", "claim_type", "created_at", "id", "verified_until"),
    Index("quotable_block_by_topic", "project_pk", "topic_fold", "created_at", "id", "claim_type", "verified_until"),
    Index("quotable_block_by_expiry", "project_pk", "verified_until", "claim_type"),
    Index("quotable_block_by_text", "project_pk", "entity_pk", "text_digest"),
    sqlite_autoincrement=True,
)

# How many rows there are of each sort, so that no list counts its rows anew. Whoever writes content brings them up to
# date in the same transaction.
entity_tally = Table(
    "entity_tally",
    metadata,
    _project_pk(),
    Column("entity_type", exact(), nullable=False),
    Column("status", exact(), nullable=False),
    Column("concept_kind", exact(), nullable=False, comment="empty for none"),
    Column("total", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_pk", "entity_type", "status", "concept_kind", name="entity_tally_pk"),
)

search_performance_tally = Table(
    "search_performance_tally",
    metadata,
    _project_pk(),
    Column("date_start", BigInteger, nullable=False),
    Column("date_end", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_pk", "date_start", "date_end", name="search_performance_tally_pk"),
)

# A block without an expiry counts at day -1.
quotable_block_expiry_tally = Table(
    "quotable_block_expiry_tally",
    metadata,
    _project_pk(),
    Column("verified_day", BigInteger, nullable=False, comment="days from the beginning of the calendar"),
    Column("claim_type", exact(), nullable=False),
    Column("total", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_pk", "verified_day", "claim_type", name="quotable_block_expiry_tally_pk"),
)

event.listen(metadata, "before_create", DDL("CREATE EXTENSION IF NOT EXISTS pg_trgm").execute_if(dialect="postgresql"))


def _searchable(table: Table, *columns: str) -> None:
    """On SQLite, the table of trigrams that finds a part of a text; triggers keep it in step."""
    for statement in sqlite_trigrams(table.name, columns):
        event.listen(table, "after_create", DDL(statement).execute_if(dialect="sqlite"))


_searchable(entity, "head_fold", "summary_fold")
_searchable(search_performance, "query_fold", "page_url_fold")
