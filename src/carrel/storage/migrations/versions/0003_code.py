"""What was learned about code bases: discoveries, summaries of sessions, how often each file was read; and how tools
are used."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _code_base() -> sa.Column[str]:
    return sa.Column("code_base", EXACT, nullable=False, comment="the name of the code base that it is about")


def _time(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, comment="milliseconds since 1970, UTC")


def upgrade() -> None:
    op.create_table(
        "discovery",
        _code_base(),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("type", EXACT, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("module", EXACT),
        sa.Column("session", sa.Text()),
        _time("date"),
        sa.Column("version", sa.Text(), nullable=False, comment="another one with each change"),
        sa.CheckConstraint("type IN ('pattern', 'rule', 'decision', 'issue')", name="discovery_type"),
        sa.CheckConstraint("length(content) BETWEEN 1 AND 10000", name="discovery_content_length"),
        sa.PrimaryKeyConstraint("code_base", "id", name="discovery_pk"),
    )
    op.create_index("discovery_by_date", "discovery", ["code_base", sa.text("date DESC"), "id"])
    op.create_index("discovery_by_module", "discovery", ["code_base", "module", sa.text("date DESC"), "id", "type"])
    op.create_index("discovery_by_type", "discovery", ["code_base", "type", sa.text("date DESC"), "id"])
    op.create_table(
        "session_summary",
        _code_base(),
        sa.Column("id", EXACT, nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("module", EXACT),
        _time("date"),
        sa.CheckConstraint("length(content) BETWEEN 1 AND 10000", name="session_summary_content_length"),
        sa.PrimaryKeyConstraint("code_base", "id", name="session_summary_pk"),
    )
    op.create_index("session_summary_by_date", "session_summary", ["code_base", sa.text("date DESC"), "id"])
    op.create_index("session_summary_by_module", "session_summary", ["code_base", "module", sa.text("date DESC"), "id"])
    op.create_table(
        "file_access",
        _code_base(),
        sa.Column("path", EXACT, nullable=False),
        sa.Column("reads", sa.BigInteger(), nullable=False),
        _time("last_read_at"),
        sa.CheckConstraint("reads > 0", name="file_access_reads"),
        sa.PrimaryKeyConstraint("code_base", "path", name="file_access_pk"),
    )
    op.create_index(
        "file_access_by_reads",
        "file_access",
        ["code_base", sa.text("reads DESC"), sa.text("last_read_at DESC"), "path"],
    )
    op.create_table(
        "file_access_writer",
        _code_base(),
        sa.Column("writer", EXACT, nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        _time("written_at"),
        sa.PrimaryKeyConstraint("code_base", "writer", name="file_access_writer_pk"),
    )
    op.create_index("file_access_writer_by_time", "file_access_writer", ["code_base", "written_at"])
    op.create_table(
        "call_tally",
        sa.Column("desk", EXACT, nullable=False, comment="the name of the workspace that was called"),
        sa.Column("toolset", EXACT, nullable=False),
        sa.Column("tool", EXACT, nullable=False),
        sa.Column("outcome", EXACT, nullable=False),
        sa.Column(
            "duration", sa.Integer(), nullable=False, comment="the number of its bucket, see carrel.calls.call_store"
        ),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("desk", "toolset", "tool", "outcome", "duration", name="call_tally_pk"),
    )
