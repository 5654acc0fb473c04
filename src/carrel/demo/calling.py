"""The plainest MCP client over HTTP: one call, one answer."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from carrel.errors import CarrelError
from carrel.version import __version__

PROTOCOL = "2026-07-28"
PATIENCE_SECONDS = 60.0


class CallFailed(CarrelError):
    """The demo's own server did not answer as it should."""


class Desk:
    """The tools at an address."""

    def __init__(self, address: str) -> None:
        self._place = urlsplit(address)
        self._calls = 0

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool answers; raises `CallFailed`."""
        self._calls += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "carrel-demo", "version": __version__},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self._calls, "method": "tools/call", "params": params}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        connection = http.client.HTTPConnection(self._place.hostname or "", self._place.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("POST", self._place.path, json.dumps(message), headers)
            answer = json.loads(connection.getresponse().read())
            result = answer["result"]
            value = json.loads(result["content"][0]["text"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
            raise CallFailed(f"{tool} was not answered: {error!r}") from error
        finally:
            connection.close()
        if result.get("isError"):
            raise CallFailed(f"{tool} answered {json.dumps(value)}")
        return value
