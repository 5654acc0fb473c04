"""The SDK's server as Carrel sets it up, where that is not visible from outside."""

import json
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from carrel.mcp.description import ServerDescription
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.sdk.server import build_server
from carrel.mcp.sdk.transports import SdkEndpoint
from carrel.mcp.toolset import Toolset
from tests.test_pipeline import Plain, echo, tool
from tests.wire import MODERN, HttpWire

pytestmark = pytest.mark.anyio


async def test_a_call_over_http_does_not_run_tools_list_first() -> None:
    """Without a schema look-up of our own, the SDK lists all tools for each call that has arguments."""
    pipeline = Pipeline([Toolset("plain", "", (tool(echo),), Plain())], timeout=5)
    server = build_server(ServerDescription(pipeline, version="1", instructions=""))
    listed: list[str] = []
    entry = server.get_request_handler("tools/list")
    assert entry is not None

    async def counting(context: Any, params: Any) -> Any:
        listed.append("listed")
        return await entry.handler(context, params)

    server.add_request_handler("tools/list", entry.params_type, counting)
    endpoint = SdkEndpoint(server, 10_000)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await endpoint.answer(scope, await receive(), receive, send)

    params = {"name": "work", "arguments": {"a": 1}, "_meta": {}}
    wire = HttpWire(MODERN, "http://localhost")
    headers = wire.headers("tools/call", params) | {"Content-Type": "application/json"}
    wire.close()
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with endpoint.run(), httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        response = await http.post("http://localhost/mcp", content=json.dumps(message), headers=headers)
    assert response.json()["result"]["structuredContent"] == {"a": 1}
    assert listed == []
