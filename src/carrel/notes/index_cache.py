"""The index of a vault on disk, so that a start need not read the notes again.

Nearly everything is one row per column: all titles, all tags, all adjacency lists, each packed into one blob.
Unpacking a few long blobs is much faster than reading a row for each note. Notes that change later get rows of their
own beside the pack, which win over it, until there are so many of them that the index packs everything anew.
"""

import gc
import logging
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from carrel.errors import StoreError
from carrel.notes.graph import Graph, PackedGraph
from carrel.notes.note_reader import Entry
from carrel.notes.parser import Facts
from carrel.notes.vault import Stamp
from carrel.storage.sqlite import connect, create_folder, create_tables, transaction, translate_errors


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the cyclic garbage collector while millions of objects are created that all stay alive.

    Without it, the collector traverses them again and again. Freezing them afterwards keeps them out of later
    collections.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


HASH_BYTES = 16

Columns = Mapping[str, bytes]


def pack_columns(entries: Mapping[str, Entry], graph: Graph) -> dict[str, bytes]:
    """Pack entries and graph into named blobs."""
    whole = graph.to_pack()
    kept = [entries[note_id] for note_id, _, _ in whole.notes]
    facts = [entry.facts for entry in kept]
    parts = _Packer()
    parts.texts("id", [entry.id for entry in kept])
    parts.numbers("size", "q", (entry.stamp.size for entry in kept))
    parts.numbers("mtime", "q", (entry.stamp.mtime_ns for entry in kept))
    parts.numbers("read", "q", (entry.read_ns for entry in kept))
    parts.numbers("unresolved", "b", (unresolved for _, _, unresolved in whole.notes))
    parts["hash"] = b"".join(entry.hash for entry in kept)
    parts.texts("title", [each.title for each in facts])
    parts.blobs("head", [each.excerpt for each in facts])
    parts.words("tag", [each.tags for each in facts])
    parts.words("alias", [each.aliases for each in facts])
    parts.words("target", [each.targets for each in facts])
    parts.words("warning", [each.warnings for each in facts])
    parts.lists("out", whole.out)
    parts.lists("into", whole.into)
    parts.texts("tagged_by", list(whole.tagged))
    parts.lists("tagged", whole.tagged.values())
    parts.texts("mentioned_by", list(whole.mentions))
    parts.lists("mentions", whole.mentions.values())
    return parts


def unpack_columns(parts: Columns) -> tuple[dict[str, Entry], Graph]:
    """Restore entries and graph from named blobs."""
    ids = _texts(parts, "id")
    facts = map(
        Facts,
        _texts(parts, "title"),
        _words(parts, "tag"),
        _words(parts, "alias"),
        _words(parts, "target"),
        _blobs(parts, "head"),
        _words(parts, "warning"),
    )
    known = list(facts)
    stamps = map(Stamp, _numbers(parts, "size", "q"), _numbers(parts, "mtime", "q"))
    hashes = (parts["hash"][place : place + HASH_BYTES] for place in range(0, len(parts["hash"]), HASH_BYTES))
    entries = dict(zip(ids, map(Entry, ids, stamps, _numbers(parts, "read", "q"), hashes, known), strict=True))
    unresolved = map(bool, _numbers(parts, "unresolved", "b"))
    graph = Graph.from_pack(
        PackedGraph(
            list(zip(ids, known, unresolved, strict=True)),
            list(_lists(parts, "out")),
            list(_lists(parts, "into")),
            dict(zip(_texts(parts, "tagged_by"), _lists(parts, "tagged"), strict=True)),
            dict(zip(_texts(parts, "mentioned_by"), _lists(parts, "mentions"), strict=True)),
        )
    )
    return entries, graph


class _Packer(dict[str, bytes]):
    """Columns by name; a column of variable length has a second one for the lengths."""

    def numbers(self, name: str, kind: str, numbers: Iterable[int]) -> None:
        """Add a column of numbers of an `array` type code."""
        self[name] = array(kind, numbers).tobytes()

    def blobs(self, name: str, blobs: Sequence[bytes]) -> None:
        """Add a column of byte strings."""
        self[name] = b"".join(blobs)
        self.numbers(f"{name}.length", "I", map(len, blobs))

    def texts(self, name: str, texts: Sequence[str]) -> None:
        """Add a column of texts."""
        self[name] = "".join(texts).encode()
        self.numbers(f"{name}.length", "I", map(len, texts))

    def lists(self, name: str, lists: Iterable[Sequence[int]]) -> None:
        """Add a column of lists of numbers."""
        kept = list(lists)
        self.numbers(name, "I", (number for each in kept for number in each))
        self.numbers(f"{name}.length", "I", map(len, kept))

    def words(self, name: str, lists: Sequence[Sequence[str]]) -> None:
        """Add a column of lists of words, dictionary-encoded since few distinct words repeat often."""
        numbers: dict[str, int] = {}
        self.lists(f"{name}.of", [[numbers.setdefault(word, len(numbers)) for word in each] for each in lists])
        self.texts(name, list(numbers))


def _numbers(parts: Columns, name: str, kind: str) -> "array[int]":
    numbers: array[int] = array(kind)
    numbers.frombytes(parts[name])
    return numbers


def _bounds(parts: Columns, name: str) -> Iterator[tuple[int, int]]:
    return pairwise(accumulate(_numbers(parts, f"{name}.length", "I"), initial=0))


def _blobs(parts: Columns, name: str) -> Iterator[bytes]:
    whole = parts[name]
    return (whole[start:end] for start, end in _bounds(parts, name))


