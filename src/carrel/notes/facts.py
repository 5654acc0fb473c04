"""What the index keeps of a note: all that tools need but the rest of its text."""

import sys
from typing import NamedTuple

from carrel.notes.names import key, name_of
from carrel.notes.parsing import parse, truncated

HEAD = 500
"""Characters of a note that lists show."""


class Facts(NamedTuple):
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    targets: tuple[str, ...]
    """The keys of what its links lead to, each once, in order; see `carrel.notes.names.key`."""
    head: bytes
    """The beginning of its content, as lists show it, in UTF-8."""
    warnings: tuple[str, ...]
    """What is wrong with it, broken links aside."""


def decoded(content: bytes) -> str:
    """A note's text; bytes that are no UTF-8 stay what they are when it is written again."""
    return content.decode(errors="surrogateescape")


def encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether all bytes that a text was made from were."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """A text that can be sent."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


def _word(text: str) -> str:
    """A text that can be sent, and kept beside others: CommonMark does not let NUL stand either."""
    return shown(text).replace("\0", "\ufffd")


def unread_facts(note_id: str, why: str) -> Facts:
    """Of a note of which nothing but its name is known."""
    return Facts(shown(name_of(note_id)), (), (), (), b"", (why,))


def facts_of(note_id: str, content: bytes) -> Facts:
    text = decoded(content)
    note = parse(text, name_of(note_id))
    intern = sys.intern
    warnings = note.warnings if is_utf8(text) else ("Some bytes are not UTF-8", *note.warnings)
    head = truncated(text[note.body : note.body + HEAD + 1], HEAD)
    if text.isascii() and "\0" not in text:  # as most are: then all of it can be sent and kept
        targets = [intern(link.target.lower()) for link in note.links]
        tags = tuple([intern(tag) for tag in note.tags])
        return Facts(note.title, tags, note.aliases, tuple(dict.fromkeys(targets)), head.encode(), warnings)
    return Facts(
        shown(note.title),
        tuple(intern(_word(tag)) for tag in note.tags),
        tuple(map(_word, note.aliases)),
        tuple(dict.fromkeys(intern(key(_word(link.target))) for link in note.links)),
        shown(head).encode(),
        tuple(map(_word, warnings)),
    )
