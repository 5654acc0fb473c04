"""Long texts in passages that the model reads whole."""

import re
from collections.abc import Iterator

GOAL = 480
"""Characters: about 110 tokens of English, of the 128 that the bundled model reads."""
MOST = 640

_BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s*"), re.compile(r"\s"))
"""Where a text may be parted, from the best place to the worst."""


def split(text: str) -> list[str]:
    """The text in pieces of about `GOAL` characters, parted between paragraphs, lines, sentences or words."""
    return list(_joined(_pieces(text.strip(), 0))) or [""]


def _pieces(text: str, level: int) -> Iterator[str]:
    """The text in pieces of at most `MOST` characters, which together are all of it."""
    if len(text) <= MOST:
        yield text
    elif level == len(_BREAKS):
        yield from (text[start : start + GOAL] for start in range(0, len(text), GOAL))
    else:
        start = 0
        for found in _BREAKS[level].finditer(text):
            if found.end() > start:
                yield from _pieces(text[start : found.end()], level + 1)
                start = found.end()
        if start < len(text):
            yield from _pieces(text[start:], level + 1)


def _joined(pieces: Iterator[str]) -> Iterator[str]:
    """Small pieces put together as long as they do not pass the goal."""
    passage = ""
    for piece in pieces:
        if passage and len(passage) + len(piece) > GOAL:
            if stripped := passage.strip():
                yield stripped
            passage = ""
        passage += piece
    if stripped := passage.strip():
        yield stripped
