"""Ordinary JSON-RPC requests of MCP clients, recognized without the SDK's models.

The checks here are stricter than the protocol: a request passes only if the SDK is certain to accept it. Everything
else, every malformed request included, is left to the SDK, so that one place words all refusals.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_core import from_json

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MODERN_VERSION = "2026-07-28"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
RESERVED_PREFIX = "io.modelcontextprotocol/"
APPS_EXTENSION = "io.modelcontextprotocol/ui"
APPS_MIME_TYPE = "text/html;profile=mcp-app"

INITIALIZE = "initialize"
DISCOVER = "server/discover"
PING = "ping"
LIST_TOOLS = "tools/list"
CALL_TOOL = "tools/call"

MAX_REQUEST_ID = 2**63
_ENVELOPE_KEYS = {PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY}
_REQUEST_KEYS = {"jsonrpc", "id", "method", "params"}
_TEXT = {"type": "string"}
_OBJECT: dict[str, Any] = {"type": "object"}
_OBJECTS = {"type": "object", "additionalProperties": _OBJECT}
_ICON = {
    "type": "object",
    "properties": {
        "src": _TEXT,
        "mimeType": _TEXT,
        "sizes": {"type": "array", "items": _TEXT},
        "theme": {"enum": ["dark", "light"]},
    },
    "required": ["src"],
}
_CLIENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "info": {
            "type": "object",
            "properties": {
                "name": _TEXT,
                "version": _TEXT,
                "title": _TEXT,
                "description": _TEXT,
                "websiteUrl": _TEXT,
                "icons": {"type": "array", "items": _ICON},
            },
            "required": ["name", "version"],
        },
        "capabilities": {
            "type": "object",
            "properties": {
                "elicitation": {"type": "object", "properties": {"form": _OBJECT, "url": _OBJECT}},
                "experimental": _OBJECTS,
                "extensions": _OBJECTS,
                "roots": {"type": "object", "properties": {"listChanged": {"type": "boolean"}}},
                "sampling": {"type": "object", "properties": {"context": _OBJECT, "tools": _OBJECT}},
                "tasks": False,
            },
        },
    },
    "required": ["info", "capabilities"],
}


class Request(NamedTuple):
    """One JSON-RPC request, whose envelope is in order."""

    id: int | str
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    """The `_meta` of the parameters; empty where there is none."""


MAX_VALUES = 10_000
"""Of a message: members of its objects and items of its arrays. A validator takes 50 ms to refuse as many."""
_SEPARATORS = (b",", b":", b"[", b"{")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class Session(NamedTuple):
    """What the client of a request has negotiated: at its handshake, or in the request itself since 2026-07-28."""

    version: str
    shows_views: bool = False
    """Whether the client is a host of MCP Apps."""

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN_VERSION


def has_too_many_values(text: bytes) -> bool:
    """Whether to parse and validate it would keep others waiting: long strings are quick, many values are not."""
    if len(text) < MAX_VALUES or sum(map(text.count, _SEPARATORS)) <= MAX_VALUES:
        return False
    outside = _STRING.sub(b"", text)
    return sum(map(outside.count, _SEPARATORS)) > MAX_VALUES


def parse(text: bytes) -> Any:
    """Parse a message; None if it is not JSON that any parser reads alike."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None


def as_request(message: Any) -> Request | None:
    """Return the request that a message is, if its envelope and its `_meta` are in order."""
    if type(message) is not dict or not cast("dict[str, Any]", message).keys() <= _REQUEST_KEYS:
        return None
    found = cast("dict[str, Any]", message)
    number, method, params = found.get("id"), found.get("method"), found.get("params", {})
    if found.get("jsonrpc") != "2.0" or type(method) is not str or type(params) is not dict:
        return None
    meta = cast("dict[str, Any]", params).get("_meta", {})
    if not _is_id(number) or type(meta) is not dict:
        return None
    request = Request(cast("int | str", number), method, params, cast("dict[str, Any]", meta))
    return request if _is_id(request.meta.get("progressToken", "")) else None


def as_notification(message: Any) -> dict[str, Any] | None:
    """Return a message that is a notification."""
    if type(message) is not dict:
        return None
    found = cast("dict[str, Any]", message)
    is_ordinary = (
        found.keys() <= {"jsonrpc", "method", "params"}
        and found.get("jsonrpc") == "2.0"
        and type(found.get("method")) is str
        and type(found.get("params", {})) is dict
    )
    return found if is_ordinary else None


def handshake(params: dict[str, Any], *, remembers_client: bool) -> Session | None:
    """Negotiate a version from the parameters of `initialize`.

    A client that is not remembered cannot be shown views: its later requests do not repeat its capabilities.
    """
    capabilities, version = params.get("capabilities"), params.get("protocolVersion")
    if type(version) is not str or not _is_client(params.get("clientInfo"), capabilities):
        return None
    negotiated = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return Session(negotiated, remembers_client and shows_views(capabilities))


class _Envelopes:
    """Reads what 2026-07-28 clients declare; remembers the last, since a client repeats itself in every request."""

    def __init__(self) -> None:
        self._last: tuple[dict[str, Any], Session] = {}, Session("")

    def __call__(self, request: Request) -> Session | None:
        """Return what a client declares in the `_meta` of its request."""
        meta = request.meta
        last, session = self._last
        if meta == last:
            return session if last else None
        info = meta.get(CLIENT_INFO_KEY, {"name": "", "version": ""})  # which is optional
        capabilities = meta.get(CLIENT_CAPABILITIES_KEY)
        if meta.get(PROTOCOL_VERSION_KEY) != MODERN_VERSION or not _is_client(info, capabilities):
            return None
        if any(key.startswith(RESERVED_PREFIX) and key not in _ENVELOPE_KEYS for key in meta):
            return None
        session = Session(MODERN_VERSION, shows_views(capabilities))
        self._last = meta, session
        return session


def is_enveloped(request: Request) -> bool:
    """Whether a request claims to be one of 2026-07-28 or later."""
    return PROTOCOL_VERSION_KEY in request.meta


def shows_views(capabilities: Any) -> bool:
    """Whether a client that declares these capabilities is a host of MCP Apps."""
    match capabilities:
        case {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [*kinds]}}}:
            return APPS_MIME_TYPE in kinds
        case _:
            return False


envelope = _Envelopes()


def _is_id(value: Any) -> bool:
    """Whether a value can be a request's id or its progress token."""
    return type(value) is str or (type(value) is int and -MAX_REQUEST_ID < value < MAX_REQUEST_ID)


def _is_client(info: Any, capabilities: Any) -> bool:
    try:
        return _client_validator().is_valid({"info": info, "capabilities": capabilities})
    except ValueError:  # nested beyond what the validator follows
        return False


@cache
def _client_validator() -> "Draft202012Validator":
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(_CLIENT)
