"""SQLite files: the one way to open, configure, write and lock them.

A file may have come with somebody else's workspace, so nothing that its schema holds may act: see `connect` and
`_refuse_foreign_code`. Whatever goes wrong is a `StoreError` that says what to do about it.
"""

import os
import re
import sqlite3
import stat
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from carrel.errors import StoreDamaged, StoreError, StoreTimeout, StoreUnavailable

Connection = sqlite3.Connection

OWN_FOLDER = ".carrel"
SQLITE_VERSION = sqlite3.sqlite_version
MIN_VERSION = (3, 35, 0)  # RETURNING
BUSY_TIMEOUT_SECONDS = 5.0
LOCK_RETRY_SECONDS = 0.01
CACHE_KILOBYTES = 16 * 1024
"""Page cache of each connection; with SQLite's default of 2 MB, some reads evict their own pages."""
MAX_VALUE_BYTES = 256 * 2**20
PROGRESS_HANDLER_STEPS = 1000
"""Instructions of SQLite's virtual machine between calls of the progress handler: about 14 microseconds."""
SCHEMA_FILE = Path(__file__).with_name("schema") / "sqlite.sql"
"""The schema that all migrations produce. `python3 dev.py docs` writes it; a test compares the two."""
STATEMENT_SEPARATOR = ";\n\n"

DRIVER_ERRORS = (sqlite3.Error, OverflowError, UnicodeError)
"""Errors of SQLite, and of Python for values that SQLite cannot store."""
_RESTORE_ADVICE = "run carrel db check, then restore a backup as docs/operations.md says"
_ADVICE = {
    sqlite3.SQLITE_FULL: "free space on the disk that holds the database; nothing else is needed",
    sqlite3.SQLITE_READONLY: "let the server's user write to the database file, its -wal and -shm, and their folder",
    sqlite3.SQLITE_CANTOPEN: "see that the folder is there, and that the server's user may write to it",
    sqlite3.SQLITE_IOERR: "see whether the disk is full or failing, and what the system's log says",
    sqlite3.SQLITE_BUSY: "another program holds the database locked; see which, with fuser or lsof",
    sqlite3.SQLITE_CORRUPT: _RESTORE_ADVICE,
    sqlite3.SQLITE_NOTADB: _RESTORE_ADVICE,
}
_TRIGRAM_SCHEMA = re.compile(
    r"CREATE TRIGGER (\w+)_trigrams_\w+ AFTER [\w, ]+ ON \1 "
    r"BEGIN (INSERT INTO \1_trigrams \([\w, ]+\) VALUES \([\w., ']+\); )+END"
    r"|CREATE VIRTUAL TABLE (\w+)_trigrams USING fts5\([\w, ]+, content='\3', content_rowid='pk'[\w=, ']*\)"
)
"""The triggers and search tables of every revision. They copy columns and call nothing."""


# --- errors


def store_error(error: Exception, doing: str = "SQLite", kind: type[StoreError] = StoreError) -> StoreError:
    """Return a `StoreError` in the engine's words, with advice if there is any."""
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF  # what Python itself finds wrong has none
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        kind = StoreDamaged
    advice = _ADVICE.get(code)
    return kind(f"{doing}: {error} ({advice})" if advice else f"{doing}: {error}")


@contextmanager
def translate_errors(doing: str = "SQLite", kind: type[StoreError] = StoreError) -> Generator[None]:
    try:
        yield
    except DRIVER_ERRORS as error:
        raise store_error(error, doing, kind) from error


@contextmanager
def statement_deadline(connection: Connection, seconds: float) -> Generator[None]:
    """Interrupt statements that run longer than `seconds`, with `StoreTimeout`."""
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, PROGRESS_HANDLER_STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if time.monotonic() > end:
            raise StoreTimeout(f"SQLite: ended a statement after {seconds:g} s") from error
        raise
    finally:
        connection.set_progress_handler(None, 0)


# --- opening


def create_folder(path: Path) -> None:
    """Create the folder of a database file; Carrel's own gets a `.gitignore` that excludes it from the project."""
    try:
        is_own = path.parent.name == OWN_FOLDER
        path.parent.mkdir(mode=0o700 if is_own else 0o777, parents=True, exist_ok=True)
        if is_own and not (path.parent / ".gitignore").exists():
            (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"cannot make the folder for {path.name}: {error.strerror}") from error


def connect(
    path: Path, *, reads_only: bool = False, busy_seconds: float | None = None, cache_kilobytes: int = CACHE_KILOBYTES
) -> Connection:
    """Open a connection with the write-ahead log, explicit transactions and foreign keys."""
    if sqlite3.sqlite_version_info < MIN_VERSION:
        raise StoreError(f"this Python's SQLite is {SQLITE_VERSION}, Carrel needs 3.35: use a newer Python")
    seconds = BUSY_TIMEOUT_SECONDS if busy_seconds is None else busy_seconds
    with translate_errors(f"cannot open the database {path.name}", StoreUnavailable):
        connection = _open(path, seconds)
        try:
            # Nothing of an empty file can be lost, so that it becomes a database need not wait for the disk.
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if os.path.getsize(path) else 'OFF'}")
            _enable_wal(connection, seconds)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA cache_size = -{cache_kilobytes}")
            if reads_only:
                connection.execute("PRAGMA query_only = ON")
            else:
                _refuse_foreign_code(connection, path.name)
        except BaseException:
            connection.close()
            raise
    return connection


