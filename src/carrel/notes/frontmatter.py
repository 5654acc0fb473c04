"""Reading a note's frontmatter: title, tags and aliases.

Nearly all frontmatter is a few plain keys, which one regular expression reads. PyYAML reads the rest, within the limits
of `carrel.untrusted`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from carrel import untrusted

BOM = "\ufeff"
TAGS = ("tags", "tag")
ALIASES = ("aliases", "alias")
MAX_YAML_LENGTH = untrusted.YAML.characters
MAX_VALUE_LENGTH = 1000
"""Characters of a title, a tag or an alias; of a title more are cut off, the others are none."""
_KNOWN_KEYS = frozenset(("title", *TAGS, *ALIASES))

_FENCED = re.compile(
    r"\ufeff?---[ \t]*(?P<newline>\r?\n)(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_PLAIN = r"[A-Za-z0-9_/\u00c0-\ud7ff][\w/.+() -]*"
"""A value that YAML takes as it stands, and that needs no look at what it may mean in places."""
_SIMPLE = re.compile(
    rf"""
    (?: (?P<key>[A-Za-z_][\w-]*):
        (?: [ ] (?P<value>{_PLAIN}) \n
          | [ ] \[ (?P<flow>{_PLAIN.replace(" ", "")}(?:,[ ]{_PLAIN.replace(" ", "")})*) \] \n
          | \n (?P<block>(?P<indent>[ ]*)-[ ]{_PLAIN}\n(?:(?P=indent)-[ ]{_PLAIN}\n)*) )
    )""",
    re.VERBOSE,
)
_NOT_TEXT = frozenset(("", "true", "false", "yes", "no", "on", "off", "null", "y", "n"))
_TEXT_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "timestamp"))
_SEPARATORS = re.compile(r"[,\s]+")


class Unreadable(Exception):
    """Frontmatter that is not valid YAML; the message says where and why."""


class Entry(NamedTuple):
    """A key with its value, as PyYAML nodes whose marks count from the beginning of the YAML."""

    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Fenced:
    """The frontmatter's place and its YAML entries."""

    newline: str
    yaml: str
    entries: Mapping[str, Entry]
    start: int
    """Where the YAML begins in the text."""
    body: int
    """Where the content does."""


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The title, tags and aliases of a note, and where its content begins."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    """As they are written, without `#`; one that is there twice, twice."""
    aliases: tuple[str, ...] = ()
    body: int = 0
    """Where the content begins."""
    problem: str = ""
    """Why it could not be read: then all of the text is content."""


def read(text: str) -> Frontmatter:
    """Read the frontmatter of a text."""
    start = len(BOM) if text.startswith(BOM) else 0
    if not text.startswith("---", start):
        return Frontmatter(body=start)
    if (simple := _simple(text)) is not None:
        return simple
    try:
        fenced = find(text)
    except Unreadable as error:
        return Frontmatter(body=start, problem=str(error))
    if fenced is None:
        return Frontmatter(body=start)
    entries = fenced.entries
    title, tags, aliases = (first(entries, names) for names in (("title",), TAGS, ALIASES))
    return Frontmatter(
        title=(as_text(title.value) or "")[:MAX_VALUE_LENGTH] or None if title else None,
        tags=tuple(_within_length(_tags(tags.value))) if tags else (),
        aliases=tuple(_within_length(_texts(aliases.value))) if aliases else (),
        body=fenced.body,
    )


def _simple(text: str) -> Frontmatter | None:
    """Read plain frontmatter without PyYAML; return None for any other."""
    if not text.startswith("---\n"):
        return None
    place = 4
    values: dict[str, list[str]] = {}
    is_list: dict[str, bool] = {}
    while found := _SIMPLE.match(text, place, MAX_YAML_LENGTH):
        place = found.end()
        name = found["key"]
        if name not in _KNOWN_KEYS:
            continue
        if value := found["value"]:
            values[name], is_list[name] = [value.rstrip()], False
        elif flow := found["flow"]:
            values[name], is_list[name] = flow.split(", "), True
        else:
            lines = found["block"].split("\n")[:-1]
            skipped = len(found["indent"]) + len("- ")
            values[name], is_list[name] = [line[skipped:].rstrip() for line in lines], True
    if not text.startswith("---\n", place) or any(
        each.lower() in _NOT_TEXT for several in values.values() for each in several
    ):
        return None
    title, tags, aliases = (
        next((name for name in names if name in values), "") for names in (("title",), TAGS, ALIASES)
    )
    if title and is_list[title]:
        return None
    return Frontmatter(
        title=values[title][0][:MAX_VALUE_LENGTH] if title else None,
        tags=tuple(_within_length(values[tags] if is_list[tags] else _SEPARATORS.split(values[tags][0])))
        if tags
        else (),
        aliases=tuple(_within_length(values[aliases])) if aliases else (),
        body=place + len("---\n"),
    )


def find(text: str) -> Fenced | None:
    """Locate the frontmatter of a text. Raises `Unreadable`. Words or a list between two rules are content."""
    found = _fenced(text)
    entries = _mapping_entries(found["yaml"]) if found else None
    if found is None or entries is None:
        return None
    return Fenced(found["newline"], found["yaml"], entries, found.start("yaml"), found.end())


def _fenced(text: str) -> re.Match[str] | None:
    """Looked for no further than it may go."""
    found = _FENCED.match(text, 0, MAX_YAML_LENGTH)
    if len(text) <= MAX_YAML_LENGTH or (found and found.end() < MAX_YAML_LENGTH):
        return found
    if text.startswith(("---", f"{BOM}---")) and (
        text.find("\n---", MAX_YAML_LENGTH - 4) >= 0 or text.find("\n...", MAX_YAML_LENGTH - 4) >= 0
    ):
        raise Unreadable(f"YAML of over {MAX_YAML_LENGTH:,} characters is not read")
    return None


def _mapping_entries(yaml: str) -> dict[str, Entry] | None:
    """The keys of the mapping that the text is, if it is one; where a key is there twice, the last."""
    try:
        root = untrusted.compose_yaml(yaml)
    except untrusted.UnreadableLine as error:
        raise Unreadable(f"line {error.line + 1}: {error.problem}") from error
    except untrusted.Unreadable as error:
        raise Unreadable(str(error)) from error
    if root is None:
        return {}
    if root.id != "mapping":
        return None
    pairs: list[tuple[Any, Any]] = root.value
    return {key.value: Entry(key, value) for key, value in pairs if isinstance(key.value, str)}


def first(entries: Mapping[str, Entry], names: tuple[str, ...]) -> Entry | None:
    """Return the first of these keys that is present."""
    return next((entries[name] for name in names if name in entries), None)


def as_text(node: Any) -> str | None:
    """Return a scalar as written if it is text, a number or a date: YAML itself would make 7 of 007."""
    return node.value.strip() if node.id == "scalar" and node.tag in _TEXT_TAGS else None


def items(node: Any) -> list[Any]:
    """Return the nodes of a list; any other node as a list of one."""
    return node.value if node.id == "sequence" else [node]


def _within_length(words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if len(word) <= MAX_VALUE_LENGTH)


def _texts(node: Any) -> Iterator[str]:
    return (text for each in items(node) if (text := as_text(each)))


def _tags(node: Any) -> Iterator[str]:
    """A list of tags, or a string with several."""
    for text in _texts(node):
        parts = [text] if node.id == "sequence" else _SEPARATORS.split(text)
        yield from (tag for part in parts if (tag := part.lstrip("#").strip()))
