"""Tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "task",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("completed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("created_at", sa.BigInteger(), nullable=False, comment="milliseconds since 1970, UTC"),
        sa.Column("completed_at", sa.BigInteger(), comment="milliseconds since 1970, UTC"),
        sa.CheckConstraint("user_id <> ''", name="task_user_id_is_not_empty"),
        sa.CheckConstraint("length(title) BETWEEN 1 AND 200", name="task_title_length"),
        sa.CheckConstraint("length(description) <= 1000", name="task_description_length"),
        sqlite_autoincrement=True,
    )
    op.create_index("task_by_user", "task", ["user_id", "id"])
