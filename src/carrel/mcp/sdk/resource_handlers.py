"""The SDK's handlers of resources."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    SubscribeRequestParams,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from carrel.errors import CarrelError
from carrel.mcp.resources import MAX_COMPLETIONS, Resources

PAGE_SIZE = 100
LEGACY_NOT_FOUND = -32002

Context = ServerRequestContext[Any, Any]


class _EventBus:
    """Carries what has changed to the streams that the SDK keeps for those who listen."""

    def __init__(self, watch: Callable[[], Callable[[], None]]) -> None:
        self._watch = watch
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}

    async def publish(self, event: ServerEvent) -> None:
        self.emit(event)

    def emit(self, event: ServerEvent) -> None:
        for listener in list(self._listeners.values()):
            listener(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = listener
        stop = self._watch()

        def unsubscribe() -> None:
            stop()
            self._listeners.pop(token, None)

        return unsubscribe


class ResourceHandlers:
    """What the SDK's server asks, over resources of one kind."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._bus = _EventBus(resources.watch)
        self.on_listen = ListenHandler(self._bus)
        self._subscribers: dict[str, ServerSession] = {}
        """Of the one connection that clients of before 2026-07-28 have, by URI."""
        self._stop_watching: dict[str, Callable[[], None]] = {}
        self._notification_tasks: set[asyncio.Task[None]] = set()
        resources.listen(self._changed)

    async def list(self, _context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        with store_errors_as_mcp():
            found = await self._resources.list_after((params and params.cursor) or "", PAGE_SIZE)
        shown = [
            Resource(uri=each.uri, name=each.name, title=each.title, mime_type=self._resources.mime_type)
            for each in found
        ]
        return ListResourcesResult(resources=shown, next_cursor=found[-1].uri if len(found) == PAGE_SIZE else None)

    async def templates(self, _context: Context, _params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        kind = self._resources
        template = ResourceTemplate(
            uri_template=kind.template, name=kind.name, description=kind.description, mime_type=kind.mime_type
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with store_errors_as_mcp():
            text = await self._resources.read(params.uri)
        if text is None:
            raise not_found(context)
        mime_type = self._resources.mime_type
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=mime_type, text=text)])

    async def complete(self, _context: Context, params: CompleteRequestParams) -> CompleteResult:
        values, total = [], 0
        if isinstance(params.ref, ResourceTemplateReference) and params.ref.uri == self._resources.template:
            with store_errors_as_mcp():
                values, total = await self._resources.completions(params.argument.value, MAX_COMPLETIONS)
        return CompleteResult(completion=Completion(values=values, total=total, has_more=total > len(values)))

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        self._subscribers[params.uri] = context.session
        if params.uri not in self._stop_watching:
            self._stop_watching[params.uri] = self._resources.watch()
        return EmptyResult()

    async def unsubscribe(self, _context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self._subscribers.pop(params.uri, None)
        self._stop_watching.pop(params.uri, _nothing)()
        return EmptyResult()

    def _changed(self, uris: Sequence[str], is_list_changed: bool) -> None:
        if is_list_changed:
            self._bus.emit(ResourcesListChanged())
        for uri in uris:
            self._bus.emit(ResourceUpdated(uri))
            if (session := self._subscribers.get(uri)) is not None:
                task = asyncio.get_running_loop().create_task(session.send_resource_updated(uri))
                self._notification_tasks.add(task)  # the loop itself holds on to no task
                task.add_done_callback(self._notification_tasks.discard)


def not_found(context: Context) -> MCPError:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return MCPError(INVALID_PARAMS if is_modern else LEGACY_NOT_FOUND, "Resource not found")


@contextmanager
def store_errors_as_mcp() -> Generator[None]:
    """Raise a store's error as an MCP error with the same text that callers of tools see."""
    try:
        yield
    except CarrelError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from error


def _nothing() -> None:
    pass
