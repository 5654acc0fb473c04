"""Text as it is compared, and text that can be kept."""

import re
from unicodedata import normalize

SEPARATOR = "\x01"
"""Stands between texts that are kept as one; in no text of content."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def fold(text: str) -> str:
    """What two texts have in common that differ in case only, the same on every engine."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())


def is_storable(text: str) -> bool:
    """Whether every engine can keep the text: PostgreSQL takes no NUL, and UTF-8 no half of a surrogate pair."""
    return _UNSTORABLE.search(text) is None
