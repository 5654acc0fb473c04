"""The backend's OpenAPI description is true: schemathesis makes requests from it and holds the answers against it."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.content_seed import GAMMA, ROOT
from tests.content_servers import ENGINES, ContentServers

pytest_plugins = ["tests.content_fixtures"]

ROUTES = [
    "/api/projects",
    "/api/entities",
    "/api/entities/{entityId}",
    "/api/entities/{entityId}/graph",
    "/api/seo/search-performance",
    "/api/quotable-blocks",
]


@pytest.mark.rule("bridge.api.openapi")
def test_every_route_is_described_and_nothing_else(api: httpx.Client) -> None:
    described = api.get("/api/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    assert list(described["paths"]) == ROUTES
    assert all(list(operations) == ["get"] for operations in described["paths"].values())


@pytest.mark.no_cover  # coverage makes it several times slower, and it adds none
@pytest.mark.rule("bridge.api.openapi")
def test_requests_made_from_the_description_are_answered_as_it_says_on_both_engines(content: ContentServers) -> None:
    urls = [content.http(engine).url for engine in ENGINES]
    done = subprocess.run(
        [sys.executable, "-m", "tests.api_requests", GAMMA, ROOT, "", *urls],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines() == [f"GET {route}" for route in ROUTES]
