"""The short way of an ordinary tool call over HTTP.

What a 2026-07-28 client sends again and again is one POST with one `tools/call`; the SDK's general way there and
back costs several times what the call itself does. A request that is in every respect ordinary is answered here.
Anything else, and whatever is wrong in any way, is left to the SDK, which has every refusal: this module never says
no. A test sends the same requests both ways and compares.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from carrel.mcp.pipeline import Pipeline, UnknownTool
from carrel.mcp.toolset import Arguments, Caller

METHOD = "tools/call"
_ORDINARY = {
    b"mcp-protocol-version": LATEST_MODERN_VERSION.encode(),
    b"mcp-method": METHOD.encode(),
    b"content-type": b"application/json",
}

Headers = list[tuple[bytes, bytes]]


class OrdinaryCall:
    """A `tools/call` in which there is nothing to refuse and nothing to negotiate."""

    __slots__ = ("arguments", "id", "meta", "name")

    def __init__(self, number: int | str, name: str, arguments: Arguments, meta: dict[str, Any]) -> None:
        self.id = number
        self.name = name
        self.arguments = arguments
        self.meta = meta


def ordinary_call(headers: Headers, body: bytes) -> OrdinaryCall | None:
    name = _named_by(headers)
    if name is None:
        return None
    try:
        message: Any = from_json(body)
        number, params = message["id"], message["params"]
        meta = params["_meta"]
        is_ordinary = (
            message["jsonrpc"] == "2.0"
            and message["method"] == METHOD
            and type(number) in (int, str)
            and params["name"] == name
            and type(params["arguments"]) is dict
            and meta[PROTOCOL_VERSION_META_KEY] == LATEST_MODERN_VERSION
            and CLIENT_CAPABILITIES_META_KEY in meta
            and "progressToken" not in meta
        )
        if not is_ordinary:
            return None
        validate_client_request(METHOD, LATEST_MODERN_VERSION, params)
    except (ValueError, KeyError, TypeError, ValidationError):
        return None
    return OrdinaryCall(number, name, cast("Arguments", params["arguments"]), meta)


def _named_by(headers: Headers) -> str | None:
    """The tool that the headers of an ordinary call name."""
    seen: dict[bytes, bytes] = {}
    for key, value in headers:
        if key.startswith(b"mcp-") and (key in seen or key.startswith(b"mcp-param-")):
            return None
        seen[key] = value
    if any(seen.get(key) != value for key, value in _ORDINARY.items()):
        return None
    if not _takes_json(seen.get(b"accept", b"")):
        return None
    name = seen.get(b"mcp-name", b"")
    return name.decode() if name.isascii() and not name.startswith(b"=?") else None


@lru_cache
def _takes_json(accept: bytes) -> bool:
    return any(kind.partition(b";")[0].strip() == b"application/json" for kind in accept.split(b","))


class DirectCalls:
    def __init__(self, pipeline: Pipeline, server_info: dict[str, Any]) -> None:
        self._pipeline = pipeline
        meta = to_json({SERVER_INFO_META_KEY: server_info})
        self._end = b',"resultType":"complete","_meta":' + meta + b"}}"

    async def answer(self, call: OrdinaryCall, caller: Caller, headers: Headers) -> bytes | None:
        """The whole response; None where the SDK has to say that there is no such tool."""
        if self._pipeline.is_traced:
            from carrel.mcp.tracing import Origin

            caller = replace(caller, origin=Origin(call.meta, headers, LATEST_MODERN_VERSION, str(call.id)))
        try:
            answer = await self._pipeline.call(call.name, call.arguments, caller)
        except UnknownTool:
            return None
        start = b'{"jsonrpc":"2.0","id":' + to_json(call.id) + b',"result":{"content":[{"text":'
        text = answer.text.encode()
        if answer.is_error:
            return start + to_json(answer.text) + b',"type":"text"}],"isError":true' + self._end
        shown = b',"type":"text"}],"isError":false,"structuredContent":'
        return start + to_json(answer.text) + shown + text + self._end
