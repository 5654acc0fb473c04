"""Sets of rows for larger blocks: those there are have to be made anew, and the release before has to see none."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for table in ("search_performance", "entity", "quotable_block"):
        op.add_column(f"{table}_block", sa.Column("held", sa.BigInteger(), comment="rows of the project"))
        for old in ("gram", "block"):
            op.execute(sa.table(f"{table}_{old}").delete())
