"""Which toolsets are served, where two of them have tools of the same name."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.content_seed import ALPHA
from tests.content_servers import ENGINES, ContentServers, ok
from tests.program import misused, run_carrel, run_carrel_here
from tests.wire import ERAS, MODERN, HttpServer, HttpWire, StdioWire, Wire

pytest_plugins = ["tests.content_fixtures"]

COLLIDING = ["list_projects", "search_entities", "get_entity", "get_entity_graph"]
BRIDGE = [*COLLIDING, "list_search_performance", "list_quotable_blocks"]
TASKS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]


def tools(wire: Wire) -> list[str]:
    return [tool["name"] for tool in wire.request("tools/list")["result"]["tools"]]


def is_bridge(wire: Wire) -> bool:
    """Whether search_entities is the bridge's, by its schema and by its answer."""
    found = {tool["name"]: tool for tool in wire.request("tools/list")["result"]["tools"]}["search_entities"]
    published = "conceptKind" in found["inputSchema"]["properties"]
    arguments: dict[str, Any] = {} if published else {"query": "a"}
    assert ("data" in ok(wire, "search_entities", projectId=ALPHA, **arguments)) is published
    return published


def served(server: HttpServer, path: str) -> list[str]:
    wire = HttpWire(MODERN, server.url, path)
    found = tools(wire)
    wire.close()
    return found


def is_missing(server: HttpServer, path: str) -> bool:
    return httpx.post(f"{server.url}{path}", json={}, trust_env=False).status_code == 404


# --- both at once


@pytest.mark.rule("common.toolsets.collision_stdio")
@pytest.mark.parametrize("named", ["catalog,bridge", "bridge,catalog", "tasks,bridge,catalog"])
@pytest.mark.parametrize("engine", ENGINES)
def test_on_stdio_naming_both_is_refused_with_the_tools_that_collide(
    content: ContentServers, engine: str, named: str
) -> None:
    words = ("serve", "--toolsets", named, "--database", content.urls[engine])
    done = run_carrel_here(*words, cwd=content.folder)
    misused(done, "server.toolsets", "catalog", "bridge", *COLLIDING)
    assert "list_quotable_blocks" not in done.stderr


@pytest.mark.rule("common.toolsets.collision_stdio")
def test_the_settings_cannot_name_both_on_stdio_either(content: ContentServers, tmp_path: Path) -> None:
    (tmp_path / "carrel.toml").write_text('[server]\ntoolsets = ["catalog", "bridge"]\n', encoding="utf-8")
    url = f"sqlite:///{content.folder}/content.db"
    misused(run_carrel("serve", "--database", url, cwd=tmp_path), *COLLIDING)


@pytest.mark.rule("common.toolsets.nothing_stdio")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("engine", ENGINES)
def test_on_stdio_naming_nothing_leaves_the_catalog_out(content: ContentServers, engine: str, era: str) -> None:
    wire = StdioWire(era, "--database", content.urls[engine], cwd=content.folder)
    assert [name for name in tools(wire) if name in [*BRIDGE, *TASKS]] == [*BRIDGE, *TASKS]
    assert is_bridge(wire)
    wire.close()


@pytest.mark.rule("common.toolsets.nothing_http", "common.toolsets.endpoints")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("engine", ENGINES)
def test_on_http_naming_nothing_each_is_at_its_own_endpoint(content: ContentServers, engine: str, era: str) -> None:
    url = content.http(engine).url
    wires = {path: HttpWire(era, url, path) for path in ("/mcp", "/bridge/mcp", "/catalog/mcp", "/tasks/mcp")}
    assert [name for name in tools(wires["/mcp"]) if name in [*BRIDGE, *TASKS]] == [*BRIDGE, *TASKS]
    assert is_bridge(wires["/mcp"])
    assert (tools(wires["/bridge/mcp"]), is_bridge(wires["/bridge/mcp"])) == (BRIDGE, True)
    assert (tools(wires["/catalog/mcp"]), is_bridge(wires["/catalog/mcp"])) == (COLLIDING, False)
    assert tools(wires["/tasks/mcp"]) == TASKS
    for wire in wires.values():
        wire.close()


