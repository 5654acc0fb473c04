"""Texts that a person or an assistant gives, and what makes one invalid."""

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether every engine can keep the text: PostgreSQL takes no NUL, and UTF-8 no half of a surrogate pair."""
    return _UNSTORABLE.search(text) is None


def fault_in(text: str, longest: int) -> str | None:
    """What is wrong with a text that must say something; nothing where it can be kept."""
    if not text.strip():
        return "must not be empty"
    if len(text) > longest:
        return f"must have {longest:,} characters or less"
    return None if is_storable(text) else "must not contain NUL or unpaired surrogates"
