"""Inputs for an MCP endpoint: calls made from the tools' published schemas, then spoiled in every way there is.

Hypothesis strategies, so that whatever goes wrong is made small before it is shown.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from tests.content_seed import GAMMA
from tests.fuzz_values import (
    BYTES,
    HEADER_VALUES,
    HEADERS,
    HOSTILE,
    KNOWN,
    MEANT,
    METHODS,
    ODD,
    QUERY,
    ROUTES,
    URIS,
)
from tests.wire import CLIENT_INFO, ERAS, MODERN

Draw = Callable[[st.SearchStrategy[Any]], Any]
Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class Place:
    """An endpoint, and the definitions of the tools that it lists."""

    path: str
    tools: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Input:
    path: str
    headers: Headers
    body: bytes
    method: str = "POST"

    @property
    def line(self) -> bytes:
        """As it goes over stdio."""
        return self.body.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


def _chance(draw: Draw, one_in: int) -> bool:
    return draw(st.integers(0, one_in - 1)) == one_in - 1


def _pick(draw: Draw, values: Sequence[Any]) -> Any:
    return values[draw(st.integers(0, len(values) - 1))]


def fitting(draw: Draw, schema: dict[str, Any], name: str = "") -> Any:
    """A value that the schema allows, as far as its keywords say: one that means something, wherever one is known."""
    if "enum" in schema:
        return _pick(draw, schema["enum"])
    kind = schema["type"]
    if name in KNOWN and kind != "array" and not _chance(draw, 3):
        return _pick(draw, KNOWN[name])
    if kind == "object":
        required = schema.get("required", ())
        properties = schema["properties"].items()
        return {key: fitting(draw, each, key) for key, each in properties if key in required or _chance(draw, 2)}
    if kind == "array":
        found = [fitting(draw, schema["items"], name) for _ in range(draw(st.integers(schema.get("minItems", 0), 3)))]
        return list(dict.fromkeys(found)) if schema.get("uniqueItems") else found
    if kind == "integer":
        return draw(st.integers(schema.get("minimum", -3), schema.get("maximum", 200)))
    if kind == "boolean":
        return draw(st.booleans())
    text = _pick(draw, HOSTILE) if _chance(draw, 2) else draw(st.text(max_size=20))
    return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), "x")


def _spoil(draw: Draw, value: Any) -> Any:
    """The value with one thing in it replaced, left out or added, wherever in its depth."""
    if isinstance(value, dict) and value:
        key = _pick(draw, list(value))
        how = draw(st.integers(0, 5))
        if how == 0:
            return {name: each for name, each in value.items() if name != key}
        if how == 1:
            return {**value, _pick(draw, [*HOSTILE[:8], "id", "extra", "_meta", "cursor", "\ud800"]): _pick(draw, ODD)}
        if how == 2:
            return {**value, key: _pick(draw, ODD)}
        return {**value, key: _spoil(draw, value[key])}
    if isinstance(value, list) and value and not _chance(draw, 3):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _spoil(draw, value[place]), *value[place + 1 :]]
    return _pick(draw, ODD)


def _params(draw: Draw, method: str, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if method == "tools/call":
        tool = _pick(draw, tools)
        return {"name": tool["name"], "arguments": fitting(draw, tool["inputSchema"])}
    if method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        return {"cursor": _pick(draw, HOSTILE)} if _chance(draw, 2) else {}
    if method.startswith("resources/"):
        return {"uri": _pick(draw, URIS)}
    if method == "completion/complete":
        reference = {"type": "ref/resource", "uri": "note:///{+id}"}
        return {"ref": reference, "argument": {"name": "id", "value": _pick(draw, HOSTILE)}}
    if method == "initialize":
        return {"protocolVersion": _pick(draw, ERAS), "capabilities": {}, "clientInfo": CLIENT_INFO}
    if method.startswith("notifications/"):
        return {"requestId": draw(st.integers(0, 5)), "progressToken": 1, "progress": 1, "reason": "x"}
    return {}


def _message(draw: Draw, era: str, tools: Sequence[dict[str, Any]]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    method = _pick(draw, METHODS) if not tools or _chance(draw, 4) else "tools/call"
    params = _params(draw, method, tools)
    if era == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    if _chance(draw, 12):
        params.setdefault("_meta", {})["progressToken"] = _pick(draw, [1, "t", "", 0, None, 2**70, []])
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": draw(st.integers(1, 2**40)), "method": method, "params": params}
    if method.startswith("notifications/") and not _chance(draw, 4):
        del message["id"]
    return method, params, message


def _encoded(draw: Draw, message: Any) -> bytes:
    as_ascii = _chance(draw, 2)
    body = json.dumps(message, ensure_ascii=as_ascii).encode("utf-8", "surrogatepass")
    if not _chance(draw, 6):
        return body
    place = draw(st.integers(0, len(body)))
    how = draw(st.integers(0, 6))
    if how == 0:
        return body[:place]
    if how == 1:
        return body[:place] + _pick(draw, BYTES) + body[place:]
    if how == 2:
        return b"[" + b",".join([body] * draw(st.integers(0, 3))) + b"]"
    if how == 3:
        return body[:1] + _pick(draw, [b'"method":"ping",', b'"id":1,', b'"params":[],', b'"jsonrpc":2,']) + body[1:]
    if how == 4:
        depth = _pick(draw, [10, 200, 3000, 100_000])
        nested = _pick(draw, [b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
        return body.replace(b"{}", nested, 1) if b"{}" in body else nested
    if how == 5:
        return _pick(
            draw,
            [
                b"",
                b"null",
                b"0",
                b'""',
                b"[]",
                b"{}",
                b"\xef\xbb\xbf" + body,
                body.decode("utf-8", "replace").encode("utf-16"),
            ],
        )
    return draw(st.binary(max_size=40))


def _headers(draw: Draw, era: str, method: str, params: dict[str, Any], tokens: Sequence[bytes]) -> Headers:
    headers = [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"application/json, text/event-stream"),
        (b"MCP-Protocol-Version", era.encode()),
    ]
    if era == MODERN:
        headers.append((b"Mcp-Method", method.encode()))
        if name := params.get("name", params.get("uri")):
            headers.append((b"Mcp-Name", name.encode()))
    if tokens:
        token = _pick(draw, tokens) if _chance(draw, 4) else tokens[0]
        headers.append((b"Authorization", b"Bearer " + token))
    while _chance(draw, 6):
        name, value = _pick(draw, HEADERS), _pick(draw, HEADER_VALUES)
        how = draw(st.integers(0, 2))
        if how:
            headers = [each for each in headers if each[0] != name]
        if how < 2:
            headers.append((name, value))
    return tuple(headers)


@st.composite
def inputs(draw: Draw, places: Sequence[Place], tokens: Sequence[bytes] = (), eras: Sequence[str] = ERAS) -> Input:
    """Of `tokens`, the first opens everything."""
    place = _pick(draw, places)
    era = _pick(draw, eras)
    method, params, message = _message(draw, era, place.tools)
    headers = _headers(draw, era, method, params, tokens)
    spoiled: Any = message
    while _chance(draw, 3):
        spoiled = _spoil(draw, spoiled)
    return Input(place.path, headers, _encoded(draw, spoiled))


def _quoted(draw: Draw, text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")[:1500]
    return quote(data, safe="") if not _chance(draw, 8) else quote(data, safe="/%&=+;,")


@st.composite
def api_inputs(draw: Draw, tokens: Sequence[bytes] = ()) -> Input:
    """Requests to the backend API: its own parameters with values that mean something, or anything."""
    path = _pick(draw, ROUTES)
    if _chance(draw, 8):
        path = f"/api/entities/{_quoted(draw, _pick(draw, HOSTILE))}"
    query = [
        f"{_pick(draw, QUERY)}={_quoted(draw, _pick(draw, HOSTILE if _chance(draw, 2) else MEANT))}"
        for _ in range(draw(st.integers(0, 4)))
    ]
    headers = [(b"X-Project-Id", _pick(draw, [GAMMA.encode(), GAMMA.encode(), *HEADER_VALUES]))]
    if tokens:
        headers.append((b"Authorization", b"Bearer " + (_pick(draw, tokens) if _chance(draw, 4) else tokens[0])))
    if _chance(draw, 6):
        headers.append((_pick(draw, HEADERS), _pick(draw, HEADER_VALUES)))
    method = _pick(draw, ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"]) if _chance(draw, 12) else "GET"
    return Input(f"{path}?{'&'.join(query)}", tuple(headers), b"", method)