def trust_triggers(connection: Connection) -> Connection:
    """Allow the triggers that fill search tables: `connect` has checked that there are no others, and older versions of
    SQLite consider FTS5 unsafe."""
    connection.execute("PRAGMA trusted_schema = ON")
    return connection


@contextmanager
def open_unchanged(path: Path) -> Generator[Connection]:
    """Open a file for reading without changing it or creating files beside it."""
    # A file that nobody has open is read as one that cannot change, or SQLite would make two beside it.
    how = "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"
    with translate_errors(f"cannot read {path.name}"), closing(_open(path, 1.0, how)) as connection:
        _refuse_foreign_code(connection, path.name)
        yield connection


def _open(path: Path, busy_seconds: float, how: str = "") -> Connection:
    """Open an untrusted file: its schema may call nothing, its values are bounded, and it is not memory-mapped, since a
    truncated file would then end the process with SIGBUS."""
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise StoreUnavailable(f"cannot open the database {path.name}: it is no regular file")
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{how}" if how else path,
        uri=bool(how),
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA mmap_size = 0")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return connection


def _enable_wal(connection: Connection, seconds: float) -> None:
    """Switch to WAL, retrying: two processes doing so on a new file lock each other out, and SQLite does not wait
    here."""
    end = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(LOCK_RETRY_SECONDS)


# --- schemas


def _refuse_foreign_code(connection: Connection, name: str) -> None:
    """Raise `StoreDamaged` where a trigger, a view or a virtual table that Carrel did not make stands in for a table of
    Carrel's, or runs with its statements: it could change what is written, or never end."""
    found = connection.execute(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master "
        "WHERE type IN ('trigger', 'view') OR sql LIKE 'CREATE VIRTUAL %'"
    ).fetchall()
    foreign = [each for each in found if not _TRIGRAM_SCHEMA.fullmatch(" ".join(each[3].split()))]
    if not foreign:
        return
    schema = SCHEMA_FILE.read_text(encoding="utf-8")
    made = {" ".join(each.split()) for each in schema.split(STATEMENT_SEPARATOR)}
    tables = {each.lower() for each in re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", schema)}
    for kind, each, table, sql in foreign:
        if table.lower() in tables and " ".join(sql.split()) not in made:
            raise StoreDamaged(
                f"{name} holds the {kind} {each!r} on {table}, which Carrel did not make: it is not served "
                "(if the file is yours, drop it; else restore a backup of your own)"
            )


def create_tables(connection: Connection, version: int, script: str) -> bool:
    """Create the tables of a file that can be rebuilt from its sources; False if it holds any other schema."""
    statements = [each.strip() for each in script.strip().rstrip(";").split(";\n")]
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
        made = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'sqlite_sequence'")
        wanted = {each for each in statements if each.startswith("CREATE ")}
        is_ours = {sql for (sql,) in made} == wanted
        return is_ours and connection.execute("PRAGMA user_version").fetchone() == (version,)


# --- transactions and locks


@contextmanager
def transaction(connection: Connection, begin: Literal["DEFERRED", "IMMEDIATE"] = "IMMEDIATE") -> Generator[Connection]:
    """Run a transaction; `DEFERRED` is for a consistent read and waits for no lock."""
    connection.execute(f"BEGIN {begin}")
    try:
        yield connection
        connection.execute("COMMIT")  # fails where a failed statement has ended the transaction
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: Connection) -> None:
    if connection.in_transaction:  # some errors have ended it already
        connection.execute("ROLLBACK")


@contextmanager
def try_lock(path: Path, begin: Literal["IMMEDIATE", "EXCLUSIVE"] = "EXCLUSIVE") -> Generator[bool]:
    """Try to take the lock of a file without waiting; yield whether it was acquired. The OS frees it if the holder
    dies."""
    doing = f"cannot lock {path.name}"
    with translate_errors(doing):
        connection = _open(path, 0)
    with closing(connection):
        try:
            connection.execute(f"BEGIN {begin}")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                raise store_error(error, doing) from error
            yield False
        else:
            yield True


def copy_file(source: Path, target: Path) -> None:
    """Copy a file consistently while it may be in use; a failure leaves nothing behind."""
    try:
        with (
            translate_errors(f"cannot copy {source.name} aside"),
            closing(_open(source, BUSY_TIMEOUT_SECONDS)) as from_file,
            closing(_open(target, 0)) as to_file,
        ):
            from_file.backup(to_file)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
