"""What to do about a fault of an engine: it goes into the log, behind the engine's own words."""

import sqlite3

_RESTORE = "run carrel db check, then restore a backup as docs/operations.md says"
_SQLITE = {
    sqlite3.SQLITE_FULL: "free space on the disk that holds the database; nothing else is needed",
    sqlite3.SQLITE_READONLY: "let the server's user write to the database file, its -wal and -shm, and their folder",
    sqlite3.SQLITE_CANTOPEN: "see that the folder is there, and that the server's user may write to it",
    sqlite3.SQLITE_IOERR: "see whether the disk is full or failing, and what the system's log says",
    sqlite3.SQLITE_BUSY: "another program holds the database locked; see which, with fuser or lsof",
    sqlite3.SQLITE_CORRUPT: _RESTORE,
    sqlite3.SQLITE_NOTADB: _RESTORE,
}
_POSTGRES = {
    "25006": "it is a standby, or set to read only: point database.url at the primary, or let it write again",
    "53100": "free space on the database server's disk; nothing else is needed",
    "53200": "the database server is out of memory; for locks, raise its max_locks_per_transaction",
    "53300": "lower database.pool_size, or raise the database server's max_connections",
    "57014": "see in pg_stat_activity what the statement waited for",
    "XX001": "the database server's files are damaged: restore a backup",
    "XX002": "an index is damaged: REINDEX it",
}
_TOO_MANY = ("too many connections", "too many clients", "remaining connection slots")


def of_sqlite(error: Exception) -> str:
    """The error's text, and what to do where that is known."""
    code: int = getattr(error, "sqlite_errorcode", 0)  # what Python itself finds wrong has none
    return _advised(error, _SQLITE.get(code & 0xFF))


def of_postgres(error: Exception) -> str:
    code = getattr(error, "sqlstate", None)
    if code is None and any(each in str(error) for each in _TOO_MANY):  # a connection that fails has no code
        code = "53300"
    return _advised(error, _POSTGRES.get(code or ""))


def _advised(error: Exception, advice: str | None) -> str:
    return f"{error} ({advice})" if advice else str(error)
