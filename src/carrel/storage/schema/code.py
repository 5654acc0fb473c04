"""What was learned about code bases, and how tools are used. Several code bases may share one database."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from carrel.storage.schema.base import exact, metadata


def _code_base() -> Column[str]:
    return Column("code_base", exact(), nullable=False, comment="the name of the code base that it is about")


discovery = Table(
    "discovery",
    metadata,
    _code_base(),
    Column("id", exact(), nullable=False),
    Column("type", exact(), nullable=False),
    Column("content", Text, nullable=False),
    Column("module", exact()),
    Column("session", Text),
    Column("date", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    Column("version", Text, nullable=False, comment="another one with each change"),
    CheckConstraint("type IN ('pattern', 'rule', 'decision', 'issue')", name="discovery_type"),
    CheckConstraint("length(content) BETWEEN 1 AND 10000", name="discovery_content_length"),
    PrimaryKeyConstraint("code_base", "id", name="discovery_pk"),
    Index("discovery_by_date", "code_base", text("date DESC"), "id"),
    Index("discovery_by_type", "code_base", "type", text("date DESC"), "id"),
    Index("discovery_by_module", "code_base", "module", text("date DESC"), "id", "type"),
)

session_summary = Table(
    "session_summary",
    metadata,
    _code_base(),
    Column("id", exact(), nullable=False),
    Column("title", Text),
    Column("content", Text, nullable=False),
    Column("module", exact()),
    Column("date", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    CheckConstraint("length(content) BETWEEN 1 AND 10000", name="session_summary_content_length"),
    PrimaryKeyConstraint("code_base", "id", name="session_summary_pk"),
    Index("session_summary_by_date", "code_base", text("date DESC"), "id"),
    Index("session_summary_by_module", "code_base", "module", text("date DESC"), "id"),
)

file_access = Table(
    "file_access",
    metadata,
    _code_base(),
    Column("path", exact(), nullable=False),
    Column("reads", BigInteger, nullable=False),
    Column("last_read_at", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    CheckConstraint("reads > 0", name="file_access_reads"),
    PrimaryKeyConstraint("code_base", "path", name="file_access_pk"),
    Index("file_access_by_reads", "code_base", text("reads DESC"), text("last_read_at DESC"), "path"),
)

# The last batch of accesses that each process has added: one whose commit was in doubt is not added twice.
file_access_writer = Table(
    "file_access_writer",
    metadata,
    _code_base(),
    Column("writer", exact(), nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("written_at", BigInteger, nullable=False, comment="milliseconds since 1970, UTC"),
    PrimaryKeyConstraint("code_base", "writer", name="file_access_writer_pk"),
    Index("file_access_writer_by_time", "code_base", "written_at"),
)

call_tally = Table(
    "call_tally",
    metadata,
    Column("desk", exact(), nullable=False, comment="the name of the workspace that was called"),
    Column("toolset", exact(), nullable=False),
    Column("tool", exact(), nullable=False),
    Column("outcome", exact(), nullable=False),
    Column("duration", Integer, nullable=False, comment="the number of its bucket, see carrel.calls.durations"),
    Column("calls", BigInteger, nullable=False),
    PrimaryKeyConstraint("desk", "toolset", "tool", "outcome", "duration", name="call_tally_pk"),
)
