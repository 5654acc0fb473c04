"""Changes to a JSON text that leave all else of it as it is, and that can be taken back to the byte.

Taking back needs to know what was there before. So what is put where nothing was looks different from what is put where
something was: an object that we make has our member on lines of its own (or with a blank on each side, in a document of
one line), while one that was empty keeps what stood in it behind our member, which is then on one line.
"""

import json
from collections.abc import Sequence
from typing import Any

from carrel.client_config.document_parser import Member, Node, Unreadable, newline_of, parse, table

_UNIT = "  "
Path = Sequence[str]


def read(text: str) -> dict[str, Any]:
    """What the document says; nothing where it is blank."""
    return _document(text).value if text.strip() else {}


def put(text: str, path: Path, value: Any) -> str:
    """The text with `value` at `path`; an object on the way that is missing is made."""
    if not text.strip():
        return text + new_document(path, value)
    node = _document(text)
    for depth, key in enumerate(path):
        if node.members is None:
            raise Unreadable(text, node.start, f'"{path[depth - 1]}" is no object')
        member = _member(node, key)
        if member is None:
            return _added(text, node, path[depth:], value)
        node = member.node
    is_flat = node.members is not None and "\n" not in text[node.start : node.end]
    shown = _flat(value) if is_flat else _lines(value, _indent(text, node.start), _unit(text), newline_of(text))
    return text[: node.start] + shown + text[node.end :]


def take(text: str, path: Path) -> str:
    """The text without what is at `path`, and without what `put` made for it."""
    while (steps := _steps(text, path)) is not None:
        made = new_document(path, steps[-1][1].node.value)
        if text == f"{made}\n":
            return ""
        if text.endswith(made) and not text[: -len(made)].strip():
            return text[: -len(made)]
        while len(steps) > 1 and _is_made(text, *steps[-1]):
            steps.pop()
        text = _without(text, *steps[-1])
    return text


def new_document(path: Path, value: Any) -> str:
    """What is put in an empty file; a file that was not there has a newline at its end, too."""
    for key in reversed(path):
        value = {key: value}
    return _lines(value, "", _UNIT, "\n")


# --- finding


def _document(text: str) -> Node:
    node = parse(text)
    if node.members is None:
        raise Unreadable(text, node.start, "an object is expected here")
    return node


def _member(node: Node, key: str) -> Member | None:
    """The last of that name, which is the one that counts."""
    return next((each for each in reversed(node.members or ()) if each.key == key), None)


def _steps(text: str, path: Path) -> list[tuple[Node, Member]] | None:
    """Each object on the way and its member that leads on."""
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


# --- taking out


def _is_made(text: str, node: Node, member: Member) -> bool:
    """Whether the object is as `put` makes one to hold this member."""
    written = text[node.start : node.end]
    lines = _lines({member.key: member.node.value}, _indent(text, node.start), _unit(text), newline_of(text))
    return written in (lines, _made_flat(member.key, member.node.value))


def _without(text: str, node: Node, member: Member) -> str:
    members = node.members or []
    lead = len(text[: member.start].rstrip())
    if member.comma is not None or member is members[0]:
        return text[:lead] + text[member.end :]
    before = members[members.index(member) - 1]
    comma = before.comma
    assert comma is not None  # noqa: S101 - a member follows it
    return text[:comma] + text[comma + 1 : lead] + text[member.end :]


# --- putting in


def _added(text: str, node: Node, path: Path, value: Any) -> str:
    unit, newline = _unit(text), newline_of(text)
    if not node.members:
        inside = text[node.start + 1 : node.end - 1]
        indent = _indent(text, node.start) + unit
        lead = newline + indent if "\n" in inside else ""
        body = _body(path, value, indent, unit, newline) if lead and inside.strip() else _flat_body(path, value)
        place = _behind_comments(text, node.start + 1) if lead else node.start + 1
        return text[:place] + lead + body + text[place:]
    first, last = node.members[0], node.members[-1]
    if "\n" in text[node.start : first.start] or "\n" in text[last.end : node.end]:
        own = text[len(text[: last.start].rstrip()) : last.start]
        indent = own.rpartition("\n")[2] if "\n" in own else _indent(text, node.start) + unit
        body = newline + indent + _body(path, value, indent, unit, newline)
    else:
        body = " " + _flat_body(path, value)
    place = _behind_comments(text, last.end)
    if last.comma is not None:
        return text[:place] + body + "," + text[place:]
    return text[: last.end] + "," + text[last.end : place] + body + text[place:]


def _behind_comments(text: str, at: int) -> int:
    """Behind the comments that begin on the same line, which are about what stands before them."""
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
    shown = _made_flat(path[1], value) if len(path) > 1 else _flat(value)
    return f"{_flat(path[0])}: {shown}"


def _made_flat(key: str, value: Any) -> str:
    return f"{{ {_flat(key)}: {_flat(value)} }}"


# --- writing values


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(value: Any, indent: str, unit: str, newline: str) -> str:
    """Objects a member a line; all else on one line."""
    members = table(value)
    if not members:
        return _flat(value)
    inner = indent + unit
    shown = [f"{inner}{_flat(key)}: {_lines(each, inner, unit, newline)}" for key, each in members.items()]
    return "{" + newline + f",{newline}".join(shown) + newline + indent + "}"


def _indent(text: str, at: int) -> str:
    """The blanks that begin the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """By how much a level is indented: as the first member of the document is."""
    document = _document(text)
    if not document.members:
        return _UNIT
    first = document.members[0].start
    line = text[text.rfind("\n", 0, first) + 1 : first]
    unit = line.removeprefix(_indent(text, document.start))
    return unit if unit and not unit.strip() else _UNIT
