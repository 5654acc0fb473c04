"""Open desks over the same content, one on each engine."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import httpx

from carrel.api import build_api
from carrel.content.bundle.importer import import_content
from carrel.mcp.toolset import Caller
from carrel.storage.database import Location
from carrel.workspace import Desk, Workspace, find_workspace
from tests.databases import prepare_postgres, prepare_sqlite, url_of
from tests.reference.generate import DEFAULT_PROJECT, Bundle

CALLER = Caller(client="content-tests")

Desks = dict[str, Desk]


@asynccontextmanager
async def open_desks(*bundles: Bundle, folder: Path, postgres_server_url: str, name: str) -> AsyncGenerator[Desks]:
    """The bundles are imported one after the other. `name` is that of the databases: no other test may have it."""
    files = [folder / f"{name}-{number}.json" for number, _ in enumerate(bundles)]
    for file, bundle in zip(files, bundles, strict=True):
        file.write_text(json.dumps(bundle), encoding="utf-8")
    locations = {
        "sqlite": prepare_sqlite(folder / f"{name}.db"),
        "postgres": prepare_postgres(postgres_server_url, name),
    }
    async with AsyncExitStack() as stack:
        yield {
            engine: await stack.enter_async_context(_filled(folder, location, files).open())
            for engine, location in locations.items()
        }


def _filled(folder: Path, location: Location, files: list[Path]) -> Workspace:
    for file in files:
        import_content(location, [file])
    return find_workspace(
        folder, {"database": {"url": url_of(location)}, "server": {"toolsets": ["catalog", "bridge"]}}, {}
    )


@asynccontextmanager
async def open_backends(
    desks: Desks, default_project: str = DEFAULT_PROJECT
) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    """Clients of the backend API over the same databases, without a socket."""
    async with AsyncExitStack() as stack:
        clients: dict[str, httpx.AsyncClient] = {}
        for engine, desk in desks.items():
            assert desk.database is not None
            transport = httpx.ASGITransport(build_api(desk.database, default_project=default_project))
            client = httpx.AsyncClient(transport=transport, base_url="http://backend")
            clients[engine] = await stack.enter_async_context(client)
        yield clients


async def get(
    client: httpx.AsyncClient,
    path: str,
    query: list[tuple[str, str]],
    headers: dict[str, str] | None = None,
    cookies: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Status and body."""
    sent = [*(headers or {}).items(), *(("cookie", f"{name}={value}") for name, value in (cookies or {}).items())]
    response = await client.get(f"{path}?{urlencode(query)}" if query else path, headers=sent)
    assert response.headers["content-type"] == "application/json"
    return response.status_code, response.text
