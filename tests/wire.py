"""The thinnest possible MCP clients: what goes over the wire, with nothing that could hide a fault of ours."""

import base64
import itertools
import json
import os
import queue
import ssl
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ERAS = (MODERN, LEGACY)
CARREL = [sys.executable, "-m", "carrel"]
CLIENT_INFO = {"name": "carrel-tests", "version": "1"}
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""`verify` for plain HTTP: each client loads all of the machine's certificates otherwise, which takes 25 ms."""


class Wire(Protocol):
    era: str

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The whole JSON-RPC response."""
        ...


def call(wire: Wire, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call's result; fails the test on a protocol error."""
    response = wire.request("tools/call", {"name": name, "arguments": arguments})
    assert "result" in response, response
    return response["result"]


def value(result: dict[str, Any]) -> Any:
    """A result's JSON value, read from its one text block."""
    (block,) = result["content"]
    assert block["type"] == "text"
    return json.loads(block["text"])


def environment(**extra: str) -> dict[str, str]:
    """The test's environment without settings of the person who runs it."""
    return {key: text for key, text in os.environ.items() if not key.startswith("CARREL_")} | extra


def _params(era: str, params: dict[str, Any] | None) -> dict[str, Any]:
    if era != MODERN:
        return params or {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {**(params or {}), "_meta": meta}


class StdioWire:
    def __init__(
        self,
        era: str,
        *arguments: str,
        cwd: Path,
        stderr: Any = subprocess.DEVNULL,
        program: Sequence[str] = CARREL,
        **env: str,
    ) -> None:
        self.era = era
        self._ids = itertools.count(1)
        self.process = subprocess.Popen(
            [*program, "serve", *arguments],
            cwd=cwd,
            env=environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if era == LEGACY:
            opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO}
            self.opened = self.request("initialize", opening)["result"]
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            self.opened = self.request("server/discover")["result"]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self, timeout: float = 30) -> dict[str, Any]:
        line = self._lines.get(timeout=timeout)
        assert line, "the server closed its output"
        return json.loads(line)

    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": _params(self.era, params)}

    def begin(self, method: str, params: dict[str, Any] | None = None) -> int:
        message = self.message(method, params)
        self.send(message)
        return message["id"]

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        number = self.begin(method, params)
        response = self.receive()
        assert response["id"] == number, response
        return response

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> int:
        """Close the input and wait for the end; the exit status."""
        self.end_input()
        status = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


class HttpServer:
    """`carrel serve --http` on a free port, ready when this returns."""

    def __init__(self, *arguments: str, cwd: Path, program: Sequence[str] = CARREL, **env: str) -> None:
        self.process = subprocess.Popen(
            [*program, "serve", "--http", "--port", "0", *arguments],
            cwd=cwd,
            env=environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        self.log: list[str] = []
        for line in self.process.stderr:
            self.log.append(line.decode())
            if " at http://" in self.log[-1]:
                break
        else:
            raise AssertionError("".join(self.log))
        self.url = self.log[-1].split()[-1].removesuffix("/mcp")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        # The address is told once the port is taken; a call before the desk is open would wait in the backlog.
        httpx.get(f"{self.url}/healthz", timeout=60, trust_env=False, verify=PLAIN).raise_for_status()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            for line in self.process.stderr:
                self.log.append(line.decode())

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(20)
        self._reader.join()
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b"", "stdout is for data only"
        self.process.stdout.close()
        return status


def _header(text: str) -> str:
    """As the protocol has it for what cannot stand in a header."""
    return text if text.isascii() else f"=?base64?{base64.b64encode(text.encode()).decode()}?="


class HttpWire:
    def __init__(self, era: str, url: str, path: str = "/mcp") -> None:
        self.era = era
        self._ids = itertools.count(1)
        self._url = url + path
        self.http = httpx.Client(timeout=30, trust_env=False, verify=PLAIN)

    def headers(self, method: str, params: dict[str, Any] | None) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self.era}
        if self.era == MODERN:
            headers["Mcp-Method"] = method
            if name := (params or {}).get("name", (params or {}).get("uri")):
                headers["Mcp-Name"] = _header(str(name))
        return headers

    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": _params(self.era, params)}

    def post(self, method: str, params: dict[str, Any] | None = None) -> httpx.Response:
        body = json.dumps(self.message(method, params)).encode()
        headers = self.headers(method, params) | {"Content-Type": "application/json"}
        return self.http.post(self._url, content=body, headers=headers)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self.post(method, params)
        assert response.headers["content-type"] == "application/json", response.text
        return response.json()

    def close(self) -> None:
        self.http.close()
