"""Prompts: tasks that a person picks and fills in, written out for the model in the tools that it has here.

What a person fills in is data. It is validated before a prompt sees it, and quoted in the
text that the prompt renders.
"""

import unicodedata
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from carrel.mcp.resources import Completions

MAX_VALUE_LENGTH = 300
_CONTROL_CATEGORIES = frozenset(["Cc", "Cs", "Zl", "Zp"])
"""Categories of characters that would end a line, or are no text."""
_INVISIBLE_CHARACTERS = frozenset([*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080)])
"""That turn the direction of a text or hide one in it."""


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    title: str
    description: str
    kind: str = ""
    """What it names, as toolsets call what they suggest."""
    is_required: bool = True


class EmbeddedText(NamedTuple):
    uri: str
    mime_type: str
    text: str


class RenderedPrompt(NamedTuple):
    text: str
    embedded: tuple[EmbeddedText, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What a prompt is written from."""

    values: Mapping[str, str]
    """What was filled in."""
    tools: Collection[str]
    """All that the caller can call here."""
    user: str | None
    """Whom the caller speaks for, if the transport knows."""
    today: date
    suggest: Callable[[str, int], Awaitable[Completions]]
    """The first of a kind, at most so many."""
    read: Callable[[str], Awaitable[EmbeddedText | None]]
    """The resource at a URI, if there is one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    required_tools: frozenset[str]
    """Tools without which it is not offered."""
    render: Callable[[PromptContext], Awaitable[RenderedPrompt]]


class InvalidPromptArguments(Exception):
    """What was filled in does not do; the text says why."""


def validate_arguments(prompt: Prompt, given: Mapping[str, str]) -> dict[str, str]:
    """What was filled in, without blanks around it and without what was left empty; raises `InvalidPromptArguments`."""
    known = {each.name for each in prompt.arguments}
    if unknown := sorted(given.keys() - known):
        takes = ", ".join(each.name for each in prompt.arguments) or "nothing"
        raise InvalidPromptArguments(f"Unknown argument {unknown[0][:MAX_VALUE_LENGTH]!a}: {prompt.name} takes {takes}")
    values = {name: text for name, value in given.items() if (text := value.strip())}
    for argument in prompt.arguments:
        if argument.is_required and argument.name not in values:
            raise InvalidPromptArguments(f"{argument.name} is missing: {argument.description}")
        if (fault := value_fault(values.get(argument.name, ""))) is not None:
            raise InvalidPromptArguments(f"{argument.name} {fault}")
    return values


def value_fault(value: str) -> str | None:
    """What is wrong with a value, as the end of a sentence that begins with its name."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"must be at most {MAX_VALUE_LENGTH} characters"
    if any(unicodedata.category(each) in _CONTROL_CATEGORIES or ord(each) in _INVISIBLE_CHARACTERS for each in value):
        return "must be one line of text without control characters"
    return None
