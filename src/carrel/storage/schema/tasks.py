"""Each user's tasks."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    false,
)

from carrel.storage.schema.base import metadata

# AUTOINCREMENT and an identity column never give out an id twice, also after the newest row was deleted.
task = Table(
    "task",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("description", Text),
    Column("completed", Boolean, nullable=False, server_default=false()),
    Column("created_at", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    Column("completed_at", BigInteger, comment="milliseconds since 1970, UTC"),
    CheckConstraint("user_id <> ''", name="task_user_id_is_not_empty"),
    CheckConstraint("length(title) BETWEEN 1 AND 200", name="task_title_length"),
    CheckConstraint("length(description) <= 1000", name="task_description_length"),
    Index("task_by_user", "user_id", "id"),
    sqlite_autoincrement=True,
)
