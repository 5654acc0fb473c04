"""Prompts: tasks that a person picks and fills in, written out for the model in the tools that it has here.

What a person fills in is data. It is checked before a prompt sees it, and stands in quotes in what the prompt writes.
"""

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    TextContent,
    TextResourceContents,
)
from mcp_types import Prompt as ShownPrompt

from carrel.mcp.resources import MOST_COMPLETIONS, Found, said
from carrel.mcp.toolset import Caller

if TYPE_CHECKING:
    from carrel.mcp.pipeline import Pipeline

LONGEST_VALUE = 300
SUGGESTING_SECONDS = 2.0
_UNSEEN = frozenset(["Cc", "Cs", "Zl", "Zp"])
"""Categories of characters that would end a line, or are no text."""
_STEERING = frozenset([*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xE0000, 0xE0080)])
"""That turn the direction of a text or hide one in it."""

Context = ServerRequestContext[Any, Any]


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


class Handlers:
    """What the SDK's server asks, over the prompts of one pipeline."""

    def __init__(self, pipeline: "Pipeline", caller_of: Callable[[Context], Caller]) -> None:
        self._pipeline = pipeline
        self._caller_of = caller_of
        self._prompts = {each.name: each for each in pipeline.prompts}
        self._listed = ListPromptsResult(prompts=[shown(each) for each in pipeline.prompts])

    async def list(self, _context: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return self._listed

    async def get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        prompt = self._named(params.name)
        caller = self._caller_of(context)
        try:
            values = checked(prompt, params.arguments or {})
            with said():
                written = await prompt.write(self._asked(values, caller))
        except Misasked as fault:
            raise MCPError(INVALID_PARAMS, str(fault)) from fault
        contents = [TextContent(text=written.text), *map(_resource, written.embedded)]
        messages = [PromptMessage(role="user", content=each) for each in contents]
        return GetPromptResult(description=prompt.description, messages=messages)

    async def complete(self, context: Context, params: CompleteRequestParams, name: str) -> CompleteResult:
        prompt = self._named(name)
        argument = next((each for each in prompt.arguments if each.name == params.argument.name), None)
        if argument is None:
            raise MCPError(INVALID_PARAMS, f"{prompt.name} takes no {params.argument.name[:LONGEST_VALUE]!a}")
        start = params.argument.value
        found = Found([], 0)
        if argument.kind and fault_in(start) is None:
            with said():
                found = await self._suggest(argument.kind, start, self._caller_of(context), MOST_COMPLETIONS)
        values = found.values[:MOST_COMPLETIONS]
        return CompleteResult(
            completion=Completion(values=values, total=found.total, has_more=found.total > len(values))
        )

    def _named(self, name: str) -> Prompt:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")
        return prompt

    def _asked(self, values: Mapping[str, str], caller: Caller) -> Asked:
        async def suggest(kind: str, limit: int) -> Found:
            return await self._suggest(kind, "", caller, limit)

        tools = frozenset(each["name"] for each in self._pipeline.definitions)
        return Asked(values, tools, caller.user, datetime.now(UTC).date(), suggest, self._read)

    async def _suggest(self, kind: str, start: str, caller: Caller, limit: int) -> Found:
        """Nothing where nobody knows, or not in time: a person goes on typing."""
        suggest = self._pipeline.suggestions.get(kind)
        if suggest is None:
            return Found([], 0)
        try:
            async with asyncio.timeout(SUGGESTING_SECONDS):
                return await suggest(start, caller, limit)
        except TimeoutError:
            return Found([], 0)

    async def _read(self, uri: str) -> Embedded | None:
        resources = self._pipeline.resources
        text = None if resources is None else await resources.read(uri)
        return None if resources is None or text is None else Embedded(uri, resources.mime_type, text)


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


def shown(prompt: Prompt) -> ShownPrompt:
    arguments = [
        PromptArgument(name=each.name, title=each.title, description=each.description, required=each.is_required)
        for each in prompt.arguments
    ]
    return ShownPrompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def _resource(embedded: Embedded) -> EmbeddedResource:
    uri, mime_type, text = embedded
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
