"""Servers over the content of `content_seed`, and how they are called."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.content_seed import bundle
from tests.wire import ERAS, HttpServer, HttpWire, StdioWire, Wire, call, value

ENGINES = ("sqlite", "postgres")
KINDS = [(engine, transport, era) for engine in ENGINES for transport in ("stdio", "http") for era in ERAS]


def ok(wire: Wire, name: str, **arguments: Any) -> Any:
    result = call(wire, name, arguments)
    assert result.get("isError") in (False, None), result
    return value(result)


def text(wire: Wire, name: str, **arguments: Any) -> str:
    """The one text block, as it is."""
    (block,) = call(wire, name, arguments)["content"]
    return block["text"]


def error(wire: Wire, name: str, **arguments: Any) -> Any:
    """The error object; that it is one, and that it comes with nothing else, is checked on the way."""
    result = call(wire, name, arguments)
    assert result["isError"] is True, result
    assert "structuredContent" not in result
    found = value(result)
    assert list(found) == ["error"]
    return found["error"]


def compact(found: Any) -> str:
    """A value as the text that Carrel makes of it: the order of keys counts."""
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def same_schema(published: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal, with every list of properties in the same order; the keywords of the root may come in another one."""
    assert published == expected
    assert json.dumps(published["properties"]) == json.dumps(expected["properties"])


def write_bundle(folder: Path) -> Path:
    path = folder / "bundle.json"
    path.write_text(json.dumps(bundle()), encoding="utf-8")
    return path


class ContentServers:
    def __init__(self, folder: Path, urls: dict[str, str]) -> None:
        self.folder = folder
        self.urls = urls
        self._http: dict[str, HttpServer] = {}
        self._wires: dict[tuple[str, ...], StdioWire | HttpWire] = {}
        self._apis: dict[str, httpx.Client] = {}

    def http(self, engine: str) -> HttpServer:
        if engine not in self._http:
            self._http[engine] = HttpServer("--database", self.urls[engine], cwd=self.folder)
        return self._http[engine]

    def wire(self, toolset: str, engine: str, transport: str, era: str) -> Wire:
        if (key := (toolset, engine, transport, era)) not in self._wires:
            if transport == "stdio":
                words = ("--toolsets", toolset, "--database", self.urls[engine])
                self._wires[key] = StdioWire(era, *words, cwd=self.folder)
            else:
                self._wires[key] = HttpWire(era, self.http(engine).url, f"/{toolset}/mcp")
        return self._wires[key]

    def api(self, engine: str) -> httpx.Client:
        """A client of the backend; it keeps no cookies, since nothing sets any."""
        if engine not in self._apis:
            self._apis[engine] = httpx.Client(base_url=self.http(engine).url, timeout=30, trust_env=False)
        return self._apis[engine]

    def close(self) -> None:
        for each in [*self._wires.values(), *self._apis.values()]:
            each.close()
        for server in self._http.values():
            assert server.stop() == 143
