"""The heads of notes as they were before their tags were changed.

Kept only where the tags cannot be put back as they were written from what is there now: a comment between them, or a
style that one tag alone does not show. Whoever changes them again begins with the head that is kept.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from carrel.notes.facts import decoded, encoded


class Heads:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def earlier(self, note_id: str, head: str) -> str:
        """What the note's head was made from; itself, where nothing is kept or it was changed since."""
        try:
            kept = self._path(note_id).read_bytes()
        except OSError:
            return head
        made, earlier = kept[: len(_hash(head))], kept[len(_hash(head)) :]
        return decoded(earlier) if made == _hash(head) else head

    def keep(self, note_id: str, head: str, earlier: str) -> None:
        """Remember what this head was made from. It is a loss of style, and no more, if that fails."""
        path = self._path(note_id)
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(_hash(head) + encoded(earlier))

    def forget(self, note_id: str) -> None:
        with suppress(OSError):
            os.unlink(self._path(note_id))

    def _path(self, note_id: str) -> Path:
        return self._folder / hashlib.blake2b(note_id.encode(), digest_size=16).hexdigest()


def _hash(head: str) -> bytes:
    return hashlib.blake2b(encoded(head), digest_size=16).digest()
