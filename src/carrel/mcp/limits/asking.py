"""Requests that are no tool calls and yet ask for work: limited as calls are."""

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from carrel.mcp.callers import http_caller
from carrel.mcp.limits.calls import CallLimits

log = logging.getLogger("carrel.limits")

Refuse = Callable[[Scope, str, int], ASGIApp]
"""Of a request by its name and the seconds to wait: notes it, and says so."""


class LimitedApp:
    """In front of an application, each request to which is a call of its client.

    `name_of` has what a path is called in `limits.tools`. A request is under way until its answer begins: a client that
    reads slowly is another limit's business.
    """

    def __init__(self, app: ASGIApp, limits: CallLimits, *, name_of: Callable[[str], str], refuse: Refuse) -> None:
        self._app = app
        self._limits = limits
        self._name_of = name_of
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name, client = self._name_of(scope["path"]), http_caller(scope).client
        call = self._limits.call(client, name)

        async def sending(message: Message) -> None:
            await call.end()
            await send(message)

        async with call as seconds:
            if seconds is None:
                await self._app(scope, receive, sending)
                return
        log.info("refused", extra={"fields": {"limit": "calls", "tool": name, "client": client, "status": 429}})
        await self._refuse(scope, name, seconds)(scope, receive, send)
