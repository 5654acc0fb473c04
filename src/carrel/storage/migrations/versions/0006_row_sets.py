"""Which rows of search performance hold a short text, as sets of bits."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "search_performance_block",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="of the keys, divided by how many a block has"),
        sa.Column("total", sa.BigInteger(), nullable=False, comment="rows of the project"),
        sa.Column("first_start", sa.BigInteger(), nullable=False),
        sa.Column("last_start", sa.BigInteger(), nullable=False),
        sa.Column("first_end", sa.BigInteger(), nullable=False),
        sa.Column("last_end", sa.BigInteger(), nullable=False),
        sa.Column("dates", sa.LargeBinary(), nullable=False, comment="of each row"),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "number", name="search_performance_block_pk"),
    )
    op.create_table(
        "search_performance_gram",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("texts", EXACT, nullable=False, comment="query or page"),
        sa.Column("gram", EXACT, nullable=False, comment="up to three characters"),
        sa.Column("bits", sa.LargeBinary(), nullable=False, comment="of the rows with it"),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "block", "texts", "gram", name="search_performance_gram_pk"),
        sqlite_with_rowid=False,
    )
