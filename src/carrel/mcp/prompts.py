"""Prompts: tasks that a person picks and fills in, written out for the model in the tools that it has here.

What a person fills in is data. It is checked before a prompt sees it, and stands in quotes in what the prompt writes.
"""

import unicodedata
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from carrel.mcp.resources import Found

LONGEST_VALUE = 300
_UNSEEN = frozenset(["Cc", "Cs", "Zl", "Zp"])
"""Categories of characters that would end a line, or are no text."""
_STEERING = frozenset([*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080)])
"""That turn the direction of a text or hide one in it."""


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    title: str
    description: str
    kind: str = ""
    """What it names, as toolsets call what they suggest."""
    is_required: bool = True


class Embedded(NamedTuple):
    uri: str
    mime_type: str
    text: str


class Written(NamedTuple):
    text: str
    embedded: tuple[Embedded, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a prompt is written from."""

    values: Mapping[str, str]
    """What was filled in."""
    tools: Collection[str]
    """All that the caller can call here."""
    user: str | None
    """Whom the caller speaks for, if the transport knows."""
    today: date
    suggest: Callable[[str, int], Awaitable[Found]]
    """The first of a kind, at most so many."""
    read: Callable[[str], Awaitable[Embedded | None]]
    """The resource at a URI, if there is one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    needs: frozenset[str]
    """Tools without which it is not offered."""
    write: Callable[[Asked], Awaitable[Written]]


class Misasked(Exception):
    """What was filled in does not do; the text says why."""


def checked(prompt: Prompt, given: Mapping[str, str]) -> dict[str, str]:
    """What was filled in, without blanks around it and without what was left empty; raises `Misasked`."""
    known = {each.name for each in prompt.arguments}
    if unknown := sorted(given.keys() - known):
        takes = ", ".join(each.name for each in prompt.arguments) or "nothing"
        raise Misasked(f"Unknown argument {unknown[0][:LONGEST_VALUE]!a}: {prompt.name} takes {takes}")
    values = {name: text for name, value in given.items() if (text := value.strip())}
    for argument in prompt.arguments:
        if argument.is_required and argument.name not in values:
            raise Misasked(f"{argument.name} is missing: {argument.description}")
        if (fault := fault_in(values.get(argument.name, ""))) is not None:
            raise Misasked(f"{argument.name} {fault}")
    return values


def fault_in(value: str) -> str | None:
    """What is wrong with a value, as the end of a sentence that begins with its name."""
    if len(value) > LONGEST_VALUE:
        return f"must be at most {LONGEST_VALUE} characters"
    if any(unicodedata.category(each) in _UNSEEN or ord(each) in _STEERING for each in value):
        return "must be one line of text without control characters"
    return None
