"""The knowledge graph. Rows refer to each other by `pk`, a number that never leaves the database; the UUID does."""

from typing import Any

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
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)

from carrel.storage.schema.base import exact, metadata
from carrel.storage.trigrams import sqlite_trigrams


def _pk() -> Column[int]:
    return Column("pk", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True)


def _project_pk() -> Column[int]:
    return Column("project_pk", BigInteger, ForeignKey("project.pk", ondelete="CASCADE"), nullable=False)


def _trigrams(name: str, column: str) -> Index:
    """What finds a part of a text on PostgreSQL; SQLite has a table of its own for it, see `_searchable`."""
    index = Index(name, column, postgresql_using="gin", postgresql_ops={column: "gin_trgm_ops"})
    return index.ddl_if(dialect="postgresql")


def is_for_trigrams(index: Index) -> bool:
    return index.dialect_options["postgresql"]["using"] == "gin"


def _block_columns() -> list[Column[int]]:
    return [
        _project_pk(),
        Column("number", BigInteger, nullable=False, comment="of the keys, divided by how many a block has"),
        Column("total", BigInteger, nullable=False, comment="rows of the project"),  # before 0008: now it is nought
    ]


def _date_columns() -> list[Column[Any]]:
    return [
        Column("first_start", BigInteger, nullable=False),
        Column("last_start", BigInteger, nullable=False),
        Column("first_end", BigInteger, nullable=False),
        Column("last_end", BigInteger, nullable=False),
        _array("dates"),
    ]


def _array(name: str) -> Column[bytes]:
    """Before 0008 the column of this name for all rows; now it is empty: see `carrel.content.row_set_making`."""
    return Column(name, LargeBinary, nullable=False, comment="of each row")


def _noted_columns() -> list[Column[Any]]:
    return [
        Column("changed", LargeBinary, comment="rows whose sets may be untrue"),
        Column("noted", BigInteger, comment="how many these are; they are not in the total"),  # before 0008
        Column("held", BigInteger, comment="rows of the project"),
    ]


def _gram_columns(texts: str, gram: str = "up to three characters, or more that many rows hold") -> list[Column[Any]]:
    return [
        _project_pk(),
        Column("block", BigInteger, nullable=False),
        Column("texts", exact(), nullable=False, comment=texts),
        Column("gram", exact(), nullable=False, comment=gram),  # four since 0008: migrations change no comment
        Column("bits", LargeBinary, nullable=False, comment="of the rows with it"),
    ]


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

# The same for short texts: how many rows contain each character, and each two and three in a row.
gram_tally = Table(
    "gram_tally",
    metadata,
    _project_pk(),
    Column("scope", exact(), nullable=False, comment="of which texts, and how long the gram is"),
    Column("gram", exact(), nullable=False),
    Column("entity_type", exact(), nullable=False, comment="empty for rows that have none"),
    Column("status", exact(), nullable=False),
    Column("concept_kind", exact(), nullable=False),
    Column("total", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_pk", "scope", "gram", "entity_type", "status", "concept_kind", name="gram_tally_pk"),
    sqlite_with_rowid=False,
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

# Sets of rows, one bit each, for blocks of keys: what can be made again from the rows is in no backup.
search_performance_block = Table(
    "search_performance_block",
    metadata,
    *_block_columns(),
    *_date_columns(),
    *_noted_columns(),
    PrimaryKeyConstraint("project_pk", "number", name="search_performance_block_pk"),
    info={"is_passing": True},
)

search_performance_gram = Table(
    "search_performance_gram",
    metadata,
    *_gram_columns("query or page", "up to three characters"),  # longer ones too: migrations change no comment
    PrimaryKeyConstraint("project_pk", "block", "texts", "gram", name="search_performance_gram_pk"),
    sqlite_with_rowid=False,
    info={"is_passing": True},
)

entity_block = Table(
    "entity_block",
    metadata,
    *_block_columns(),
    _array("created_at"),
    _array("updated_at"),
    *_noted_columns(),
    PrimaryKeyConstraint("project_pk", "number", name="entity_block_pk"),
    info={"is_passing": True},
)

entity_gram = Table(
    "entity_gram",
    metadata,
    *_gram_columns("head, summary, or the name of a facet"),
    PrimaryKeyConstraint("project_pk", "block", "texts", "gram", name="entity_gram_pk"),
    sqlite_with_rowid=False,
    info={"is_passing": True},
)

quotable_block_block = Table(
    "quotable_block_block",
    metadata,
    *_block_columns(),
    *_date_columns(),
    _array("created_at"),
    *_noted_columns(),
    PrimaryKeyConstraint("project_pk", "number", name="quotable_block_block_pk"),
    info={"is_passing": True},
)

quotable_block_gram = Table(
    "quotable_block_gram",
    metadata,
    *_gram_columns("topic, or the name of a facet"),
    PrimaryKeyConstraint("project_pk", "block", "texts", "gram", name="quotable_block_gram_pk"),
    sqlite_with_rowid=False,
    info={"is_passing": True},
)

quotable_block_expiry_tally = Table(
    "quotable_block_expiry_tally",
    metadata,
    _project_pk(),
    Column("verified_day", BigInteger, nullable=False, comment="days from the beginning of the calendar"),
    Column("claim_type", exact(), nullable=False),
    Column("total", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_pk", "verified_day", "claim_type", name="quotable_block_expiry_tally_pk"),
)

quotable_block_tally = Table(
    "quotable_block_tally",
    metadata,
    _project_pk(),
    Column("topic_fold", exact(), nullable=False),
    Column("claim_type", exact(), nullable=False),
    Column("total", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_pk", "topic_fold", "claim_type", name="quotable_block_tally_pk"),
)

event.listen(metadata, "before_create", DDL("CREATE EXTENSION IF NOT EXISTS pg_trgm").execute_if(dialect="postgresql"))


def _searchable(table: Table, *columns: str) -> None:
    """On SQLite, the table of trigrams that finds a part of a text; triggers keep it in step."""
    for statement in sqlite_trigrams(table.name, columns):
        event.listen(table, "after_create", DDL(statement).execute_if(dialect="sqlite"))


_searchable(entity, "head_fold", "summary_fold")
_searchable(search_performance, "query_fold", "page_url_fold")
