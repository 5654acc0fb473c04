"""Arguments of millions of characters, for every tool, prompt and resource: nobody else waits for any of them."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks import lag_probe

from tests.fuzz_targets import Target, desk, served
from tests.fuzzer import Place
from tests.lags import MAX_LAG_MS, lag_of_retried
from tests.wire import ERAS, MODERN, HttpWire, call, value

TEXTS = {
    "marks to put in order": "a" + "\u0301\u0327" * 300_000,
    "names of a path": "a/" * 1_500_000,
    "parents": "../" * 1_000_000,
    "per cents": "%_\\" * 700_000,
    "brackets": "[" * 3_000_000,
    "capitals that grow": "\u0130" * 600_000,
}


@pytest.fixture(scope="module")
def lags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lags") / "lags"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, lags: Path) -> Iterator[Target]:
    folder = desk(tmp_path_factory.mktemp("arguments") / "desk", provider="bundled")
    with served(folder, program=lag_probe.command(lags)) as running:
        yield running


def ids(target: Target) -> dict[str, str]:
    """Of a project that has entities, and of one of them."""
    wire = HttpWire(MODERN, target.server.url, "/bridge/mcp")
    for project in value(call(wire, "list_projects", {}))["data"]:
        if found := value(call(wire, "search_entities", {"projectId": project["id"]}))["data"]:
            wire.close()
            return {"projectId": project["id"], "entityId": found[0]["id"]}
    raise AssertionError("no project has entities")


def arguments_of(place: Place, known: dict[str, str]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Each tool with each of its arguments that are text, which are one of the texts each; the others are in order."""
    for tool in place.tools:
        schema = tool["inputSchema"]
        properties: dict[str, Any] = schema["properties"]
        others = {name: known.get(name) or _ordinary(properties[name]) for name in schema.get("required", ())}
        for name, kind in properties.items():
            if kind.get("type") in ("string", "array"):
                given = [[text] if kind["type"] == "array" else text for text in TEXTS.values()]
                yield tool["name"], name, [others | {name: each} for each in given]


def _ordinary(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    return ["abc"] if schema["type"] == "array" else "abc"


@pytest.mark.rule("common.input.nobody_waits")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_argument_of_a_tool_holds_up_another_caller(target: Target, lags: Path) -> None:
    known = ids(target)
    for place in target.places:
        wire = HttpWire(MODERN, target.server.url, place.path)
        for tool, name, several in arguments_of(place, known) if place.path != "/mcp" else ():

            def work(wire: HttpWire = wire, tool: str = tool, several: list[dict[str, Any]] = several) -> None:
                for each in several:
                    call(wire, tool, each)

            found = lag_of_retried(lags, work)
            assert found.own_ms < MAX_LAG_MS, (tool, name, found)
        wire.close()


@pytest.mark.rule("common.input.nobody_waits")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", TEXTS)
def test_no_name_or_address_holds_up_another_caller(target: Target, lags: Path, kind: str) -> None:
    text = TEXTS[kind]
    wire = HttpWire(ERAS[-1], target.server.url, "/mcp")
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": text, "arguments": {}}),
        ("tools/call", {"name": "get_node", "arguments": {text: 1}}),
        ("tools/list", {"cursor": text}),
        ("resources/list", {"cursor": text}),
        ("resources/read", {"uri": f"note://{text}"}),
        ("prompts/get", {"name": text}),
        ("prompts/get", {"name": "explain_module", "arguments": {"module": text}}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "note://{+id}"},
                "argument": {"name": "id", "value": text},
            },
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "explain_module"},
                "argument": {"name": "module", "value": text},
            },
        ),
    ]
    for method, params in requests:
        found = lag_of_retried(lags, partial(wire.post, method, params))
        assert found.own_ms < MAX_LAG_MS, (method, json.dumps(params)[:100], found)
    wire.close()
