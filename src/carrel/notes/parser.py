"""Parsing a note: title, tags, links and warnings, and the facts that the index keeps of it."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from carrel.notes import frontmatter
from carrel.notes.markdown import Span, prose
from carrel.notes.note_names import key, name_of

SUFFIX = ".md"
MAX_PARSED_LENGTH = 512 * 1024
"""Characters of a note in which links and tags are looked for."""
MAX_LINKS = 5000
"""Links of a note that count, and"""
MAX_TAGS = 1000
"""tags, and"""
MAX_ALIASES = 100
"""aliases."""
MAX_TARGET_LENGTH = 1000
"""Characters of a link's target, a tag or an alias: more are none."""
MAX_DUPLICATE_WARNINGS = 20
"""Tags that are there twice, of which it is said."""

# Every alternative begins with a character of its own, so that all others are passed over at once.
_LINK_OR_TAG = re.compile(
    r"""
    \\.                                                             # means itself, whatever it is
    | \[\[ (?P<target>[^\[\]|\#\r\n]*?) (?:\#[^\[\]|\r\n]*?)? (?:\\?\|[^\[\]\r\n]*)? \]\]
    | \[ (?:[^\[\]\\] | \\. | \[[^\[\]]*\])*+ \]
      \( [ \t]* (?: <(?P<bracketed>[^<>\r\n]*)> | (?P<address>[^\s()<>]+ (?:\([^\s()]*\)[^\s()]*)*) )
      (?:[ \t]+ (?: "[^"]*" | '[^']*' ))? [ \t]* \)
    | : (?<=[A-Za-z0-9+.-]:) //[^\s<>]*                              # an address is no place for tags
    | \# (?<![^\s(\[{,;>*_~|]\#) (?P<tag>[\w/-]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Link(NamedTuple):
    """A link in a note's text."""

    target: str
    """What it leads to, without heading or block; not looked up yet."""
    span: Span
    """Where the target is written."""
    whole: Span
    """Where all of the link is."""
    is_wiki: bool

    def written(self, text: str) -> str:
        """Return the link as written."""
        return text[self.whole.start : self.whole.end]


@dataclass(frozen=True, slots=True)
class Note:
    """A parsed note."""

    title: str
    body: int
    """Where the content begins in the text."""
    tags: tuple[str, ...]
    """Each once, in its first spelling."""
    aliases: tuple[str, ...]
    links: tuple[Link, ...]
    """All of them, in order."""
    warnings: tuple[str, ...]


def parse(text: str, name: str) -> Note:
    """Parse a note; `name` is its file name without `.md`, the title if it has no other."""
    head = frontmatter.read(text)
    links, inline, limits = _links_and_tags(text, head.body)
    tags, repeated = _unique(head.tags)
    tags, aliases = _unique([*tags, *inline])[0], head.aliases
    warnings = [f"Duplicate tag ignored: {tag}" for tag in repeated[:MAX_DUPLICATE_WARNINGS]]
    if len(tags) > MAX_TAGS:
        limits.append(f"Only the first {MAX_TAGS:,} of its tags count")
    if len(aliases) > MAX_ALIASES:
        limits.append(f"Only the first {MAX_ALIASES} of its aliases count")
    warnings = [*limits, *warnings]
    if head.problem:
        warnings.insert(0, f"Frontmatter cannot be read: {head.problem}")
    return Note(
        title=head.title or name,
        body=head.body,
        tags=tuple(tags[:MAX_TAGS]),
        aliases=aliases[:MAX_ALIASES],
        links=tuple(links),
        warnings=tuple(warnings),
    )


def _links_and_tags(text: str, start: int) -> tuple[list[Link], list[str], list[str]]:
    """Return the links and tags of the content, and which limits they exceed."""
    links: list[Link] = []
    tags: dict[str, None] = {}
    limits: list[str] = []
    if len(text) - start > MAX_PARSED_LENGTH:
        text = text[: start + MAX_PARSED_LENGTH]
        limits.append(f"Links and tags behind its first {MAX_PARSED_LENGTH:,} characters do not count")
    for span in prose(text, start):
        for found in _LINK_OR_TAG.finditer(text, span.start, span.end):
            kind = found.lastgroup
            if kind == "tag":
                tag = found["tag"]
                if len(tag) <= MAX_TARGET_LENGTH and len(tags) <= MAX_TAGS and any(map(str.isalpha, tag)):
                    tags[tag.strip("/")] = None
            elif kind is not None and (link := _link(found, kind)):
                if len(links) == MAX_LINKS:
                    limits.append(f"Only the first {MAX_LINKS:,} of its links count, and no tags behind them")
                    return links, list(tags), limits
                links.append(link)
    return links, list(tags), limits


def _link(found: re.Match[str], kind: str) -> Link | None:
    """`kind` is the group that says where it leads."""
    if kind == "target":
        target = found[kind].strip()
        is_one = 0 < len(target) <= MAX_TARGET_LENGTH
        return Link(target, Span(*found.span(kind)), Span(*found.span()), is_wiki=True) if is_one else None
    address = found[kind]
    if not address or len(address) > MAX_TARGET_LENGTH or _SCHEME.match(address):
        return None
    path = address.partition("#")[0]
    target = unquote(path)
    if not target.casefold().endswith(SUFFIX):
        return None
    start = found.start(kind)
    return Link(target, Span(start, start + len(path)), Span(*found.span()), is_wiki=False)


def _unique(tags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return each tag once, in its first spelling, and the repeated ones."""
    first: dict[str, str] = {}
    again: list[str] = []
    for tag in tags:
        if tag.casefold() in first:
            again.append(tag)
        else:
            first[tag.casefold()] = tag
    return list(first.values()), again


def truncated(text: str, most: int) -> str:
    """Truncate a text to so many characters, the mark included."""
    mark = "... [truncated]"
    return text if len(text) <= most else text[: most - len(mark)] + mark


EXCERPT_LENGTH = 500
"""Characters of a note that lists show."""


class Facts(NamedTuple):
    """The facts of a note that the index keeps."""

    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    targets: tuple[str, ...]
    """The keys of what its links lead to, each once, in order; see `carrel.notes.note_names.key`."""
    excerpt: bytes
    """The beginning of its content, as lists show it, in UTF-8."""
    warnings: tuple[str, ...]
    """What is wrong with it, broken links aside."""


def decoded(content: bytes) -> str:
    """Decode a note; bytes that are not UTF-8 survive a round trip through `encoded`."""
    return content.decode(errors="surrogateescape")


def encoded(text: str) -> bytes:
    """Encode a note's text."""
    return text.encode(errors="surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether a decoded text was valid UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str) -> str:
    """Replace what cannot be sent as Unicode."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


def _storable(text: str) -> str:
    """A text that can be sent, and kept beside others: CommonMark does not let NUL stand either."""
    return shown(text).replace("\0", "\ufffd")


def unparsed_facts(note_id: str, why: str) -> Facts:
    """Return the facts of a note of which only the name is known."""
    return Facts(shown(name_of(note_id)), (), (), (), b"", (why,))


def facts_of(note_id: str, content: bytes) -> Facts:
    """Parse a note's content into the index's facts."""
    text = decoded(content)
    note = parse(text, name_of(note_id))
    # Tags and targets repeat across notes: interned, 100,000 notes share one string for each.
    intern = sys.intern
    warnings = note.warnings if is_utf8(text) else ("Some bytes are not UTF-8", *note.warnings)
    head = truncated(text[note.body : note.body + EXCERPT_LENGTH + 1], EXCERPT_LENGTH)
    if text.isascii() and "\0" not in text:  # as most are: then all of it can be sent and kept
        targets = [intern(link.target.lower()) for link in note.links]
        tags = tuple([intern(tag) for tag in note.tags])
        return Facts(note.title, tags, note.aliases, tuple(dict.fromkeys(targets)), head.encode(), warnings)
    return Facts(
        shown(note.title),
        tuple(intern(_storable(tag)) for tag in note.tags),
        tuple(map(_storable, note.aliases)),
        tuple(dict.fromkeys(intern(key(_storable(link.target))) for link in note.links)),
        shown(head).encode(),
        tuple(map(_storable, warnings)),
    )
