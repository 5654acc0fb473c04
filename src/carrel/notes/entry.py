"""A note as it was read."""

from typing import NamedTuple

from carrel.notes.facts import Facts
from carrel.notes.vault import Stamp

UNSURE_NS = 2_000_000_000
"""A file that was changed so shortly before it was read may have been changed again with the same time."""


class Entry(NamedTuple):
    id: str
    stamp: Stamp
    read_ns: int
    hash: bytes
    facts: Facts

    @property
    def is_sure(self) -> bool:
        """Whether a file with the same stamp is the same."""
        return self.read_ns - self.stamp.mtime_ns > UNSURE_NS
