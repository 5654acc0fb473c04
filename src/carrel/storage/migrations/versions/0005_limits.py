"""How often clients called within the last minute, where several servers must agree on it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "rate_window",
        sa.Column("client", EXACT, nullable=False),
        sa.Column(
            "calls", sa.Text(), nullable=False, comment="of the last minute: a JSON list of [microseconds, tool]"
        ),
        sa.Column(
            "wait",
            sa.BigInteger(),
            nullable=False,
            comment="microseconds that the last call had to wait; 0: it was let in",
        ),
        sa.Column(
            "seen_at",
            sa.BigInteger(),
            nullable=False,
            comment="microseconds since 1970, UTC, by the database's clock",
        ),
        sa.PrimaryKeyConstraint("client", name="rate_window_pk"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE rate_window SET UNLOGGED")
