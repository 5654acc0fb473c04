"""A note's text as what it says: title, tags, links, and what is wrong with it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from carrel.notes import frontmatter
from carrel.notes.prose import Span, prose

SUFFIX = ".md"
MAX_TEXT = 512 * 1024
"""Characters of a note in which links and tags are looked for."""
MAX_LINKS = 5000
"""Links of a note that count, and"""
MAX_TAGS = 1000
"""tags, and"""
MAX_ALIASES = 100
"""aliases."""
MAX_NAME = 1000
"""Characters of a link's target, a tag or an alias: more are none."""
MAX_REPEATED = 20
"""Tags that are there twice, of which it is said."""

# Every alternative begins with a character of its own, so that all others are passed over at once.
_THINGS = re.compile(
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
    target: str
    """What it leads to, without heading or block; not looked up yet."""
    span: Span
    """Where the target is written."""
    whole: Span
    """Where all of the link is."""
    is_wiki: bool

    def written(self, text: str) -> str:
        return text[self.whole.start : self.whole.end]


@dataclass(frozen=True, slots=True)
class Note:
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
    """`name` is the file's, without `.md`: the title where there is no other."""
    head = frontmatter.read(text)
    links, inline, limits = _links_and_tags(text, head.body)
    tags, repeated = _once(head.tags)
    tags, aliases = _once([*tags, *inline])[0], head.aliases
    warnings = [f"Duplicate tag ignored: {tag}" for tag in repeated[:MAX_REPEATED]]
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
    """Those of the content, and which limits they exceed."""
    links: list[Link] = []
    tags: dict[str, None] = {}
    limits: list[str] = []
    if len(text) - start > MAX_TEXT:
        text = text[: start + MAX_TEXT]
        limits.append(f"Links and tags behind its first {MAX_TEXT:,} characters do not count")
    for span in prose(text, start):
        for found in _THINGS.finditer(text, span.start, span.end):
            kind = found.lastgroup
            if kind == "tag":
                tag = found["tag"]
                if len(tag) <= MAX_NAME and len(tags) <= MAX_TAGS and any(map(str.isalpha, tag)):
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
        is_one = 0 < len(target) <= MAX_NAME
        return Link(target, Span(*found.span(kind)), Span(*found.span()), is_wiki=True) if is_one else None
    address = found[kind]
    if not address or len(address) > MAX_NAME or _SCHEME.match(address):
        return None
    path = address.partition("#")[0]
    target = unquote(path)
    if not target.casefold().endswith(SUFFIX):
        return None
    start = found.start(kind)
    return Link(target, Span(start, start + len(path)), Span(*found.span()), is_wiki=False)


def _once(tags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Each in its first spelling; and those that came again."""
    first: dict[str, str] = {}
    again: list[str] = []
    for tag in tags:
        if tag.casefold() in first:
            again.append(tag)
        else:
            first[tag.casefold()] = tag
    return list(first.values()), again


def truncated(text: str, most: int) -> str:
    """The text in at most so many characters."""
    mark = "... [truncated]"
    return text if len(text) <= most else text[: most - len(mark)] + mark
