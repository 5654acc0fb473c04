"""Sets of rows for entities and quotable blocks, and for longer texts: those there are have to be made anew."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

EXACT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def noted_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("changed", sa.LargeBinary(), comment="rows whose sets may be untrue"),
        sa.Column("noted", sa.BigInteger(), comment="how many these are; they are not in the total"),
    ]


def upgrade() -> None:
    op.create_table(
        "entity_block",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="of the keys, divided by how many a block has"),
        sa.Column("total", sa.BigInteger(), nullable=False, comment="rows of the project"),
        sa.Column("created_at", sa.LargeBinary(), nullable=False, comment="of each row"),
        sa.Column("updated_at", sa.LargeBinary(), nullable=False, comment="of each row"),
        *noted_columns(),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "number", name="entity_block_pk"),
    )
    op.create_table(
        "quotable_block_block",
        sa.Column("project_pk", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="of the keys, divided by how many a block has"),
        sa.Column("total", sa.BigInteger(), nullable=False, comment="rows of the project"),
        sa.Column("first_start", sa.BigInteger(), nullable=False),
        sa.Column("last_start", sa.BigInteger(), nullable=False),
        sa.Column("first_end", sa.BigInteger(), nullable=False),
        sa.Column("last_end", sa.BigInteger(), nullable=False),
        sa.Column("dates", sa.LargeBinary(), nullable=False, comment="of each row"),
        sa.Column("created_at", sa.LargeBinary(), nullable=False, comment="of each row"),
        *noted_columns(),
        sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_pk", "number", name="quotable_block_block_pk"),
    )
    for table, texts in (
        ("entity_gram", "head, summary, or the name of a facet"),
        ("quotable_block_gram", "topic, or the name of a facet"),
    ):
        op.create_table(
            table,
            sa.Column("project_pk", sa.BigInteger(), nullable=False),
            sa.Column("block", sa.BigInteger(), nullable=False),
            sa.Column("texts", EXACT, nullable=False, comment=texts),
            sa.Column("gram", EXACT, nullable=False, comment="up to three characters, or more that many rows hold"),
            sa.Column("bits", sa.LargeBinary(), nullable=False, comment="of the rows with it"),
            sa.ForeignKeyConstraint(["project_pk"], ["project.pk"], ondelete="CASCADE"),
            sa.PrimaryKeyConstraint("project_pk", "block", "texts", "gram", name=f"{table}_pk"),
            sqlite_with_rowid=False,
        )
    for column in noted_columns():
        op.add_column("search_performance_block", column)
    op.execute("DELETE FROM search_performance_gram")
    op.execute("DELETE FROM search_performance_block")
