"""Links to a note that gets another name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from carrel.notes.facts import decoded, encoded
from carrel.notes.names import SUFFIX, is_note, key, name_of, stem
from carrel.notes.parsing import Link, parse

_UNLINKABLE = frozenset("[]|#^\\\r\n")
_SPECIAL = re.compile(r"[\s()<>%\"\\]")


class Name(NamedTuple):
    """What a note can be called by."""

    id: str
    title: str


def links_to_change(
    text: str,
    *,
    leads_there: Callable[[str], bool],
    will_lead_there: Callable[[str], bool],
    before: Name,
    after: Name,
) -> dict[str, str]:
    """What the links say that lead to a note now, and must say to lead to it when it is called otherwise.

    Both functions take what a link says, as a key.
    """
    changes: dict[str, str] = {}
    for link in _links(text):
        written = text[link.span.start : link.span.end]
        if written in changes or not leads_there(key(link.target)):
            continue
        for choice in _choices(link, text, before, after):
            if will_lead_there(key(_said(link, choice))):
                if choice != written:
                    changes[written] = choice
                break
    return changes


def rewritten(content: bytes, changes: Mapping[str, str]) -> bytes:
    """With these links changed, and not another byte."""
    text = decoded(content)
    parts: list[str] = []
    place = 0
    for link in _links(text):
        if (new := changes.get(text[link.span.start : link.span.end])) is not None:
            parts += text[place : link.span.start], new
            place = link.span.end
    return encoded("".join([*parts, text[place:]]))


def _links(text: str) -> Sequence[Link]:
    return parse(text, "").links


def _choices(link: Link, text: str, before: Name, after: Name) -> Iterator[str]:
    """What the link could say, in the style that it has, the most like it first."""
    written = text[link.span.start : link.span.end]
    stripped = written.strip()
    start = written.index(stripped)
    blanks = (written[:start], written[start + len(stripped) :])
    folders, last = stripped[: stripped.rfind("/") + 1], link.target[link.target.rfind("/") + 1 :]
    suffix = last[-len(SUFFIX) :] if is_note(last) else ""
    is_name = key(name_of(before.id)) in (key(last), key(last.removesuffix(suffix)))
    is_title = link.is_wiki and key(link.target) == key(before.title)
    said: list[str] = []
    is_titled = is_title and not (is_name and (link.target != before.title or link.target == name_of(before.id)))
    if is_titled and _is_linkable(after.title):
        said.append(after.title)
    if is_name:
        said.append(folders + _escaped(link, text, name_of(after.id)) + suffix)
    elif not is_title:
        said.append(stripped)  # an alias, which it keeps
    for name in (name_of(after.id), stem(after.id)):
        said.append(_escaped(link, text, name) + suffix)
    return (blanks[0] + each + blanks[1] for each in said)


def _said(link: Link, written: str) -> str:
    return written.strip() if link.is_wiki else unquote(written)


def _is_linkable(title: str) -> bool:
    return not _UNLINKABLE & set(title) and title == title.strip()


def _escaped(link: Link, text: str, name: str) -> str:
    """As an address needs it, unless it stands in pointed brackets."""
    if link.is_wiki or text[link.span.start - 1] == "<":
        return name
    return _SPECIAL.sub(lambda found: quote(found[0]), name)
