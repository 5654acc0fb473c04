"""Real Bolt servers for tests: ArcadeDB from the arcadedb-embedded package, with the Java that comes with it.

Where NEO4J_URL is set, also what is there, which should be a Neo4j for tests alone: they delete all notes in it.
NEO4J_USER, NEO4J_PASSWORD and NEO4J_DATABASE go with it.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

from carrel.notes.neo4j import Connection, Neo4jStore

VARIABLE = "TEST_BOLT_URL"
"""Set where a server was started for all workers."""
ENGINES = ("arcadedb", "neo4j") if "NEO4J_URL" in os.environ else ("arcadedb",)
USER = "root"
PASSWORD = "a-secret-of-the-tests"  # noqa: S105 - of a server that ends with the tests
WORKERS = ("master", *(f"gw{number}" for number in range(4)))
TRIES = 3
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Bolt:
    """A database that is a test's own while it runs."""

    url: str
    user: str
    password: str
    database: str

    def connection(self) -> Connection:
        return Connection(self.url, user=self.user, password=self.password, database=self.database)

    def store(self) -> Neo4jStore:
        return Neo4jStore(self.connection())

    def run(self, statement: str, **parameters: object) -> list[dict[str, object]]:
        """As somebody else who uses the database."""
        with GraphDatabase.driver(self.url, auth=(self.user, self.password)) as driver:
            result = driver.execute_query(statement, parameters, database_=self.database or None)  # type: ignore[arg-type]
            return [record.data() for record in result.records]


class BoltServer:
    """Java runs beside the tests, in a folder of its own that goes with it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="carrel-bolt-"))
        for _ in range(TRIES):  # somebody else may take a port between our look at it and the server's
            self.port, self._http = _free_ports(2)
            self._process = self._start()
            if self._is_up():
                return
            self._stop()
        raise RuntimeError(self._log.read_text(errors="replace"))

    @property
    def url(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def _log(self) -> Path:
        return self._folder / "log.txt"

    def _start(self) -> "subprocess.Popen[bytes]":
        package = _package()
        settings = {
            "server.rootPath": self._folder,
            "server.rootPassword": PASSWORD,
            "server.defaultDatabases": ";".join(f"{name}[]" for name in WORKERS),
            "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "server.httpIncomingHost": "127.0.0.1",
            "server.httpIncomingPort": self._http,
            "bolt.host": "127.0.0.1",
            "bolt.port": self.port,
        }
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [
                    package / "jre" / "bin" / "java",
                    "-Xmx512m",
                    "-XX:TieredStopAtLevel=1",
                    "-XX:+UseSerialGC",
                    *(f"-Darcadedb.{name}={value}" for name, value in settings.items()),
                    "-cp",
                    f"{package / 'jars'}{os.sep}*",
                    "com.arcadedb.server.ArcadeDBServer",
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )

    def _is_up(self) -> bool:
        """Wait until it answers; False if it has ended instead."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                with GraphDatabase.driver(self.url, auth=(USER, PASSWORD)) as driver:
                    driver.execute_query("RETURN 1", database_=WORKERS[-1])
                return True
            except (OSError, DriverError, Neo4jError):
                time.sleep(0.05)
        return False

    def _stop(self) -> None:
        """At once: nothing of it is to be kept."""
        self._process.kill()
        self._process.wait(30)

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def _server() -> BoltServer:
    return BoltServer()


@pytest.fixture(scope="session")
def bolt_url() -> Iterator[str]:
    """One server for the session, or for all workers; it ends with it."""
    if VARIABLE in os.environ:
        yield os.environ[VARIABLE]
    else:
        yield _server().url
        _server().close()


@pytest.fixture(params=ENGINES)
def bolt(request: pytest.FixtureRequest, worker_id: str) -> Bolt:
    """Without notes."""
    return empty(request.param, request, worker_id)


def empty(engine: str, request: pytest.FixtureRequest, worker_id: str) -> Bolt:
    if engine == "arcadedb":
        found = Bolt(request.getfixturevalue("bolt_url"), USER, PASSWORD, worker_id)
    else:
        user, password, database = (
            os.environ.get(f"NEO4J_{name}", given)
            for name, given in (("USER", "neo4j"), ("PASSWORD", ""), ("DATABASE", ""))
        )
        found = Bolt(os.environ["NEO4J_URL"], user, password, database)
    found.run("MATCH (n:Node) DETACH DELETE n")
    found.run("MATCH (m:CarrelNotes) DELETE m")
    return found


def _end_with_parent() -> None:
    """Also where the tests are killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _package() -> Path:
    """Where it is installed; importing it would start looking for Java."""
    spec = find_spec("arcadedb_embedded")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
