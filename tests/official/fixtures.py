"""A server holding everything the official conformance suite expects to find.

The names and behaviours come from the descriptions in the suite's own server scenarios.
"""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from .fixture_tools import (
    PNG,
    STRING,
    Context,
    embedded,
    form,
    form_answer,
    image,
    input_required,
    object_schema,
    tool_fixtures,
)

NAME = "carrel-conformance"
Paging = types.PaginatedRequestParams | None

RESOURCES = [
    types.Resource(uri=f"test://{name}", name=name, description=description, mime_type=mime_type)
    for name, description, mime_type in (
        ("static-text", "A fixed text", "text/plain"),
        ("static-binary", "A fixed image", "image/png"),
        ("watched-resource", "A resource to subscribe to", "text/plain"),
    )
]
TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data",
    name="template",
    description="Data of one id",
    mime_type="application/json",
)


def _prompt(name: str, description: str, *arguments: str) -> types.Prompt:
    return types.Prompt(
        name=name,
        description=description,
        arguments=[types.PromptArgument(name=argument, required=True) for argument in arguments],
    )


PROMPTS = [
    _prompt("test_simple_prompt", "One fixed message"),
    _prompt("test_prompt_with_arguments", "Quotes its arguments", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "Embeds a resource", "resourceUri"),
    _prompt("test_prompt_with_image", "Embeds an image"),
    _prompt("test_input_required_result_prompt", "Needs a form filled first"),
]


async def list_resources(ctx: Context, params: Paging) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=RESOURCES)


async def list_resource_templates(ctx: Context, params: Paging) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[_contents(params.uri)])


def _contents(uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    if uri == "test://static-binary":
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri in ("test://static-text", "test://watched-resource"):
        return types.TextResourceContents(
            uri=uri, mime_type="text/plain", text="This is the content of the static text resource."
        )
    if match := re.fullmatch(r"test://template/([^/]+)/data", uri):
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})


async def subscribe(ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def unsubscribe(ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def list_prompts(ctx: Context, params: Paging) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=PROMPTS)


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _messages(_text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            quoted = f"arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            return _messages(_text(f"Prompt with arguments: {quoted}"))
        case "test_prompt_with_embedded_resource":
            uri = given.get("resourceUri", "test://static-text")
            resource = embedded(uri, "text/plain", "Embedded resource content for testing.")
            return _messages(resource, _text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return _messages(image(), _text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            answer = form_answer(params.input_responses, "user_context")
            if answer is None:
                question = form("What context should the prompt use?", object_schema(context=STRING))
                return input_required(user_context=question)
            return _messages(_text(f"Use this context: {answer.get('context')}"))
        case unknown:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {unknown}")


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def _messages(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("paris", "park", "party", "test") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_logging_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


def conformance_server() -> Server[Any]:
    """A fresh server; the state it seals and the changes it announces stay within this process."""
    bus = InMemorySubscriptionBus()
    tools = tool_fixtures(bus)

    async def list_tools(ctx: Context, params: Paging) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.definition for tool in tools.values()])

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if (tool := tools.get(params.name)) is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await tool.call(ctx, params)

    server = Server[Any](
        NAME,
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_resource_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    # The constructor's on_set_logging_level= warns of deprecation; 2025-11-25 still requires the method.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_logging_level)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return server