@pytest.mark.rule("common.toolsets.nothing_http", "common.toolsets.chosen")
@pytest.mark.parametrize("named", ["catalog,bridge", "bridge,catalog"])
def test_on_http_naming_both_gives_mcp_to_the_bridge(content: ContentServers, named: str) -> None:
    server = HttpServer("--toolsets", named, "--database", content.urls["sqlite"], cwd=content.folder)
    wire = HttpWire(MODERN, server.url)
    assert (tools(wire), is_bridge(wire)) == (BRIDGE, True)
    wire.close()
    assert served(server, "/catalog/mcp") == COLLIDING
    assert served(server, "/bridge/mcp") == BRIDGE
    assert is_missing(server, "/tasks/mcp")
    assert server.stop() == 143


@pytest.mark.rule("common.toolsets.chosen")
@pytest.mark.parametrize(("named", "expected"), [("catalog", COLLIDING), ("bridge", BRIDGE)])
def test_one_alone_is_at_mcp_and_the_other_nowhere(content: ContentServers, named: str, expected: list[str]) -> None:
    other = {"catalog": "bridge", "bridge": "catalog"}[named]
    server = HttpServer("--toolsets", named, "--database", content.urls["sqlite"], cwd=content.folder)
    wire = HttpWire(MODERN, server.url)
    assert (tools(wire), is_bridge(wire)) == (expected, named == "bridge")
    wire.close()
    assert served(server, f"/{named}/mcp") == expected
    assert is_missing(server, f"/{other}/mcp")
    assert server.stop() == 143


@pytest.mark.rule("common.toolsets.read_only")
def test_read_only_leaves_the_content_tools(content: ContentServers) -> None:
    wire = StdioWire(MODERN, "--read-only", "--database", content.urls["sqlite"], cwd=content.folder)
    assert [name for name in tools(wire) if name in [*BRIDGE, *TASKS]] == [*BRIDGE, "list_tasks"]
    wire.close()


# --- neither


@pytest.mark.rule("common.toolsets.unconfigured")
def test_without_content_neither_is_exposed(tmp_path: Path) -> None:
    wire = StdioWire(MODERN, cwd=tmp_path)
    assert set(tools(wire)).isdisjoint(BRIDGE)
    assert wire.request("tools/call", {"name": "list_projects", "arguments": {}})["error"]["code"] == -32602
    wire.close()
    server = HttpServer(cwd=tmp_path)
    assert set(served(server, "/mcp")).isdisjoint(BRIDGE)
    assert is_missing(server, "/catalog/mcp")
    assert is_missing(server, "/bridge/mcp")
    assert server.stop() == 143


@pytest.mark.rule("common.toolsets.named_unconfigured")
@pytest.mark.parametrize("words", [[], ["--http", "--port", "0"]], ids=["stdio", "http"])
@pytest.mark.parametrize("named", ["catalog", "bridge", "tasks,bridge"])
def test_naming_one_without_content_says_what_is_missing(tmp_path: Path, named: str, words: list[str]) -> None:
    done = run_carrel_here("serve", *words, "--toolsets", named, cwd=tmp_path)
    misused(done, "server.toolsets", named.rpartition(",")[2], "carrel import content")
    if "bridge" in named:
        assert "content.backend_url" in done.stderr


@pytest.mark.rule("common.toolsets.unconfigured")
def test_a_backend_elsewhere_is_configuration_enough_for_the_bridge(content: ContentServers, tmp_path: Path) -> None:
    url = content.http("sqlite").url
    wire = StdioWire(MODERN, cwd=tmp_path, CARREL_CONTENT_BACKEND_URL=url)
    assert [name for name in tools(wire) if name in BRIDGE] == BRIDGE
    assert is_bridge(wire)
    wire.close()
    misused(run_carrel("serve", "--toolsets", "catalog", cwd=tmp_path, CARREL_CONTENT_BACKEND_URL=url), "catalog")
