"""How often clients called within the last minute, where several servers must agree on it."""

from sqlalchemy import DDL, BigInteger, Column, PrimaryKeyConstraint, Table, Text, event

from carrel.storage.schema.base import exact, metadata

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
