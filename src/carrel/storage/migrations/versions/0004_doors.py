"""Who may come in, and what they did: tokens of our own, and the audit."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = "milliseconds since 1970, UTC"


def upgrade() -> None:
    op.create_table(
        "access_token",
        sa.Column("id", EXACT, nullable=False),
        sa.Column("hash", EXACT, nullable=False, comment="SHA-256 of the secret part, in hexadecimal"),
        sa.Column("subject", EXACT, nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False, comment="with blanks between them"),
        sa.Column("projects", sa.Text(), comment="slugs or ids with blanks between them; NULL for all"),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False, comment=TIME),
        sa.Column("expires_at", sa.BigInteger(), nullable=False, comment=TIME),
        sa.Column("revoked_at", sa.BigInteger(), comment=TIME),
        sa.CheckConstraint("length(hash) = 64", name="access_token_hash"),
        sa.PrimaryKeyConstraint("id", name="access_token_pk"),
    )
    op.create_table(
        "audit_line",
        sa.Column("pk", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False, comment=TIME),
        sa.Column("subject", EXACT, nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False, comment="the tool, or the path of what is no tool"),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_line_by_subject", "audit_line", ["subject", sa.text("at DESC"), sa.text("pk DESC")])
    op.create_index("audit_line_by_time", "audit_line", [sa.text("at DESC"), sa.text("pk DESC")])
