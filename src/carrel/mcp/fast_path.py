"""Answers to ordinary requests, without the SDK.

Importing the SDK takes longer than all the rest of a start, and its general way of answering costs several times
what a call itself does. What clients ask for at every start and again and again (`initialize`, `server/discover`,
`ping`, `tools/list`, `tools/call`) is answered here, for stdio and HTTP and for both eras of the protocol. Anything
else, and whatever is wrong in any way, is left to the SDK: this module never refuses. `tests/test_fast_path.py` sends
generated requests both ways and compares the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from pydantic_core import to_json

from carrel.mcp.description import LIST_LIFETIME_MS, ServerDescription
from carrel.mcp.messages import (
    APPS_EXTENSION,
    DISCOVER,
    INITIALIZE,
    LIST_TOOLS,
    MODERN_VERSION,
    PING,
    SERVER_INFO_KEY,
    Request,
    Session,
)
from carrel.mcp.pipeline import UnknownTool
from carrel.mcp.toolset import Arguments, Caller

Headers = Sequence[tuple[bytes, bytes]]

_CALL_KEYS = {"name", "arguments", "_meta"}
# The SDK writes the fields of a schema that its models know first.
_SCHEMA_LEAD = ("$schema", "properties", "required", "type")
_MODERN_LEADS = {"inputSchema": ("$schema", "type"), "outputSchema": ("$schema",)}


class FastPath:
    """Answers ordinary requests to one endpoint, byte for byte as the SDK would."""

    def __init__(self, description: ServerDescription) -> None:
        self._description = description
        self._pipeline = description.pipeline
        self._server_info = to_json({SERVER_INFO_KEY: description.server_info})
        self._modern_call_suffix = b',"resultType":"complete"', b',"_meta":' + self._server_info
        self._tools = cache(self._list_tools)

    def answer(self, request: Request, session: Session) -> bytes | None:
        """Return the whole response to anything but a tool call; None if the SDK has to answer."""
        result = self._result(request, session)
        return None if result is None else b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (to_json(request.id), result)

    async def call(
        self, request: Request, session: Session, caller: Caller, headers: Headers | None = None
    ) -> bytes | None:
        """Call a tool and return the whole response; None, and nothing was called, if the SDK has to answer.

        `headers` are those of an HTTP request.
        """
        name: Any = request.params.get("name")
        arguments: Any = request.params.get("arguments", {})
        if not request.params.keys() <= _CALL_KEYS:
            return None
        if not (type(name) is str and isinstance(arguments, dict)):
            return None
        if self._pipeline.is_traced:
            from carrel.mcp.tracing import Origin

            transport = "pipe" if headers is None else "tcp"
            origin = Origin(request.meta, headers or (), session.version, str(request.id), transport)
            caller = replace(caller, origin=origin)
        try:
            answer = await self._pipeline.call(name, cast("Arguments", arguments), caller)
        except UnknownTool:
            return None
        completion, stamp = self._modern_call_suffix if session.is_modern else (b"", b"")
        outcome, value = (b"true", b"") if answer.is_error else (b"false", self._structured(answer.text, session))
        return (b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"text":%b,"type":"text"}],"isError":%b%b%b%b}}') % (
            to_json(request.id),
            to_json(answer.text),
            outcome,
            completion,
            value,
            stamp,
        )

    @staticmethod
    def _structured(text: str, session: Session) -> bytes:
        """Before 2026-07-28 structured content must be an object."""
        if session.is_modern or text.startswith("{"):
            return b',"structuredContent":' + text.encode()
        return b""

    def _result(self, request: Request, session: Session) -> bytes | None:
        method, is_modern = request.method, session.is_modern
        if method == INITIALIZE and not is_modern:
            return to_json(self._initialize_result(session))
        if request.params.keys() - {"_meta"}:
            return None
        if method == LIST_TOOLS:
            return self._tools(is_modern, session.shows_views)
        if method == DISCOVER and is_modern:
            return to_json(self._discover_result(session))
        return b"{}" if method == PING and not is_modern else None

    def _initialize_result(self, session: Session) -> dict[str, Any]:
        return {
            "capabilities": self._capabilities(session),
            "instructions": self._description.current_instructions(),
            "protocolVersion": session.version,
            "serverInfo": self._description.server_info,
        }

    def _discover_result(self, session: Session) -> dict[str, Any]:
        return {
            "cacheScope": "private",
            "capabilities": self._capabilities(session),
            "instructions": self._description.current_instructions(),
            "resultType": "complete",
            "supportedVersions": [MODERN_VERSION],
            "ttlMs": 0,
            "_meta": {SERVER_INFO_KEY: self._description.server_info},
        }

    def _capabilities(self, session: Session) -> dict[str, Any]:
        found = self._description.capabilities(is_modern=session.is_modern)
        if session.shows_views and self._pipeline.views:
            found.setdefault("resources", {})  # a host that reads a view has to know that there are resources
            found["extensions"] = {APPS_EXTENSION: {}}
        return found

    def _list_tools(self, is_modern: bool, shows_views: bool) -> bytes:
        views = self._pipeline.views if shows_views else {}
        tools = [
            _tool(each, is_modern=is_modern, view=views[each["name"]].uri if each["name"] in views else None)
            for each in self._pipeline.definitions
        ]
        if not is_modern:
            return to_json({"tools": tools})
        scope = "private" if views else self._description.cache_scope
        listed = {"cacheScope": scope, "resultType": "complete", "tools": tools, "ttlMs": LIST_LIFETIME_MS}
        return to_json(listed | {"_meta": {SERVER_INFO_KEY: self._description.server_info}})


def _tool(definition: Mapping[str, Any], *, is_modern: bool, view: str | None) -> dict[str, Any]:
    """A tool as the SDK's models write it: fields by name, an output schema that is not an object's for 2026 alone."""
    found: dict[str, Any] = {} if view is None else {"_meta": {"ui": {"resourceUri": view}}}
    for key in sorted(definition):
        value = definition[key]
        if key in _MODERN_LEADS:
            if key == "outputSchema" and not is_modern and value.get("type") != "object":
                continue
            lead = _MODERN_LEADS[key] if is_modern else _SCHEMA_LEAD
            value = {name: value[name] for name in lead if name in value} | value
        elif key == "annotations":
            value = dict(sorted(value.items()))
        found[key] = value
    return found
