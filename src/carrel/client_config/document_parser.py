"""A parser for JSON with comments and trailing commas that keeps the position of every value.

The standard library's parser reads neither comments nor positions, and edits of the text need both.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast


class Unreadable(ValueError):
    """The document is invalid, or written in a way that cannot be edited."""

    def __init__(self, text: str, offset: int, reason: str) -> None:
        super().__init__(reason)
        before = text[:offset]
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self.reason = reason


def newline_of(text: str) -> str:
    """Return the line ending of the first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def table(value: Any) -> dict[str, Any] | None:
    """Return a JSON object or TOML table, or None for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


_WHITESPACE = " \t\r\n"
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_BARE_WORD = re.compile(r"[\w.+-]*")
_MAX_DEPTH = 200
MAX_CHARACTERS = 4 * 1024 * 1024


@dataclass(slots=True)
class Node:
    """A value and its position, text[start:end]."""

    start: int
    end: int
    value: Any
    members: "list[Member] | None" = None  # of an object


@dataclass(slots=True)
class Member:
    """A key and value of an object, and the comma after them."""

    key: str
    start: int
    node: Node
    comma: int | None = field(default=None)  # where the comma after it is

    @property
    def end(self) -> int:
        """The end of the value, or of the comma that follows it."""
        return self.node.end if self.comma is None else self.comma + 1


def parse(text: str) -> Node:
    """Parse a document of one value; raises `Unreadable`."""
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(text, 0, f"the file is larger than {MAX_CHARACTERS:,} characters")
    reader = _Reader(text)
    node = reader.value(skip(text, 0), 0)
    rest = skip(text, node.end)
    if rest < len(text):
        raise Unreadable(text, rest, "unexpected text after the end of the document")
    return node


def skip(text: str, at: int) -> int:
    """Skip whitespace and comments, and return the position after them."""
    while at < len(text):
        if text[at] in _WHITESPACE:
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise Unreadable(text, at, "this comment is not closed")
            at = end + 2
        else:
            break
    return at


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> Node:
        text = self._text
        if depth > _MAX_DEPTH:
            raise Unreadable(text, at, f"nested deeper than {_MAX_DEPTH}")
        if text.startswith("{", at):
            return self._object(at, depth)
        if text.startswith("[", at):
            return self._array(at, depth)
        if text.startswith('"', at):
            return self._string(at)
        found, word = _SCALAR.match(text, at), _BARE_WORD.match(text, at)
        if found is None or word is None or word.end() != found.end():
            raise Unreadable(text, at, "expected a value")
        try:
            return Node(at, found.end(), json.loads(found[0]))
        except ValueError as error:  # a whole number of thousands of digits
            raise Unreadable(text, at, "this number is too long") from error

    def _string(self, at: int) -> Node:
        found = _STRING.match(self._text, at)
        try:
            if found is not None:
                return Node(at, found.end(), json.loads(found[0]))
        except json.JSONDecodeError:
            pass  # an invalid escape sequence
        raise Unreadable(self._text, at, "this string is not closed or has an invalid character")

    def _object(self, at: int, depth: int) -> Node:
        text, start, members = self._text, at, list[Member]()
        at = skip(text, at + 1)
        while not text.startswith("}", at):
            if members and members[-1].comma is None:
                raise Unreadable(text, at, "expected ',' or '}'")
            if not text.startswith('"', at):
                raise Unreadable(text, at, "expected a name in double quotes")
            key = self._string(at)
            colon = skip(text, key.end)
            if not text.startswith(":", colon):
                raise Unreadable(text, colon, "expected ':'")
            member = Member(key.value, at, self.value(skip(text, colon + 1), depth + 1))
            at = skip(text, member.node.end)
            if text.startswith(",", at):
                member.comma = at
                at = skip(text, at + 1)
            members.append(member)
        return Node(start, at + 1, {each.key: each.node.value for each in members}, members)

    def _array(self, at: int, depth: int) -> Node:
        text, start, items = self._text, at, list[Any]()
        is_open = True
        at = skip(text, at + 1)
        while not text.startswith("]", at):
            if not is_open:
                raise Unreadable(text, at, "expected ',' or ']'")
            item = self.value(at, depth + 1)
            items.append(item.value)
            at = skip(text, item.end)
            is_open = text.startswith(",", at)
            if is_open:
                at = skip(text, at + 1)
        return Node(start, at + 1, items)
