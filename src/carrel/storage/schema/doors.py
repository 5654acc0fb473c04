"""Who may come in, and what they did."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from carrel.storage.schema.base import exact, metadata

access_token = Table(
    "access_token",
    metadata,
    Column("id", exact(), nullable=False),
    Column("hash", exact(), nullable=False, comment="SHA-256 of the secret part, in hexadecimal"),
    Column("subject", exact(), nullable=False),
    Column("scopes", Text, nullable=False, comment="with blanks between them"),
    Column("projects", Text, comment="slugs or ids with blanks between them; NULL for all"),
    Column("label", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    Column("expires_at", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    Column("revoked_at", BigInteger, comment="milliseconds since 1970, UTC"),
    CheckConstraint("length(hash) = 64", name="access_token_hash"),
    PrimaryKeyConstraint("id", name="access_token_pk"),
)

audit_line = Table(
    "audit_line",
    metadata,
    Column("pk", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("at", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    Column("subject", exact(), nullable=False),
    Column("client", Text, nullable=False),
    Column("action", Text, nullable=False, comment="the tool, or the path of what is no tool"),
    Column("target", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Index("audit_line_by_time", text("at DESC"), text("pk DESC")),
    Index("audit_line_by_subject", "subject", text("at DESC"), text("pk DESC")),
    sqlite_autoincrement=True,
)
