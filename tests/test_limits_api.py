"""Requests at `/api` are limited as the bridge's tools are, which ask it for the same."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from carrel.api import call_name
from carrel.api.routes import router
from carrel.content.bundle.importer import import_content
from carrel.mcp.limits import CallLimits, RateLimiter
from carrel.mcp.limits.request_limits import RateLimitMiddleware
from carrel.storage.database import locate
from carrel.toolsets.bridge.toolset import ROUTES
from tests.content_seed import GAMMA
from tests.content_servers import write_bundle
from tests.databases import prepare_sqlite
from tests.wire import MODERN, PLAIN, HttpServer, HttpWire, call, value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("api")
    url = f"sqlite:///{prepare_sqlite(folder / '.carrel' / 'carrel.db').path}"
    import_content(locate(url, folder), [write_bundle(folder)])
    limits = {"CARREL_LIMITS_TOOLS": "search_entities=4,api=1,page=1", "CARREL_AUDIT_TO": "log"}
    server = HttpServer("--toolsets", "bridge", cwd=folder, **limits)
    yield server
    assert server.stop() == 143


@pytest.mark.rule("limits.api.rates", "limits.api.refusal", "limits.api.page")
def test_a_request_counts_as_the_tool_does_and_the_tool_counts_once(server: HttpServer) -> None:
    wire = HttpWire(MODERN, server.url)
    api = httpx.Client(base_url=server.url, headers={"x-project-id": GAMMA}, trust_env=False, verify=PLAIN)
    for _ in range(2):
        assert not call(wire, "search_entities", {"projectId": GAMMA})["isError"]
        assert api.get("/api/entities").status_code == 200
    refused = api.get("/api/entities")
    seconds = int(refused.headers["retry-after"])
    message = f"Rate limit exceeded for search_entities; try again in {seconds} seconds"
    assert (refused.status_code, refused.json()) == (429, {"error": {"code": "FORBIDDEN", "message": message}})
    assert refused.headers["content-type"] == "application/json"
    assert 50 <= seconds <= 60
    asked = call(wire, "search_entities", {"projectId": GAMMA})
    assert value(asked)["error"]["code"] == "FORBIDDEN", "they are counted together"
    assert api.get("/api/projects").status_code == 200, "each route has its own"
    assert [api.get(f"/api/{each}").status_code for each in ("nothing", "openapi.json")] == [404, 429]
    metrics = httpx.get(f"{server.url}/metrics", trust_env=False, verify=PLAIN).text
    assert 'carrel_refusals_total{reason="limited"} 2.0' in metrics
    deadline = time.monotonic() + 10
    while len(lines := [json.loads(each) for each in list(server.log) if '"carrel.audit"' in each]) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    told = [(each["action"], each["client"], each["outcome"]) for each in lines]
    assert told == [(each, "127.0.0.1", "limited") for each in ("search_entities", "search_entities", "api")]
    shown = [api.get("/page/data/desk") for _ in range(2)]
    assert [each.status_code for each in shown] == [200, 429]
    assert shown[1].json()["error"]["message"].startswith("Rate limit exceeded for page;")
    api.close()
    wire.close()


@pytest.mark.rule("limits.api.rates")
def test_every_route_is_known_by_the_tool_that_asks_for_the_same() -> None:
    assert {call_name(route.replace("{entityId}", GAMMA)): route for route in _routes()}.keys() == ROUTES.keys()
    assert call_name("/api/other") == "api"


def _routes() -> list[str]:
    return [each.path for each in router.routes if isinstance(each, APIRoute)]


# --- at once


def scope_of(path: str) -> Scope:
    return {"type": "http", "path": path, "client": ("192.0.2.1", 1), "headers": []}


async def answer(app: RateLimitMiddleware, path: str, gate: asyncio.Event | None = None) -> int:
    """The status; `gate` is waited for while the answer is sent, as by somebody who reads slowly."""
    statuses: list[int] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        if gate is not None and message["type"] == "http.response.body":
            await gate.wait()
        statuses.extend([message["status"]] if "status" in message else [])

    await app(scope_of(path), receive, send)
    return statuses[0]


@pytest.mark.anyio
@pytest.mark.rule("limits.api.concurrent")
async def test_requests_under_way_are_counted_until_their_answers_begin() -> None:
    go, read = asyncio.Event(), asyncio.Event()
    limits = CallLimits(RateLimiter(0), concurrent=2)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/broken":
            raise RuntimeError
        await go.wait()
        await PlainTextResponse("done")(scope, receive, send)

    def refuse(_scope: Scope, _name: str, _seconds: int) -> Response:
        return PlainTextResponse("", 429)

    limited = RateLimitMiddleware(app, limits, name_of=str, refuse=refuse)
    slow: list[Any] = [asyncio.create_task(answer(limited, "/slow", read)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await answer(limited, "/other") == 429
    go.set()
    for _ in range(3):
        await asyncio.sleep(0)
    assert await answer(limited, "/other") == 200, "who reads slowly has nothing under way"
    read.set()
    assert await asyncio.gather(*slow) == [200, 200]
    with pytest.raises(RuntimeError):
        await answer(limited, "/broken")
    assert limits._in_flight == {}
