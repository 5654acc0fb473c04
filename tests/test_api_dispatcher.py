"""The short way to a route of the backend API, beside FastAPI's own: whatever is asked, both answer the same."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from carrel.api import build_api
from carrel.content.bundle.importer import import_content
from carrel.errors import StoreTimeout
from carrel.storage.database import Database
from carrel.storage.schema_version import open_database
from tests.content_seed import ALPHA, BETA, FOREIGN, GAMMA, NOWHERE, ROOT
from tests.content_servers import write_bundle
from tests.databases import prepare_sqlite

pytestmark = [pytest.mark.anyio, pytest.mark.no_cover]  # coverage makes it several times slower, and it adds none

REQUESTS = 1500
PATHS = [
    *("/api/projects", "/api/entities", "/api/seo/search-performance", "/api/quotable-blocks"),
    *(
        f"/api/entities/{entity}{rest}"
        for entity in (ROOT, ROOT.upper(), FOREIGN, NOWHERE, "x")
        for rest in ("", "/graph")
    ),
    *("/api/entities/", f"/api/entities/{ROOT}%0A", "/api/projects%0A", "/api/other", "/api/openapi.json"),
]
NAMES = [
    *("page", "limit", "entityType", "status", "conceptKind", "search", "depth", "relationshipTypes", "query"),
    *("pageUrl", "entityId", "dateStart", "dateEnd", "claimType", "topicTag", "verifiedUntilBefore", "other"),
]
VALUES = [
    *("", "1", "2", "+1", "1.0", "0", "101", "guide", "draft", "model", "a", "é\0", "GUIDE_USES_CONCEPT, "),
    *(ROOT, "2026-01-01", "2025-13-01", "statistic", "\ud800"),
]
HEADERS = {
    "x-project-id": [ALPHA, GAMMA.upper(), NOWHERE, "", "x"],
    "x-project-slug": ["alpha", "none", "", "\xe9"],
    "x-carrel-projects": ["alpha,beta", BETA, ",", "%C3%A9", ""],
    "cookie": [f"projectId={ALPHA}", "projectId=x", "projectId=", "a=b"],
    "if-none-match": ["*", '"x"'],
}
METHODS = ["GET"] * 20 + ["HEAD", "POST", "OPTIONS"]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    location = prepare_sqlite(tmp_path / "content.db")
    import_content(location, [write_bundle(tmp_path)])
    opened = await open_database(location, pool_size=1)
    yield opened
    await opened.close()


def requests(number: int) -> list[httpx.Request]:
    choose = random.Random(18)
    return [_request(choose) for _ in range(number)]


def _request(choose: random.Random) -> httpx.Request:
    pairs = [(choose.choice(NAMES), choose.choice(VALUES)) for _ in range(choose.choice((0, 0, 1, 1, 2, 4)))]
    query = urlencode(pairs, errors="surrogatepass")
    names = choose.sample(sorted(HEADERS), choose.choice((0, 1, 1, 2, 3)))
    headers = [(name.encode(), choose.choice(HEADERS[name]).encode("latin-1")) for name in names]
    return httpx.Request(choose.choice(METHODS), f"http://backend{choose.choice(PATHS)}?{query}", headers=headers)


async def test_both_ways_answer_every_request_alike(database: Database) -> None:
    api = build_api(database, default_project=GAMMA)
    short, long = (httpx.ASGITransport(each) for each in (api, api.app))
    statuses: set[int] = set()
    for request in requests(REQUESTS):
        one, other = [await transport.handle_async_request(request) for transport in (short, long)]
        await one.aread()
        await other.aread()
        about = f"{request.method} {request.url} {request.headers}"
        assert (one.status_code, one.headers.raw) == (other.status_code, other.headers.raw), about
        assert one.content == other.content, about
        statuses.add(one.status_code)
    assert statuses >= {200, 400, 404, 405}


@pytest.mark.parametrize("error", [StoreTimeout("too long"), RuntimeError("secret")], ids=["timeout", "unforeseen"])
async def test_what_goes_wrong_inside_is_worded_alike(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(database, "snapshot", failing)
    api = build_api(database, default_project=GAMMA)
    answers: list[tuple[int, bytes]] = []
    for app in (api, api.app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://backend") as client:
            found = await client.get("/api/entities")
            answers.append((found.status_code, found.content))
    assert answers[0] == answers[1]
    assert answers[0][0] == 500
    assert b"secret" not in answers[0][1]
    assert len(caplog.records) == 2
    assert caplog.records[0].getMessage() == caplog.records[1].getMessage()
