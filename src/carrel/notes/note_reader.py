"""Reading notes from disk, as far as they have changed."""

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from carrel.notes.parser import Facts, facts_of, unparsed_facts
from carrel.notes.vault import NoteTooLarge, Stamp, Vault, VaultError

MTIME_UNCERTAINTY_NS = 2_000_000_000
"""A file changed less than this before it was read may have changed again within its time stamp's resolution."""

MAX_EDGES_PER_CHUNK = 5000
"""Links and tags that the graph takes in before the event loop runs other tasks."""


class Entry(NamedTuple):
    """A note as it was last read: stamp, time of reading, content hash and facts."""

    id: str
    stamp: Stamp
    read_ns: int
    hash: bytes
    facts: Facts

    @property
    def is_sure(self) -> bool:
        """Whether an unchanged stamp proves unchanged content."""
        return self.read_ns - self.stamp.mtime_ns > MTIME_UNCERTAINTY_NS


class Difference(NamedTuple):
    """A difference between the index and the disk."""

    read: list[Entry]
    gone: list[str]
    problems: list[str]

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not (self.read or self.gone or self.problems)


def entry_of(note_id: str, content: bytes, stamp: Stamp) -> Entry:
    """Parse a note that was just read."""
    return Entry(note_id, stamp, time.time_ns(), hash_of(content), facts_of(note_id, content))


def unparsed_entry(error: NoteTooLarge) -> Entry:
    """Return the entry of a note that is too large: its name, and a warning."""
    facts = unparsed_facts(error.note_id, f"Not read: {error.reason}")
    return Entry(error.note_id, error.stamp, time.time_ns(), hash_of(repr(error.stamp).encode()), facts)


def hash_of(content: bytes) -> bytes:
    """Hash a note's content."""
    return hashlib.blake2b(content, digest_size=16).digest()


def reread(vault: Vault, ids: Iterable[str], known: Mapping[str, Entry]) -> Difference:
    """Read these notes again, whatever their stamps say."""
    difference = Difference([], [], [])
    for note_id in ids:
        before = known.get(note_id)
        try:
            found = vault.read(note_id)
        except NoteTooLarge as error:
            if before is None or before.stamp != error.stamp or not before.is_sure:
                difference.read.append(unparsed_entry(error))
            continue
        except VaultError as error:
            difference.problems.append(str(error))
            continue
        if found is None:
            if before is not None:
                difference.gone.append(note_id)
        elif before is None or before.hash != hash_of(found[0]):
            difference.read.append(entry_of(note_id, *found))
        elif before.stamp != found[1] or not before.is_sure:
            difference.read.append(before._replace(stamp=found[1], read_ns=time.time_ns()))
    return difference


def compare(vault: Vault, known: Mapping[str, Entry], below: str = "") -> tuple[list[str], list[str]]:
    """Return the notes that are new or look changed, and those that are gone; `below` limits it to a folder."""
    found = dict(vault.scan(below))
    suspects = [
        note_id
        for note_id, stamp in found.items()
        if (before := known.get(note_id)) is None or before.stamp != stamp or not before.is_sure
    ]
    gone = [note_id for note_id in list(known) if note_id.startswith(below) and note_id not in found]
    return suspects, gone


def read_all(vault: Vault, ids: Iterable[str], problems: list[str]) -> Iterator[Entry]:
    """Read these notes for the first time."""
    for note_id in ids:
        try:
            found = vault.read(note_id)
        except NoteTooLarge as error:
            yield unparsed_entry(error)
            continue
        except VaultError as error:
            problems.append(str(error))
            continue
        if found is not None:
            yield entry_of(note_id, *found)


def chunks(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries in chunks that the graph takes in without delaying the event loop."""
    part: list[Entry] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += len(entry.facts.targets) + len(entry.facts.tags)
        if size >= MAX_EDGES_PER_CHUNK:
            yield part
            part, size = [], 0
    if part:
        yield part


def entry_or_parsed(known: Entry | None, note_id: str, content: bytes, stamp: Stamp) -> Entry:
    """Return the known entry if its content is the same, else parse the note."""
    return known if known and known.hash == hash_of(content) else entry_of(note_id, content, stamp)
