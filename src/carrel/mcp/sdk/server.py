"""The official SDK's low-level server over a pipeline."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ContentBlock,
    ListToolsResult,
    PaginatedRequestParams,
    PromptReference,
    TextContent,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from carrel.mcp.description import LIST_LIFETIME_MS, ServerDescription
from carrel.mcp.gateway import http_caller
from carrel.mcp.pipeline import Pipeline, UnknownTool
from carrel.mcp.sdk.apps_server import AppsServer
from carrel.mcp.toolset import Caller

Context = ServerRequestContext[Any, Any]


def build_server(description: ServerDescription) -> Server[Any]:
    """Build the SDK's server of what is described."""
    pipeline = description.pipeline
    modern_tools = ListToolsResult(tools=[Tool.model_validate(each) for each in pipeline.definitions])
    legacy_tools = ListToolsResult(tools=[Tool.model_validate(_for_legacy(each)) for each in pipeline.definitions])

    caller_of = _traced_caller if pipeline.is_traced else _caller

    async def list_tools(context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return modern_tools if _is_modern(context) else legacy_tools

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        try:
            answer = await pipeline.call(params.name, params.arguments or {}, caller_of(context))
        except UnknownTool:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}") from None
        content: list[ContentBlock] = [TextContent(text=answer.text)]
        if answer.is_error:
            return CallToolResult(content=content, is_error=True)
        if answer.text.startswith("{") or _is_modern(context):
            return CallToolResult(content=content, structured_content=answer.value)
        return CallToolResult(content=content)

    hint = CacheHint(ttl_ms=LIST_LIFETIME_MS, scope=description.cache_scope)
    server = AppsServer(
        description,
        cache_hints={"tools/list": hint, "prompts/list": hint},
        get_tool_input_schema=pipeline.input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **_handlers(pipeline, has_channel=description.has_channel),
    )
    server.middleware.clear()  # the SDK's tracing: 24 to 39 microseconds a call without an exporter
    server.add_views(pipeline.views, remembers_clients=description.has_channel)
    return server


def _handlers(pipeline: Pipeline, *, has_channel: bool) -> dict[str, Any]:
    """Of resources and prompts, where there are any."""
    of_resources = _resource_handlers(pipeline, has_channel=has_channel)
    if not pipeline.prompts:
        return of_resources
    from carrel.mcp.sdk.prompt_handlers import PromptHandlers

    handlers = PromptHandlers(pipeline, _caller)
    complete_resource = of_resources.get("on_completion")

    async def complete(context: Context, params: CompleteRequestParams) -> CompleteResult:
        if isinstance(params.ref, PromptReference):
            return await handlers.complete(context, params, params.ref.name)
        nothing = CompleteResult(completion=Completion(values=[], total=0, has_more=False))
        return await complete_resource(context, params) if complete_resource else nothing

    return {
        **of_resources,
        "on_list_prompts": handlers.list,
        "on_get_prompt": handlers.get,
        "on_completion": complete,
    }


def _resource_handlers(pipeline: Pipeline, *, has_channel: bool) -> dict[str, Any]:
    if pipeline.resources is None:
        return {}
    from carrel.mcp.sdk.resource_handlers import ResourceHandlers

    handlers = ResourceHandlers(pipeline.resources)
    to_subscribe = {"on_subscribe_resource": handlers.subscribe, "on_unsubscribe_resource": handlers.unsubscribe}
    return {
        "on_list_resources": handlers.list,
        "on_list_resource_templates": handlers.templates,
        "on_read_resource": handlers.read,
        "on_completion": handlers.complete,
        "on_subscriptions_listen": handlers.on_listen,
        **(to_subscribe if has_channel else {}),
    }


def _is_modern(context: Context) -> bool:
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def _for_legacy(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Before 2026-07-28 an output schema must describe an object: clients refuse the whole list for any other."""
    if definition.get("outputSchema", {}).get("type") == "object":
        return definition
    return {key: value for key, value in definition.items() if key != "outputSchema"}


def _traced_caller(context: Context) -> Caller:
    from carrel.mcp.tracing import Origin

    scope = getattr(context.request, "scope", None)
    headers, transport = ((), "pipe") if scope is None else (scope["headers"], "tcp")
    number = "" if context.request_id is None else str(context.request_id)
    origin = Origin(context.meta or {}, headers, context.protocol_version, number, transport)
    return replace(_caller(context), origin=origin)


def _caller(context: Context) -> Caller:
    wants_progress = context.meta is not None and "progress_token" in context.meta
    progress = context.session.report_progress if wants_progress else None
    scope = getattr(context.request, "scope", None)
    return Caller(client="", progress=progress) if scope is None else http_caller(scope, progress)
