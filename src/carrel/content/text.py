"""Text as it is compared."""

from unicodedata import normalize

SEPARATOR = "\x01"
"""Stands between texts that are kept as one; in no text of content."""


def fold(text: str) -> str:
    """What two texts have in common that differ in case only, the same on every engine."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())
