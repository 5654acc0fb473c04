"""What was read out of the notes, on disk, so that a start need not read them again.

It holds nothing that is not in the notes: it may be deleted at any time. Several processes may share it.
"""

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from carrel.notes.facts import Facts
from carrel.notes.vault import Stamp
from carrel.storage.sqlite import connect, make_folder

log = logging.getLogger("carrel.notes")

VERSION = 1
"""Of what is kept, and of what the parser reads out of a note: with another one, all is read again."""
UNSURE_NS = 2_000_000_000
"""A file that was changed so shortly before it was read may have been changed again with the same time."""

_SEPARATOR = "\0"
_TABLE = """
    CREATE TABLE IF NOT EXISTS note (
        id TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, read_ns INTEGER NOT NULL,
        hash BLOB NOT NULL, title TEXT NOT NULL, tags TEXT NOT NULL, aliases TEXT NOT NULL, targets TEXT NOT NULL,
        head BLOB NOT NULL, warnings TEXT NOT NULL
    )
"""
_PUT = "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Entry(NamedTuple):
    """A note as it was read."""

    id: str
    stamp: Stamp
    read_ns: int
    hash: bytes
    facts: Facts

    @property
    def is_sure(self) -> bool:
        """Whether a file with the same stamp is the same."""
        return self.read_ns - self.stamp.mtime_ns > UNSURE_NS


class Cache:
    """One connection, for one thread at a time."""

    def __init__(self, path: Path) -> None:
        make_folder(path)
        self._connection = connect(path)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            self._connection.execute("DROP TABLE IF EXISTS note")
            self._connection.execute(f"PRAGMA user_version = {VERSION}")
        self._connection.execute(_TABLE)

    def entries(self) -> Iterator[Entry]:
        for row in self._connection.execute("SELECT * FROM note ORDER BY id"):
            note_id, size, mtime_ns, read_ns, digest, title, tags, aliases, targets, head, warnings = row
            facts = Facts(title, _parts(tags), _parts(aliases), _parts(targets), head, _parts(warnings))
            yield Entry(note_id, Stamp(size, mtime_ns), read_ns, digest, facts)

    def change(self, put: Iterable[Entry], remove: Iterable[str]) -> None:
        """All or nothing. A cache that cannot be written costs the next start some time, no more."""
        execute, execute_many = self._connection.execute, self._connection.executemany
        try:
            execute("BEGIN IMMEDIATE")
            execute_many("DELETE FROM note WHERE id = ?", [(note_id,) for note_id in remove])
            execute_many(_PUT, [_row(entry) for entry in put])
            execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            log.warning("the index of the notes cannot be kept on disk: %s", error)

    def clear(self) -> None:
        self._connection.execute("DELETE FROM note")

    def close(self) -> None:
        self._connection.close()


def _row(entry: Entry) -> tuple[object, ...]:
    facts = entry.facts
    return (
        entry.id,
        *entry.stamp,
        entry.read_ns,
        entry.hash,
        facts.title,
        _SEPARATOR.join(facts.tags),
        _SEPARATOR.join(facts.aliases),
        _SEPARATOR.join(facts.targets),
        facts.head,
        _SEPARATOR.join(facts.warnings),
    )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(_SEPARATOR)) if text else ()
