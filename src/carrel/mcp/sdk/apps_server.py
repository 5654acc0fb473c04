"""Views of tools' results for the hosts that show any: the extension MCP Apps.

A view is a page that a host draws a result with. Who does not say that it shows views is served as if there were
none: what is more for those who do is looked up only while their requests are answered.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import HandlerEntry
from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)

from carrel.mcp.description import NAME, TITLE, ServerDescription
from carrel.mcp.messages import APPS_EXTENSION, APPS_MIME_TYPE, shows_views
from carrel.mcp.toolset import View

VIEW_LIFETIME_MS = 300_000

VIEW_META: dict[str, Any] = {
    "ui": {
        "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": []},
        "prefersBorder": True,
    }
}
"""Of every view: it has nothing from outside and asks nobody but its host."""

Context = ServerRequestContext[Any, Any]

_shows_views: ContextVar[bool] = ContextVar("is_shown", default=False)


class AppsServer(Server[Any]):
    """The SDK's server of what is described.

    To a client that shows views, its tools name theirs, which are resources besides those that there are.
    """

    _view_handlers: Mapping[str, HandlerEntry[Any]] = {}
    _remembers_clients = False

    def __init__(self, description: ServerDescription, **options: Any) -> None:
        self._description = description
        super().__init__(NAME, title=TITLE, version=description.version, **options)

    @property
    def instructions(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride] - read at each request
        return self._description.current_instructions()

    @instructions.setter
    def instructions(self, text: str | None) -> None:
        """Ignore what the SDK's constructor sets."""

    def add_views(self, views: Mapping[str, View], *, remembers_clients: bool) -> None:
        """Serve views, keyed by tool, to clients that show them.

        `remembers_clients`: the capabilities that a client of before 2026-07-28 declared in its handshake are still
        known at its later requests, as over stdio.
        """
        if views:
            self._view_handlers = _handlers(self, views)
            self._remembers_clients = remembers_clients
            self.middleware.append(self._serve_views)

    def get_request_handler(self, method: str) -> HandlerEntry[Any] | None:
        more = self._view_handlers.get(method) if _shows_views.get() else None
        return more or super().get_request_handler(method)

    async def _serve_views(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        is_start = ctx.method == "initialize"
        if not (self._handshake_shows_views(ctx) if is_start else _client_shows_views(ctx)):
            return await call_next(ctx)
        before = _shows_views.set(True)
        try:
            result = await call_next(ctx)
        finally:
            _shows_views.reset(before)
        if is_start or ctx.method == "server/discover":
            _declare(cast("dict[str, Any]", result))
        return result

    def _handshake_shows_views(self, context: Context) -> bool:
        return self._remembers_clients and shows_views((context.params or {}).get("capabilities"))


def _client_shows_views(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and shows_views({"extensions": capabilities.extensions})


def _declare(result: dict[str, Any]) -> None:
    """Add to what a server says that it can; whoever can read a view has to be told that there are resources."""
    capabilities = result["capabilities"]
    capabilities.setdefault("resources", {})
    capabilities["extensions"] = {**capabilities.get("extensions", {}), APPS_EXTENSION: {}}


def _handlers(server: AppsServer, views: Mapping[str, View]) -> dict[str, HandlerEntry[Any]]:
    """What answers those who show views, over what answers the others."""
    by_uri = {view.uri: view for view in views.values()}
    listed = [
        Resource(
            uri=view.uri,
            name=view.name,
            title=view.title,
            description=view.description,
            mime_type=APPS_MIME_TYPE,
            _meta=VIEW_META,
        )
        for view in by_uri.values()
    ]
    others = {
        method: entry.handler
        for method in ("tools/list", "resources/list", "resources/templates/list", "resources/read")
        if (entry := server.get_request_handler(method))
    }

    async def list_tools(context: Context, params: PaginatedRequestParams) -> ListToolsResult:
        found = cast("ListToolsResult", await others["tools/list"](context, params))
        tools = [
            tool.model_copy(update={"meta": {"ui": {"resourceUri": views[tool.name].uri}}})
            if tool.name in views
            else tool
            for tool in found.tools
        ]
        return ListToolsResult(tools=tools, cache_scope="private")  # a shared one would reach those who show none

    async def list_resources(context: Context, params: PaginatedRequestParams) -> ListResourcesResult:
        if "resources/list" not in others:
            return ListResourcesResult(resources=listed)
        found = cast("ListResourcesResult", await others["resources/list"](context, params))
        more = [] if params.cursor else listed
        return found.model_copy(update={"resources": [*more, *found.resources]})

    async def list_templates(_context: Context, _params: PaginatedRequestParams) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[])

    async def read(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        view = by_uri.get(params.uri)
        if view is not None:
            page = TextResourceContents(uri=view.uri, mime_type=APPS_MIME_TYPE, text=view.html, _meta=VIEW_META)
            return ReadResourceResult(contents=[page], ttl_ms=VIEW_LIFETIME_MS, cache_scope="public")
        if "resources/read" in others:
            return cast("ReadResourceResult", await others["resources/read"](context, params))
        from carrel.mcp.sdk.resource_handlers import not_found

        raise not_found(context)

    handlers: dict[str, HandlerEntry[Any]] = {
        "tools/list": HandlerEntry(PaginatedRequestParams, list_tools),
        "resources/list": HandlerEntry(PaginatedRequestParams, list_resources),
        "resources/read": HandlerEntry(ReadResourceRequestParams, read),
    }
    if "resources/templates/list" not in others:
        handlers["resources/templates/list"] = HandlerEntry(PaginatedRequestParams, list_templates)
    return handlers