def _texts(parts: Columns, name: str) -> list[str]:
    whole = parts[name].decode()
    return [whole[start:end] for start, end in _bounds(parts, name)]


def _lists(parts: Columns, name: str) -> "Iterator[array[int]]":
    whole = _numbers(parts, name, "I")
    return (whole[start:end] for start, end in _bounds(parts, name))


def _words(parts: Columns, name: str) -> Iterator[tuple[str, ...]]:
    words = _texts(parts, name)
    return (tuple([words[number] for number in each]) for each in _lists(parts, f"{name}.of"))


log = logging.getLogger("carrel.notes")

VERSION = 2
"""Version of the file format and of the parser's results; a change of either makes every start read all notes once."""

_SEPARATOR = "\0"
_TABLES = """
CREATE TABLE pack (part TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE note (
    id TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, read_ns INTEGER, hash BLOB, title TEXT, tags TEXT,
    aliases TEXT, targets TEXT, head BLOB, warnings TEXT
);
"""
_PUT = "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# A row without a size says that the note is gone, so that it hides the pack's.
_PUT_GONE = "INSERT OR REPLACE INTO note (id) VALUES (?)"


class Cache:
    """The cache's SQLite file, for one thread at a time. Raises `StoreError` for a damaged file and for another
    version's."""

    def __init__(self, path: Path) -> None:
        create_folder(path)
        self._connection = connect(path)
        try:
            with translate_errors():
                is_ours = create_tables(self._connection, VERSION, _TABLES)
            if not is_ours:
                raise StoreError("it is of another version")
        except BaseException:
            self._connection.close()
            raise

    def load(self) -> tuple[dict[str, Entry], Graph]:
        """Return the entries and the graph: the pack, with the rows of later changes applied."""
        with translate_errors():
            parts = dict(self._connection.execute("SELECT part, content FROM pack"))
            entries, graph = unpack_columns(parts) if parts else ({}, Graph())
            for row in self._connection.execute("SELECT * FROM note"):
                if row[1] is None:
                    entries.pop(row[0], None)
                    graph.remove(row[0])
                else:
                    entry = entries[row[0]] = _entry(row)
                    graph.put(entry.id, entry.facts)
            return entries, graph

    def change(self, put: Iterable[Entry], gone: Iterable[str]) -> int:
        """Record changed and removed notes in one transaction; return how many rows there are now. A failed write costs
        the next start some time, no more."""
        with self._errors_logged(), transaction(self._connection) as connection:
            connection.executemany(_PUT_GONE, [(note_id,) for note_id in gone])
            connection.executemany(_PUT, [_row(entry) for entry in put])
            (rows,) = connection.execute("SELECT count(*) FROM note").fetchone()
            return rows
        return 0

    def pack(self, entries: Mapping[str, Entry], graph: Graph) -> None:
        """Replace the rows and the earlier pack. What another process has recorded meanwhile is read again by its next
        start."""
        parts = pack_columns(entries, graph)
        with self._errors_logged(), transaction(self._connection) as connection:
            connection.execute("DELETE FROM note")
            connection.execute("DELETE FROM pack")
            connection.executemany("INSERT INTO pack VALUES (?, ?)", parts.items())

    @contextmanager
    def _errors_logged(self) -> Generator[None]:
        """Log a failed write instead of raising it."""
        try:
            with translate_errors():
                yield
        except StoreError as error:
            log.warning("the index of the notes cannot be kept on disk: %s", error)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class OptionalCache:
    """The cache of an index, or nothing where the disk refuses one: then every start reads all notes.

    A damaged or outdated file is deleted and created anew, since all that it holds can be read from the notes again.
    Used from one thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cache: Cache | None = None

    def open(self) -> None:
        """Open the file, or create it anew where it is damaged or outdated."""
        try:
            self._cache = Cache(self._path)
        except StoreError as error:
            log.warning("the index of the notes on disk is of no use (%s); it is made anew", error)
            self._cache = self._recreated()

    def _recreated(self) -> Cache | None:
        try:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
            return Cache(self._path)
        except (StoreError, OSError) as error:
            log.warning("the index of the notes cannot be kept on disk (%s): every start reads all notes", error)
            return None

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._cache:
            self._cache.close()

    def load(self) -> tuple[dict[str, Entry], Graph]:
        """Return the entries and the graph of the last run; empty ones if they cannot be read."""
        if self._cache is None:
            return {}, Graph()
        try:
            return self._cache.load()
        except (StoreError, ValueError, KeyError) as error:
            log.warning("the index of the notes on disk cannot be read (%s); it is made anew", error)
            return {}, Graph()

    def change(self, put: Iterable[Entry], gone: Iterable[str]) -> int:
        """Record changed and removed notes; return how many rows have accumulated since the last `pack`."""
        return self._cache.change(put, gone) if self._cache else 0

    def pack(self, entries: Mapping[str, Entry], graph: Graph) -> None:
        """Replace all that is stored by these entries and this graph."""
        if self._cache:
            self._cache.pack(entries, graph)


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
        facts.excerpt,
        _SEPARATOR.join(facts.warnings),
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    note_id, size, mtime_ns, read_ns, digest, title, tags, aliases, targets, head, warnings = row
    facts = Facts(title, _parts(tags), _parts(aliases), _parts(targets), head, _parts(warnings))
    return Entry(note_id, Stamp(size, mtime_ns), read_ns, digest, facts)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(_SEPARATOR)) if text else ()
