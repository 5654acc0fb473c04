"""Generated requests against both engines and a slow model of the contracts: three times the same answer."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from tests.content_desks import CALLER, Desks, get, open_backends, open_desks
from tests.reference.bridge import BridgeModel
from tests.reference.catalog import CatalogModel
from tests.reference.changes import change, merge
from tests.reference.generate import DEFAULT_PROJECT, Bundle, generate
from tests.reference.model import Value, World
from tests.reference.requests import Asker

pytestmark = [pytest.mark.anyio, pytest.mark.no_cover]  # coverage makes it several times slower, and it adds none

SEED = 20_260
ROUNDS = range(4)
CALLS = 500
CHANGED_CALLS = 150
REQUESTS = 250
LANDMARKS = ("hub", " nodes", "edges at depth 2", " relations")
NOBODY = "00000000-0000-4000-a000-00000000ffff"
LISTS = (
    ("catalog", "search_entities"),
    ("bridge", "search_entities"),
    ("bridge", "list_search_performance"),
    ("bridge", "list_quotable_blocks"),
)
INVALID = ("VALIDATION_ERROR", "BAD_REQUEST")


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return generate(SEED)


@pytest.fixture(scope="module")
async def desks(
    bundle: Bundle, tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, worker_id: str
) -> AsyncIterator[Desks]:
    folder = tmp_path_factory.mktemp("differential")
    name = f"differential_{worker_id}"
    async with open_desks(bundle, folder=folder, postgres_server_url=postgres_server_url, name=name) as desks:
        yield desks


def check(asked: Any, expected: Value, texts: dict[str, str]) -> None:
    """The engines word everything alike; the model leaves it to them how to say what is wrong with a request."""
    assert texts["sqlite"] == texts["postgres"], asked
    text = texts["sqlite"]
    if (code := expected.get("error", {}).get("code")) in INVALID:
        assert json.loads(text)["error"]["code"] == code, asked
    else:
        assert text == to_json(expected).decode(), asked


async def compare(
    desks: Desks, bundle: Bundle, toolset: str, asker: Asker, calls: int, *, only: str | None = None
) -> None:
    """So many calls; of one tool only, if one is named."""
    model = {"catalog": CatalogModel, "bridge": BridgeModel}[toolset](World(bundle))
    pipelines = {engine: desk.pipeline(toolset) for engine, desk in desks.items()}
    for _ in range(calls):
        tool, arguments = asker.call(toolset, only)
        answers = {engine: await each.call(tool, dict(arguments), CALLER) for engine, each in pipelines.items()}
        expected = model.call(tool, arguments)
        assert {each.is_error for each in answers.values()} == {"error" in expected}, (tool, arguments)
        check((tool, arguments), expected, {engine: each.text for engine, each in answers.items()})


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("toolset", ["catalog", "bridge"])
@pytest.mark.rule("catalog.limits.deterministic")
async def test_both_engines_and_the_model_answer_alike(desks: Desks, bundle: Bundle, toolset: str, number: int) -> None:
    await compare(desks, bundle, toolset, Asker(bundle, SEED + number), CALLS)


@pytest.mark.parametrize("toolset", ["catalog", "bridge"])
async def test_the_hub_and_every_graph_at_a_limit_are_answered_alike(
    desks: Desks, bundle: Bundle, toolset: str
) -> None:
    model = {"catalog": CatalogModel, "bridge": BridgeModel}[toolset](World(bundle))
    roots = {row["title"]: row for row in bundle["entities"] if row["title"].endswith(LANDMARKS)}
    assert len(roots) == 7
    cut: list[bool] = []
    for root in roots.values():
        for depth in (1, 2):
            asked = {"projectId": root["projectId"], "entityId": root["id"], "depth": depth}
            texts = {
                engine: (await desk.pipeline(toolset).call("get_entity_graph", asked, CALLER)).text
                for engine, desk in desks.items()
            }
            expected = model.call("get_entity_graph", asked)
            check(asked, expected, texts)
            cut.append("truncated" in expected.get("data", expected))
    assert {True, False} == set(cut)


@pytest.mark.parametrize("toolset", ["catalog", "bridge"])
@pytest.mark.parametrize("cost", [0, 1], ids=["hub", "some hubs"])
async def test_graphs_are_cut_alike_wherever_the_limits_are(
    desks: Desks, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, toolset: str, cost: int
) -> None:
    """With limits so low that most graphs meet them, and with most entities taken for a hub."""
    for nodes, edges, relations in ((2, 1, 3), (5, 9, 7), (12, 15, 40)):
        for module, name, value in (
            ("carrel.content.entity_graph", "MAX_NODES", nodes),
            ("carrel.content.entity_graph", "MAX_EDGES", edges),
            ("carrel.content.relationships", "MAX_RELATIONSHIPS", relations),
            ("carrel.content.relationships", "NEIGHBOR_COST_ROWS", cost),
            ("tests.reference.catalog", "NODES_LIMIT", nodes),
            ("tests.reference.catalog", "EDGES_LIMIT", edges),
            ("tests.reference.bridge", "RELATIONS_LIMIT", relations),
        ):
            monkeypatch.setattr(f"{module}.{name}", value)
        await compare(desks, bundle, toolset, Asker(bundle, SEED + nodes), 40, only="get_entity_graph")


@pytest.mark.parametrize("back", [False, True], ids=["once", "and back again"])
async def test_content_that_was_changed_is_answered_alike(
    bundle: Bundle, tmp_path: Path, postgres_server_url: str, worker_id: str, back: bool
) -> None:
    """Whatever is counted or kept twice, so that reads are quick, follows every change of what it was made from."""
    changes = change(bundle, SEED + 1)
    world, imported = merge(bundle, changes), [bundle, changes]
    if back:
        world, imported = merge(world, bundle), [*imported, bundle]
    name = f"changed_{worker_id}"
    async with open_desks(*imported, folder=tmp_path, postgres_server_url=postgres_server_url, name=name) as desks:
        for toolset in ("catalog", "bridge"):
            await compare(desks, world, toolset, Asker(world, SEED + back), CHANGED_CALLS)


@pytest.mark.parametrize(("few", "first"), [(0, 0), (0, 20), (5, 3), (2000, 0)])
@pytest.mark.rule("content.substring.ways")
async def test_a_substring_search_is_answered_alike_whichever_way_it_goes(
    bundle: Bundle,
    tmp_path: Path,
    postgres_server_url: str,
    worker_id: str,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    first: int,
) -> None:
    """By the trigram index, among the first rows, or by a scan."""
    monkeypatch.setattr("carrel.content.pagination.MAX_CANDIDATE_ROWS", few)
    monkeypatch.setattr("carrel.content.pagination.PREFIX_ROWS", first)
    changes = change(bundle, SEED + 2)
    world, name = merge(bundle, changes), f"substrings_{worker_id}"
    async with open_desks(
        bundle, changes, folder=tmp_path, postgres_server_url=postgres_server_url, name=name
    ) as desks:
        for toolset, tool in LISTS:
            await compare(desks, world, toolset, Asker(world, SEED), CHANGED_CALLS // 2, only=tool)


@pytest.mark.parametrize("default_project", [DEFAULT_PROJECT, "", NOBODY], ids=["default", "no default", "made up"])
async def test_the_backend_answers_as_the_model_does(desks: Desks, bundle: Bundle, default_project: str) -> None:
    """Whatever names the project, and whatever else stands in the query."""
    model = BridgeModel(World(bundle), default_project or None)
    asker = Asker(bundle, SEED)
    async with open_backends(desks, default_project) as backends:
        for _ in range(REQUESTS):
            request = asker.get()
            asked = (request.path, request.query, request.headers, request.cookies)
            answers = {engine: await get(client, *asked) for engine, client in backends.items()}
            status, expected = model.get(*asked)
            assert {answer[0] for answer in answers.values()} == {status}, request
            check(request, expected, {engine: answer[1] for engine, answer in answers.items()})


async def test_a_tool_answers_what_the_backend_does(desks: Desks, bundle: Bundle) -> None:
    """Byte for byte, for calls that reach the backend."""
    asker = Asker(bundle, SEED)
    pipelines = {engine: desk.pipeline("bridge") for engine, desk in desks.items()}
    async with open_backends(desks) as backends:
        for _ in range(REQUESTS):
            tool, arguments, request = asker.both()
            for engine, pipeline in pipelines.items():
                answer = await pipeline.call(tool, arguments, CALLER)
                assert (await get(backends[engine], request.path, request.query, request.headers))[1] == answer.text
