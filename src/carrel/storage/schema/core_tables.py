"""The tables beside content: tasks, what was learned about code, tokens and audit, and rate limits."""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    event,
    false,
    text,
)

metadata = MetaData()


def exact() -> Text:
    """Text that is compared or sorted: in the byte order of UTF-8, which is that of code points, on both engines."""
    return Text().with_variant(Text(collation="C"), "postgresql")


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
    Column("duration", Integer, nullable=False, comment="the number of its bucket, see carrel.calls.call_store"),
    Column("calls", BigInteger, nullable=False),
    PrimaryKeyConstraint("desk", "toolset", "tool", "outcome", "duration", name="call_tally_pk"),
)


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


rate_window = Table(
    "rate_window",
    metadata,
    Column("client", exact(), nullable=False),
    Column("calls", Text, nullable=False, comment="of the last minute: a JSON list of [microseconds, tool]"),
    Column("wait", BigInteger, nullable=False, comment="microseconds that the last call had to wait; 0: it was let in"),
    Column("seen_at", BigInteger, nullable=False, comment="microseconds since 1970, UTC, by the database's clock"),
    PrimaryKeyConstraint("client", name="rate_window_pk"),
    info={"is_passing": True},
)
# A minute's counts need not outlive a crash, and so nobody waits for the disk.
event.listen(rate_window, "after_create", DDL("ALTER TABLE rate_window SET UNLOGGED").execute_if(dialect="postgresql"))


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
