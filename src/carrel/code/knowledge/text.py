"""Texts that a person or an assistant gives, and what makes one invalid."""

from carrel.common import is_storable


def fault_in(text: str, longest: int) -> str | None:
    """What is wrong with a text that must say something; nothing where it can be kept."""
    if not text.strip():
        return "must not be empty"
    if len(text) > longest:
        return f"must have {longest:,} characters or less"
    return None if is_storable(text) else "must not contain NUL or unpaired surrogates"
