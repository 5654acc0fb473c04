"""Parsing of configuration documents: JSON with comments and trailing commas, with the place of every value."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast


class Unreadable(ValueError):
    """The text is not what its format says, or not what can be edited."""

    def __init__(self, text: str, offset: int, reason: str) -> None:
        super().__init__(reason)
        before = text[:offset]
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self.reason = reason


def newline_of(text: str) -> str:
    """How lines end: as the first one does."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def table(value: Any) -> dict[str, Any] | None:
    """The value, if it has keys: they are strings in both."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


_SPACE = " \t\r\n"
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_WORD = re.compile(r"[\w.+-]*")
_DEEPEST = 200
MAX_CHARACTERS = 4 * 1024 * 1024


@dataclass(slots=True)
class Node:
    """A value and its place: text[start:end]."""

    start: int
    end: int
    value: Any
    members: "list[Member] | None" = None  # of an object


@dataclass(slots=True)
class Member:
    key: str
    start: int
    node: Node
    comma: int | None = field(default=None)  # where the comma after it is

    @property
    def end(self) -> int:
        """Behind the value, or behind the comma that follows it."""
        return self.node.end if self.comma is None else self.comma + 1


def parse(text: str) -> Node:
    """The one value that the text holds; raises `Unreadable`."""
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(text, 0, f"a file of over {MAX_CHARACTERS:,} characters is not read")
    reader = _Reader(text)
    node = reader.value(skip(text, 0), 0)
    rest = skip(text, node.end)
    if rest < len(text):
        raise Unreadable(text, rest, "something follows the end of the document")
    return node


def skip(text: str, at: int) -> int:
    """Behind the blanks and comments at `at`."""
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise Unreadable(text, at, "this comment has no end")
            at = end + 2
        else:
            break
    return at


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> Node:
        text = self._text
        if depth > _DEEPEST:
            raise Unreadable(text, at, f"nested deeper than {_DEEPEST}")
        if text.startswith("{", at):
            return self._object(at, depth)
        if text.startswith("[", at):
            return self._array(at, depth)
        if text.startswith('"', at):
            return self._string(at)
        found, word = _SCALAR.match(text, at), _WORD.match(text, at)
        if found is None or word is None or word.end() != found.end():
            raise Unreadable(text, at, "a value is expected here")
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
            pass  # an escape that there is not
        raise Unreadable(self._text, at, "this string has no end, or holds what a string cannot")

    def _object(self, at: int, depth: int) -> Node:
        text, start, members = self._text, at, list[Member]()
        at = skip(text, at + 1)
        while not text.startswith("}", at):
            if members and members[-1].comma is None:
                raise Unreadable(text, at, "',' or '}' is expected here")
            if not text.startswith('"', at):
                raise Unreadable(text, at, "a name in double quotes is expected here")
            key = self._string(at)
            colon = skip(text, key.end)
            if not text.startswith(":", colon):
                raise Unreadable(text, colon, "':' is expected here")
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
                raise Unreadable(text, at, "',' or ']' is expected here")
            item = self.value(at, depth + 1)
            items.append(item.value)
            at = skip(text, item.end)
            is_open = text.startswith(",", at)
            if is_open:
                at = skip(text, at + 1)
        return Node(start, at + 1, items)
