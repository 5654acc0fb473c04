"""The view of graphs: who is told of it and how, and that nobody else sees a difference."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from carrel.content.bundle.importer import import_content
from carrel.mcp.description import ServerDescription
from carrel.mcp.http_app import Endpoint
from carrel.mcp.messages import APPS_MIME_TYPE as MIME_TYPE
from carrel.mcp.messages import shows_views
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.sdk.apps_server import VIEW_META
from carrel.storage.database import SqliteLocation
from carrel.toolsets.views import GRAPH
from carrel.workspace import Desk, find_workspace
from tests.databases import prepare_desk
from tests.program import run_carrel_here
from tests.vaults import write
from tests.wire import CLIENT_INFO, ERAS, LEGACY, MODERN, HttpServer, HttpWire, StdioWire, Wire

URI = "ui://carrel/graph"
DRAWN = {"catalog": "get_entity_graph", "bridge": "get_entity_graph", "notes": "get_node"}
DECLARED = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [MIME_TYPE]}}}
NOT_DECLARED: list[dict[str, Any]] = [
    {},
    {"extensions": {}},
    {"extensions": {"io.modelcontextprotocol/ui": {}}},
    {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}},
    {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": MIME_TYPE}}},
]
NO_METHOD = -32601
BUNDLE = Path(__file__).parents[1] / "examples" / "content" / "bundle.json"
PROJECT = json.loads(BUNDLE.read_text(encoding="utf-8"))["projects"][0]
ENTITY = next(
    each["id"]
    for each in json.loads(BUNDLE.read_text(encoding="utf-8"))["entities"]
    if each["project"] == PROJECT["slug"]
)
GRAPH_CALL = {"name": "get_entity_graph", "arguments": {"projectId": PROJECT["id"], "entityId": ENTITY}}
CALLS = {
    "catalog": GRAPH_CALL,
    "bridge": GRAPH_CALL,
    "notes": {"name": "get_node", "arguments": {"id": "alpha.md", "depth": 1}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = prepare_desk(tmp_path_factory.mktemp("apps"))
    (folder / "carrel.toml").write_text('[embeddings]\nprovider = "none"\n', encoding="utf-8")
    write(folder / "notes", {"alpha.md": "[[beta]]", "beta.md": "The end."})
    import_content(SqliteLocation(folder / ".carrel" / "carrel.db"), [BUNDLE])
    return folder


# --- the same requests to a server with the view and to one without


@pytest.fixture
async def desk(folder: Path) -> AsyncIterator[Desk]:
    toolsets = {"server": {"toolsets": ["catalog", "bridge", "notes"]}}
    async with find_workspace(folder, toolsets, {}).open() as desk:
        yield desk


class Both:
    """Endpoints of one toolset: as it is, and without a view."""

    def __init__(self, stack: AsyncExitStack, *clients: httpx.AsyncClient) -> None:
        self.stack = stack
        self._clients = clients

    async def answers(self, era: str, method: str, params: Any, capabilities: Any) -> list[tuple[int, bytes]]:
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": era}
        if era == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            }
            params = {**params, "_meta": meta}
            headers["mcp-method"] = method
            if name := params.get("name", params.get("uri")):
                headers["mcp-name"] = name
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        responses = [await client.post("http://localhost/mcp", json=body, headers=headers) for client in self._clients]
        return [(response.status_code, response.content) for response in responses]


async def open_both(stack: AsyncExitStack, desk: Desk, name: str) -> Both:
    clients: list[httpx.AsyncClient] = []
    for toolset in (desk.toolsets[name], replace(desk.toolsets[name], views={})):
        pipeline = Pipeline([toolset], timeout=5)
        endpoint = Endpoint(ServerDescription(pipeline, version="1", instructions=""))
        await stack.enter_async_context(endpoint.run())
        clients.append(await stack.enter_async_context(httpx.AsyncClient(transport=httpx.ASGITransport(endpoint))))
    return Both(stack, *clients)


def opening(capabilities: Any) -> dict[str, Any]:
    return {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": CLIENT_INFO}


def requests(toolset: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("server/discover", {}),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/list", {"cursor": "note://alpha.md"}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": URI}),
        ("resources/read", {"uri": "note://alpha.md"}),
        ("resources/read", {}),
        ("tools/call", CALLS[toolset]),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("toolset", DRAWN)
@pytest.mark.rule("apps.others.unchanged", "apps.negotiation.eras")
async def test_whoever_declares_no_views_is_served_to_the_byte_as_if_there_were_none(desk: Desk, toolset: str) -> None:
    async with AsyncExitStack() as stack:
        both = await open_both(stack, desk, toolset)
        for capabilities in NOT_DECLARED:
            for method, params in requests(toolset):
                seen, expected = await both.answers(MODERN, method, params, capabilities)
                assert seen == expected, (method, capabilities)
        for capabilities in (*NOT_DECLARED, DECLARED):  # over HTTP nothing is known of a start any more
            seen, expected = await both.answers(LEGACY, "initialize", opening(capabilities), None)
            assert seen == expected, capabilities
        for method, params in requests(toolset):
            seen, expected = await both.answers(LEGACY, method, params, None)
            assert seen == expected, method


@pytest.mark.anyio
@pytest.mark.parametrize("toolset", DRAWN)
@pytest.mark.rule("apps.tools.named", "apps.tools.cached", "apps.others.results", "apps.resource.missing")
async def test_whoever_shows_views_gets_the_rest_as_it_is(desk: Desk, toolset: str) -> None:
    async with AsyncExitStack() as stack:
        both = await open_both(stack, desk, toolset)
        for method, params in requests(toolset):
            (status, seen), (_, expected) = await both.answers(MODERN, method, params, DECLARED)
            shown, plain = json.loads(seen), json.loads(expected)
            if method == "tools/list":
                assert (shown["result"].pop("cacheScope"), plain["result"].pop("cacheScope")) == ("private", "public")
                (tool,) = [each for each in shown["result"]["tools"] if "_meta" in each]
                assert (tool["name"], tool.pop("_meta")) == (DRAWN[toolset], {"ui": {"resourceUri": URI}})
            elif method == "server/discover":
                assert shown["result"]["capabilities"].pop("extensions") == {"io.modelcontextprotocol/ui": {}}
                plain["result"]["capabilities"].setdefault("resources", {})
            elif (method, params.get("uri")) == ("resources/read", URI):
                continue
            elif toolset != "notes" and method.startswith("resources/") and params:
                code = {"resources/read": -32602}.get(method)
                assert shown.get("error", {}).get("code") == code
                continue
            elif method == "resources/list" and not params:
                assert shown["result"]["resources"].pop(0)["uri"] == URI
                plain = {**plain, "result": plain.get("result", shown["result"])}
                plain.pop("error", None)
            elif method == "resources/templates/list" and toolset != "notes":
                assert shown["result"]["resourceTemplates"] == []
                continue
            else:
                assert seen == expected
            assert shown == plain, method
            assert status in (200, 400)


# --- real servers


class ShowingStdio(StdioWire):
    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return _declaring(self.era, super().message(method, params))


class ShowingHttp(HttpWire):
    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return _declaring(self.era, super().message(method, params))


def _declaring(era: str, message: dict[str, Any]) -> dict[str, Any]:
    if era == MODERN:
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = DECLARED
    elif message["method"] == "initialize":
        message["params"]["capabilities"] = DECLARED
    return message


def result(wire: Wire, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    response = wire.request(method, params)
    assert "result" in response, response
    return response["result"]


def check_view(wire: Wire) -> None:
    named = {tool["name"]: tool["_meta"] for tool in result(wire, "tools/list")["tools"] if "_meta" in tool}
    assert named
    assert set(named) <= set(DRAWN.values())
    assert all(meta == {"ui": {"resourceUri": URI}} for meta in named.values())
    listed = result(wire, "resources/list")["resources"][0]
    assert (listed["uri"], listed["name"], listed["mimeType"]) == (URI, "graph", MIME_TYPE)
    (page,) = result(wire, "resources/read", {"uri": URI})["contents"]
    assert (page["uri"], page["mimeType"], page["text"]) == (URI, MIME_TYPE, GRAPH.html)
    csp: dict[str, list[str]] = {f"{kind}Domains": [] for kind in ("connect", "resource", "frame", "baseUri")}
    assert page["_meta"] == listed["_meta"] == {"ui": {"csp": csp, "prefersBorder": True}}


def check_capabilities(opened: dict[str, Any]) -> None:
    assert opened["capabilities"]["extensions"] == {"io.modelcontextprotocol/ui": {}}
    assert "resources" in opened["capabilities"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("toolset", ["bridge", "notes"])
@pytest.mark.rule("apps.negotiation.declared", "apps.negotiation.eras", "apps.resource.read", "apps.resource.listed")
def test_a_host_over_stdio_finds_the_view_and_gets_the_same_results(folder: Path, era: str, toolset: str) -> None:
    wire = ShowingStdio(era, "--toolsets", toolset, cwd=folder)
    check_capabilities(wire.opened)
    check_view(wire)
    templates = result(wire, "resources/templates/list")["resourceTemplates"]
    assert [each["uriTemplate"] for each in templates] == (["note://{+id}"] if toolset == "notes" else [])
    answer = result(wire, "tools/call", CALLS[toolset])
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    assert "_meta" not in answer or "ui" not in answer["_meta"]
    if era == MODERN:  # what one request declares holds for no other
        plain = StdioWire.message(wire, "tools/list")
        wire.send(plain)
        assert not any("_meta" in tool for tool in wire.receive()["result"]["tools"])
    assert wire.close() == 0


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[HttpServer]:
    server = HttpServer("--toolsets", "bridge,catalog,notes,tasks", cwd=folder, CARREL_AUTH_TOKENS="true")
    yield server
    assert server.stop() == 143


def with_token(wire: HttpWire, folder: Path, scopes: str) -> HttpWire:
    words = ["token", "create", "--user", "ana", "--scopes", scopes, "--json"]
    token = json.loads(run_carrel_here(*words, cwd=folder).stdout)["token"]
    wire.http.headers["Authorization"] = f"Bearer {token}"
    return wire


@pytest.mark.rule("apps.negotiation.scopes", "apps.negotiation.declared")
def test_where_tokens_are_asked_for_the_view_is_there_with_a_tool_that_it_draws(
    folder: Path, guarded: HttpServer
) -> None:
    places = [("catalog:read", "/catalog/mcp"), ("content:read", "/mcp"), ("notes:read", "/mcp")]
    for scopes, path in places:
        wire = with_token(ShowingHttp(MODERN, guarded.url, path), folder, scopes)
        check_capabilities(result(wire, "server/discover"))
        check_view(wire)
        wire.close()
    for scopes in ("tasks", "notes:write"):
        wire = with_token(ShowingHttp(MODERN, guarded.url), folder, scopes)
        assert "extensions" not in result(wire, "server/discover")["capabilities"]
        assert not any("_meta" in tool for tool in result(wire, "tools/list")["tools"])
        assert wire.request("resources/read", {"uri": URI})["error"]["code"] == NO_METHOD
        wire.close()


@pytest.mark.parametrize("odd", [None, [], {"extensions": None}, {"extensions": {"io.modelcontextprotocol/ui": []}}])
def test_capabilities_of_any_shape_are_looked_at(odd: Any) -> None:
    assert not shows_views(odd)


# --- the page itself


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.rule("apps.page.alone")
def test_the_page_has_nothing_from_outside_and_makes_no_markup_of_text() -> None:
    text = GRAPH.html
    assert set(re.findall(r"\w+://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}
    makers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval|Function\(|setHTML|url\((?!#)"
    assert re.findall(makers, text) == []
    assert re.findall(r"fetch|XMLHttpRequest|WebSocket|sendBeacon|import|localStorage|cookie", text) == []
    page = _Page()
    page.feed(text)
    assert page.attributes.isdisjoint({"src", "href", "action", "onclick", "onload", "onerror"})
    assert all(not domains for domains in VIEW_META["ui"]["csp"].values())
    assert text.startswith("<!doctype html>")
    assert text.count("</script") == 1
