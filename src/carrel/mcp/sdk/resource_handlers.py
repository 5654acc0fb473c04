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
from carrel.mcp.resources import MOST_COMPLETIONS, Resources

PAGE = 100
NOT_FOUND_BEFORE_2026 = -32002

Context = ServerRequestContext[Any, Any]


class _Bus:
    """Carries what has changed to the streams that the SDK keeps for those who listen."""

    def __init__(self, watch: Callable[[], Callable[[], None]]) -> None:
        self._watch = watch
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}

    async def publish(self, event: ServerEvent) -> None:
        self.tell(event)

    def tell(self, event: ServerEvent) -> None:
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


class Handlers:
    """What the SDK's server asks, over resources of one kind."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._bus = _Bus(resources.watch)
        self.listening = ListenHandler(self._bus)
        self._subscribers: dict[str, ServerSession] = {}
        """Of the one connection that clients of before 2026-07-28 have, by URI."""
        self._watching: dict[str, Callable[[], None]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        resources.listen(self._changed)

    async def list(self, _context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        with said():
            found = await self._resources.listed((params and params.cursor) or "", PAGE)
        shown = [
            Resource(uri=each.uri, name=each.name, title=each.title, mime_type=self._resources.mime_type)
            for each in found
        ]
        return ListResourcesResult(resources=shown, next_cursor=found[-1].uri if len(found) == PAGE else None)

    async def templates(self, _context: Context, _params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        kind = self._resources
        template = ResourceTemplate(
            uri_template=kind.template, name=kind.name, description=kind.description, mime_type=kind.mime_type
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with said():
            text = await self._resources.read(params.uri)
        if text is None:
            raise not_found(context)
        mime_type = self._resources.mime_type
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=mime_type, text=text)])

    async def complete(self, _context: Context, params: CompleteRequestParams) -> CompleteResult:
        values, total = [], 0
        if isinstance(params.ref, ResourceTemplateReference) and params.ref.uri == self._resources.template:
            with said():
                values, total = await self._resources.completions(params.argument.value, MOST_COMPLETIONS)
        return CompleteResult(completion=Completion(values=values, total=total, has_more=total > len(values)))

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        self._subscribers[params.uri] = context.session
        if params.uri not in self._watching:
            self._watching[params.uri] = self._resources.watch()
        return EmptyResult()

    async def unsubscribe(self, _context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self._subscribers.pop(params.uri, None)
        self._watching.pop(params.uri, _nothing)()
        return EmptyResult()

    def _changed(self, uris: Sequence[str], has_others: bool) -> None:
        if has_others:
            self._bus.tell(ResourcesListChanged())
        for uri in uris:
            self._bus.tell(ResourceUpdated(uri))
            if (session := self._subscribers.get(uri)) is not None:
                task = asyncio.get_running_loop().create_task(session.send_resource_updated(uri))
                self._telling.add(task)  # the loop itself holds on to no task
                task.add_done_callback(self._telling.discard)


def not_found(context: Context) -> MCPError:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return MCPError(INVALID_PARAMS if is_modern else NOT_FOUND_BEFORE_2026, "Resource not found")


@contextmanager
def said() -> Generator[None]:
    """What goes wrong with a store is said as it is to the callers of tools."""
    try:
        yield
    except CarrelError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from error


def _nothing() -> None:
    pass
