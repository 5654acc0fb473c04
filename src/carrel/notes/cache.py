"""What was read out of the notes, on disk, so that a start need not read them again.

It is one pack of all notes, and a row for each that has changed since. It holds nothing that is not in the notes, and
may be deleted at any time. Several processes may share it.
"""

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from carrel.errors import StoreError
from carrel.notes.entry import Entry
from carrel.notes.facts import Facts
from carrel.notes.graph import Graph
from carrel.notes.packing import packed, unpacked
from carrel.notes.vault import Stamp
from carrel.storage.sqlite import connect, errors, make_folder, make_tables, transaction

log = logging.getLogger("carrel.notes")

VERSION = 2
"""Of what is kept, and of what the parser reads out of a note: with another one, all is read again."""

_SEPARATOR = "\0"
_TABLES = """
CREATE TABLE pack (part TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE note (
    id TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, read_ns INTEGER, hash BLOB, title TEXT, tags TEXT,
    aliases TEXT, targets TEXT, head BLOB, warnings TEXT
);
"""
_PUT = "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_GONE = "INSERT OR REPLACE INTO note (id) VALUES (?)"


class Cache:
    """One connection, for one thread at a time. Raises `StoreError` where the file is of no use, or another's."""

    def __init__(self, path: Path) -> None:
        make_folder(path)
        self._connection = connect(path)
        try:
            with errors():
                is_ours = make_tables(self._connection, VERSION, _TABLES)
            if not is_ours:
                raise StoreError("it is of another version")
        except BaseException:
            self._connection.close()
            raise

    def load(self) -> tuple[dict[str, Entry], Graph]:
        with errors():
            parts = dict(self._connection.execute("SELECT part, content FROM pack"))
            entries, graph = unpacked(parts) if parts else ({}, Graph())
            for row in self._connection.execute("SELECT * FROM note"):
                if row[1] is None:
                    entries.pop(row[0], None)
                    graph.remove(row[0])
                else:
                    entry = entries[row[0]] = _entry(row)
                    graph.put(entry.id, entry.facts)
            return entries, graph

    def change(self, put: Iterable[Entry], gone: Iterable[str]) -> int:
        """All or nothing; how many rows there are then. A cache that cannot be written costs the next start some
        time, no more."""
        with self._told(), transaction(self._connection) as connection:
            connection.executemany(_GONE, [(note_id,) for note_id in gone])
            connection.executemany(_PUT, [_row(entry) for entry in put])
            (rows,) = connection.execute("SELECT count(*) FROM note").fetchone()
            return rows
        return 0

    def pack(self, entries: Mapping[str, Entry], graph: Graph) -> None:
        """Keep this, instead of all that was kept. What another process has found meanwhile is found again."""
        parts = packed(entries, graph)
        with self._told(), transaction(self._connection) as connection:
            connection.execute("DELETE FROM note")
            connection.execute("DELETE FROM pack")
            connection.executemany("INSERT INTO pack VALUES (?, ?)", parts.items())

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            with errors():
                yield
        except StoreError as error:
            log.warning("the index of the notes cannot be kept on disk: %s", error)

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


def _entry(row: tuple[Any, ...]) -> Entry:
    note_id, size, mtime_ns, read_ns, digest, title, tags, aliases, targets, head, warnings = row
    facts = Facts(title, _parts(tags), _parts(aliases), _parts(targets), head, _parts(warnings))
    return Entry(note_id, Stamp(size, mtime_ns), read_ns, digest, facts)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(_SEPARATOR)) if text else ()
