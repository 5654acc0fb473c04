"""The SDK's handlers of prompts."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

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
from mcp_types import Prompt as McpPrompt

from carrel.mcp.pipeline import Pipeline
from carrel.mcp.prompts import (
    MAX_VALUE_LENGTH,
    EmbeddedText,
    InvalidPromptArguments,
    Prompt,
    PromptContext,
    validate_arguments,
    value_fault,
)
from carrel.mcp.resources import MAX_COMPLETIONS, Completions
from carrel.mcp.sdk.resource_handlers import store_errors_as_mcp
from carrel.mcp.toolset import Caller

SUGGESTION_TIMEOUT_SECONDS = 2.0

Context = ServerRequestContext[Any, Any]


class PromptHandlers:
    """What the SDK's server asks, over the prompts of one pipeline."""

    def __init__(self, pipeline: Pipeline, caller_of: Callable[[Context], Caller]) -> None:
        self._pipeline = pipeline
        self._caller_of = caller_of
        self._prompts = {each.name: each for each in pipeline.prompts}
        self._listed = ListPromptsResult(prompts=[as_mcp_prompt(each) for each in pipeline.prompts])

    async def list(self, _context: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return self._listed

    async def get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        prompt = self._prompt(params.name)
        caller = self._caller_of(context)
        try:
            values = validate_arguments(prompt, params.arguments or {})
            with store_errors_as_mcp():
                rendered = await prompt.render(self._prompt_context(values, caller))
        except InvalidPromptArguments as fault:
            raise MCPError(INVALID_PARAMS, str(fault)) from fault
        contents = [TextContent(text=rendered.text), *map(_resource, rendered.embedded)]
        messages = [PromptMessage(role="user", content=each) for each in contents]
        return GetPromptResult(description=prompt.description, messages=messages)

    async def complete(self, context: Context, params: CompleteRequestParams, name: str) -> CompleteResult:
        prompt = self._prompt(name)
        argument = next((each for each in prompt.arguments if each.name == params.argument.name), None)
        if argument is None:
            raise MCPError(INVALID_PARAMS, f"{prompt.name} takes no {params.argument.name[:MAX_VALUE_LENGTH]!a}")
        start = params.argument.value
        found = Completions([], 0)
        if argument.kind and value_fault(start) is None:
            with store_errors_as_mcp():
                found = await self._suggest(argument.kind, start, self._caller_of(context), MAX_COMPLETIONS)
        values = found.values[:MAX_COMPLETIONS]
        return CompleteResult(
            completion=Completion(values=values, total=found.total, has_more=found.total > len(values))
        )

    def _prompt(self, name: str) -> Prompt:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")
        return prompt

    def _prompt_context(self, values: Mapping[str, str], caller: Caller) -> PromptContext:
        async def suggest(kind: str, limit: int) -> Completions:
            return await self._suggest(kind, "", caller, limit)

        tools = frozenset(each["name"] for each in self._pipeline.definitions)
        return PromptContext(values, tools, caller.user, datetime.now(UTC).date(), suggest, self._read)

    async def _suggest(self, kind: str, start: str, caller: Caller, limit: int) -> Completions:
        """Nothing where nobody knows, or not in time: a person goes on typing."""
        suggest = self._pipeline.suggestions.get(kind)
        if suggest is None:
            return Completions([], 0)
        try:
            async with asyncio.timeout(SUGGESTION_TIMEOUT_SECONDS):
                return await suggest(start, caller, limit)
        except TimeoutError:
            return Completions([], 0)

    async def _read(self, uri: str) -> EmbeddedText | None:
        resources = self._pipeline.resources
        text = None if resources is None else await resources.read(uri)
        return None if resources is None or text is None else EmbeddedText(uri, resources.mime_type, text)


def as_mcp_prompt(prompt: Prompt) -> McpPrompt:
    arguments = [
        PromptArgument(name=each.name, title=each.title, description=each.description, required=each.is_required)
        for each in prompt.arguments
    ]
    return McpPrompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def _resource(embedded: EmbeddedText) -> EmbeddedResource:
    uri, mime_type, text = embedded
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
