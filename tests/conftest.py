"""What the tests stand on: a real database of each engine, and servers of each kind over it."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from carrel.storage.admin import upgrade
from carrel.storage.database import Database, PostgresLocation, SqliteLocation, locate
from carrel.storage.schema_version import open_database
from tests import programs
from tests.databases import prepare_sqlite
from tests.postgres import PostgresServer, recreate_database
from tests.wire import ERAS, HttpServer, HttpWire, StdioWire, Wire

POSTGRES_VARIABLE = "TEST_DATABASE_URL"
ENGINES = ("sqlite", "postgres")
OTHER_TABLES = (
    "discovery",
    "session_summary",
    "file_access",
    "file_access_writer",
    "call_tally",
    "access_token",
    "audit_line",
    "rate_window",
)

settings.register_profile(
    "carrel",
    deadline=None,
    derandomize="CI" in os.environ,  # what lands is judged by the same examples every time; at a desk they vary
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("carrel")

_started: list[PostgresServer] = []


def pytest_configure(config: pytest.Config) -> None:
    """Where tests run in parallel, one server is started for all of them."""
    parallel = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if parallel and POSTGRES_VARIABLE not in os.environ:
        os.environ[POSTGRES_VARIABLE] = _start_server()


def pytest_unconfigure() -> None:
    for server in _started:
        server.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """The very last lines say which programs were missing: around the hook of the terminal's own summary."""
    yield
    terminal: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        skipped: list[pytest.TestReport] = terminal.stats.get("skipped", [])
        reasons = (report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple))
        for line in programs.summary(reasons):
            terminal.write_line(line)


def _start_server() -> str:
    _started.append(PostgresServer())
    return _started[-1].url()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server_url() -> str:
    return os.environ.get(POSTGRES_VARIABLE) or _start_server()


@pytest.fixture(scope="session")
def postgres_url(postgres_server_url: str, worker_id: str) -> str:
    """A database of this worker's own, its schema in place."""
    url = recreate_database(postgres_server_url, f"carrel_{worker_id}")
    upgrade(PostgresLocation(url))
    return url


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest) -> str:
    """Each test that asks for this runs once on each engine, on an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/carrel.db"
    url: str = request.getfixturevalue("postgres_url")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM task")
        connection.execute("DELETE FROM project")  # and with it all content
        for table in OTHER_TABLES:
            connection.execute(f"DELETE FROM {table}".encode())
        connection.execute("DROP SCHEMA IF EXISTS carrel_search_1 CASCADE")
    return url


@pytest.fixture
def ready_url(database_url: str, tmp_path: Path) -> str:
    """The same, with the schema in place on either engine."""
    location = locate(database_url, tmp_path)
    if isinstance(location, SqliteLocation):
        prepare_sqlite(location.path)
    return database_url


@pytest.fixture
async def database(ready_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(locate(ready_url, tmp_path), pool_size=4)
    yield database
    await database.close()


TASKS_ALONE = ("--toolsets", "tasks")
"""Whatever content other tests have left in the database."""


@dataclass(frozen=True)
class Servers:
    """One running server of each kind for the whole session: tests keep apart by using a user each."""

    wire: Callable[[str, str, str], Wire]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    urls = {"sqlite": "sqlite:///carrel.db", "postgres": postgres_url}
    http: dict[str, HttpServer] = {}
    wires: dict[tuple[str, str, str], StdioWire | HttpWire] = {}

    def wire(engine: str, transport: str, era: str) -> Wire:
        if (key := (engine, transport, era)) not in wires:
            if transport == "stdio":
                wires[key] = StdioWire(era, *TASKS_ALONE, "--database", urls[engine], cwd=folder)
            else:
                if engine not in http:
                    http[engine] = HttpServer(*TASKS_ALONE, "--database", urls[engine], cwd=folder)
                wires[key] = HttpWire(era, http[engine].url)
        return wires[key]

    yield Servers(wire)
    for each in wires.values():
        each.close()
    for server in http.values():
        server.stop()


@pytest.fixture(params=[(e, t, era) for e in ENGINES for t in ("stdio", "http") for era in ERAS], ids="-".join)
def wire(request: pytest.FixtureRequest, servers: Servers) -> Wire:
    """Each test that asks for this runs over every engine, transport and protocol revision."""
    return servers.wire(*request.param)


_users = count(1)


@pytest.fixture
def user(worker_id: str) -> str:
    """A user that no other test has."""
    return f"user-{worker_id}-{next(_users)}"
