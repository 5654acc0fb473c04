"""What is sent, built once, and what an answer must be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CLIENT = {"name": "carrel-bench", "version": "1"}


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: dict[str, Any]
    rows: int | None = None
    """How many rows a right answer has; None where it has none."""


def line(method: str, params: dict[str, Any], number: int | None, version: str = LEGACY) -> bytes:
    """A message as it goes over stdio; since 2026-07-28 each says who sends it."""
    if version == MODERN:
        meta = {PROTOCOL_VERSION_META_KEY: MODERN, CLIENT_INFO_META_KEY: CLIENT, CLIENT_CAPABILITIES_META_KEY: {}}
        params = {**params, "_meta": meta}
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        message["id"] = number
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def opening(version: str) -> bytes:
    """What a client of that version asks first."""
    if version == MODERN:
        return line("server/discover", {}, 0, MODERN)
    return line("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}, 0)


def initialized() -> bytes:
    return line("notifications/initialized", {}, None)


def list_tools(version: str, number: int = 1) -> bytes:
    return line("tools/list", {}, number, version)


def tool_call(call: Call, version: str, number: int = 1) -> bytes:
    return line("tools/call", {"name": call.tool, "arguments": call.arguments}, number, version)


def http_call(call: Call, address: tuple[str, int], path: str, version: str = MODERN) -> bytes:
    body = tool_call(call, version).rstrip()
    named = f"Mcp-Method: tools/call\r\nMcp-Name: {call.tool}\r\n" if version == MODERN else ""
    head = (
        f"POST {path} HTTP/1.1\r\n"
        f"Host: {address[0]}:{address[1]}\r\n"
        "Accept: application/json, text/event-stream\r\n"
        "Content-Type: application/json\r\n"
        f"MCP-Protocol-Version: {version}\r\n"
        f"{named}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def check(body: bytes) -> None:
    """Cheap enough for every answer: it is no JSON-RPC error and no tool's error."""
    if b'"error":{' in body or b'"isError":true' in body or b'"result":{' not in body:
        raise RuntimeError(f"not an answer: {body[:500]!r}")


def check_rows(body: bytes, call: Call) -> None:
    """Once for each server: the answer says what was asked for."""
    check(body)
    value = json.loads(json.loads(body)["result"]["content"][0]["text"])
    rows = value["entities"] if isinstance(value, dict) and "entities" in value else value
    if call.rows is not None and len(rows) != call.rows:
        raise RuntimeError(f"{call.tool}: {len(rows)} rows, not {call.rows}")
