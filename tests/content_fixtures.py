"""The content servers as fixtures, one of each kind for the whole session: everything on them only reads.

A test module that needs them says `pytest_plugins = ["tests.content_fixtures"]`.
"""

from collections.abc import Iterator

import httpx
import pytest

from carrel.content.bundle.importer import import_content
from carrel.storage.admin import upgrade
from carrel.storage.database import locate
from tests.content_servers import ENGINES, KINDS, ContentServers, write_bundle
from tests.postgres import recreate_database
from tests.wire import Wire


@pytest.fixture(scope="session")
def content(
    tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, worker_id: str
) -> Iterator[ContentServers]:
    folder = tmp_path_factory.mktemp("content")
    urls = {
        "sqlite": "sqlite:///content.db",
        "postgres": recreate_database(postgres_server_url, f"carrel_content_{worker_id}"),
    }
    for url in urls.values():
        location = locate(url, folder)
        upgrade(location)
        import_content(location, [write_bundle(folder)])
    servers = ContentServers(folder, urls)
    yield servers
    servers.close()


@pytest.fixture(params=KINDS, ids="-".join)
def catalog(request: pytest.FixtureRequest, content: ContentServers) -> Wire:
    """Each test that asks for this calls the catalog over every engine, transport and protocol revision."""
    return content.wire("catalog", *request.param)


@pytest.fixture(params=KINDS, ids="-".join)
def bridge(request: pytest.FixtureRequest, content: ContentServers) -> Wire:
    return content.wire("bridge", *request.param)


@pytest.fixture(params=ENGINES)
def api(request: pytest.FixtureRequest, content: ContentServers) -> httpx.Client:
    """The backend itself, over each engine."""
    return content.api(request.param)
