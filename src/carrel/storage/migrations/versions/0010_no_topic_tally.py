"""One count of quotable blocks instead of two: that by the day of their expiry has those without one, too."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.drop_table("quotable_block_tally")
    op.execute("""
        INSERT INTO quotable_block_expiry_tally (project_pk, verified_day, claim_type, total)
        SELECT project_pk, -1, claim_type, count(*) FROM quotable_block
        WHERE verified_until IS NULL GROUP BY project_pk, claim_type
    """)
