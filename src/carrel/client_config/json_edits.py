"""Edits of a JSON text that change nothing else in it, and that can be undone to the byte.

Undoing an edit requires knowing what it created. So the layout tells: an object that `put` creates has its member on
lines of its own (or with a space on each side, in a document of one line), while an object that existed and was empty
gets the member on one line, before whatever whitespace and comments it contained.
"""

import json
from collections.abc import Sequence
from typing import Any

from carrel.client_config.document_parser import Member, Node, Unreadable, newline_of, parse, table

_DEFAULT_INDENT = "  "
Path = Sequence[str]


def read(text: str) -> dict[str, Any]:
    """Parse a document; a blank one is an empty object."""
    return _document(text).value if text.strip() else {}


def put(text: str, path: Path, value: Any) -> str:
    """Return the text with `value` at `path`, creating missing objects on the way."""
    if not text.strip():
        return text + new_document(path, value)
    node = _document(text)
    for depth, key in enumerate(path):
        if node.members is None:
            raise Unreadable(text, node.start, f'"{path[depth - 1]}" is not an object')
        member = _member(node, key)
        if member is None:
            return _added(text, node, path[depth:], value)
        node = member.node
    is_flat = node.members is not None and "\n" not in text[node.start : node.end]
    shown = _flat(value) if is_flat else _lines(value, _indent(text, node.start), _unit(text), newline_of(text))
    return text[: node.start] + shown + text[node.end :]


def remove(text: str, path: Path) -> str:
    """Return the text without the value at `path`, and without the objects that `put` created for it."""
    while (steps := _steps(text, path)) is not None:
        made = new_document(path, steps[-1][1].node.value)
        if text == f"{made}\n":
            return ""
        if text.endswith(made) and not text[: -len(made)].strip():
            return text[: -len(made)]
        while len(steps) > 1 and _is_created_by_put(text, *steps[-1]):
            steps.pop()
        text = _without(text, *steps[-1])
    return text


def new_document(path: Path, value: Any) -> str:
    """Return the text that `put` writes into an empty document."""
    for key in reversed(path):
        value = {key: value}
    return _lines(value, "", _DEFAULT_INDENT, "\n")


# --- lookup


def _document(text: str) -> Node:
    node = parse(text)
    if node.members is None:
        raise Unreadable(text, node.start, "expected an object")
    return node


def _member(node: Node, key: str) -> Member | None:
    """Return the last member of that name: of duplicates, JSON parsers use the last."""
    return next((each for each in reversed(node.members or ()) if each.key == key), None)


def _steps(text: str, path: Path) -> list[tuple[Node, Member]] | None:
    """Return the objects along a path, each with the member that continues it; None if the path does not exist."""
    if not text.strip():
        return None
    node, steps = _document(text), list[tuple[Node, Member]]()
    for key in path:
        member = _member(node, key)
        if member is None:
            return None
        steps.append((node, member))
        node = member.node
    return steps


# --- removal


def _is_created_by_put(text: str, node: Node, member: Member) -> bool:
    """Whether the object has the layout of one that `put` creates for this member."""
    written = text[node.start : node.end]
    lines = _lines({member.key: member.node.value}, _indent(text, node.start), _unit(text), newline_of(text))
    return written in (lines, _flat_object(member.key, member.node.value))


def _without(text: str, node: Node, member: Member) -> str:
    members = node.members or []
    lead = len(text[: member.start].rstrip())
    if member.comma is not None or member is members[0]:
        return text[:lead] + text[member.end :]
    before = members[members.index(member) - 1]
    comma = before.comma
    assert comma is not None  # noqa: S101 - another member follows
    return text[:comma] + text[comma + 1 : lead] + text[member.end :]


# --- insertion


def _added(text: str, node: Node, path: Path, value: Any) -> str:
    unit, newline = _unit(text), newline_of(text)
    if not node.members:
        inside = text[node.start + 1 : node.end - 1]
        indent = _indent(text, node.start) + unit
        lead = newline + indent if "\n" in inside else ""
        body = _body(path, value, indent, unit, newline) if lead and inside.strip() else _flat_body(path, value)
        place = _skip_line_comments(text, node.start + 1) if lead else node.start + 1
        return text[:place] + lead + body + text[place:]
    first, last = node.members[0], node.members[-1]
    if "\n" in text[node.start : first.start] or "\n" in text[last.end : node.end]:
        own = text[len(text[: last.start].rstrip()) : last.start]
        indent = own.rpartition("\n")[2] if "\n" in own else _indent(text, node.start) + unit
        body = newline + indent + _body(path, value, indent, unit, newline)
    else:
        body = " " + _flat_body(path, value)
    place = _skip_line_comments(text, last.end)
    if last.comma is not None:
        return text[:place] + body + "," + text[place:]
    return text[: last.end] + "," + text[last.end : place] + body + text[place:]


def _skip_line_comments(text: str, at: int) -> int:
    """Skip comments that begin on the same line: they belong to what precedes them."""
    place = at
    while True:
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        if text.startswith("//", at):
            return len(text[: text.index("\n", at)].rstrip("\r"))
        if not text.startswith("/*", at):
            return place
        place = at = text.index("*/", at + 2) + 2


def _body(path: Path, value: Any, indent: str, unit: str, newline: str) -> str:
    for key in reversed(path[1:]):
        value = {key: value}
    return f"{_flat(path[0])}: {_lines(value, indent, unit, newline)}"


def _flat_body(path: Path, value: Any) -> str:
    shown = _flat_object(path[1], value) if len(path) > 1 else _flat(value)
    return f"{_flat(path[0])}: {shown}"


def _flat_object(key: str, value: Any) -> str:
    return f"{{ {_flat(key)}: {_flat(value)} }}"


# --- formatting


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(value: Any, indent: str, unit: str, newline: str) -> str:
    """Format objects with one member per line, and everything else on one line."""
    members = table(value)
    if not members:
        return _flat(value)
    inner = indent + unit
    shown = [f"{inner}{_flat(key)}: {_lines(each, inner, unit, newline)}" for key, each in members.items()]
    return "{" + newline + f",{newline}".join(shown) + newline + indent + "}"


def _indent(text: str, at: int) -> str:
    """Return the indentation of the line at a position."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return the indentation of one level, as the first member of the document has it."""
    document = _document(text)
    if not document.members:
        return _DEFAULT_INDENT
    first = document.members[0].start
    line = text[text.rfind("\n", 0, first) + 1 : first]
    unit = line.removeprefix(_indent(text, document.start))
    return unit if unit and not unit.strip() else _DEFAULT_INDENT
