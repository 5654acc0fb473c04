"""Work that one process at a time does: whoever holds the lock of it, until it is done or that process dies."""

from collections.abc import Generator
from contextlib import contextmanager

from carrel.search.postgres.connecting import Connection, lock_number, translated
from carrel.storage.postgres import connect

# A process that ends is noticed at once; a machine that does, after about a minute.
_SETTINGS = """
SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL tcp_keepalives_idle = 30;
SET LOCAL tcp_keepalives_interval = 10; SET LOCAL tcp_keepalives_count = 3
"""


class Turns:
    """A lock is a transaction's, not a session's, so that it holds through pgbouncer in transaction mode too. Between
    statements a transaction that wrote nothing holds nothing else back."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._held: dict[str, Connection] = {}

    @contextmanager
    def take(self, lock: str) -> Generator[bool]:
        """Hold a lock as long as the context, or until this process or its connection dies; False if another does."""
        connection = connect(self._url)
        try:
            with translated(connection):
                connection.execute(_SETTINGS)
                # Without parameters, which would leave a portal open, and with it a view of the data.
                asking = f"SELECT pg_try_advisory_xact_lock({lock_number(lock)})"
                row = connection.execute(asking.encode()).fetchone()
            is_ours = row is not None and bool(row[0])
            if is_ours:
                self._held[lock] = connection
            yield is_ours
        finally:
            if self._held.get(lock) is connection:
                del self._held[lock]
            connection.close()

    def check(self, lock: str) -> None:
        """Raise `StoreUnavailable` where this process had a turn, and its connection was lost: another may have it."""
        if (connection := self._held.get(lock)) is not None:
            with translated(connection):
                connection.execute("SELECT 1")
