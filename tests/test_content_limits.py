"""What the content toolsets never do: write, run past their time, answer otherwise elsewhere, tell why they failed."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import httpx
import psycopg
import pytest

from carrel.errors import StoreError, StoreTimeout
from carrel.mcp.toolset import Caller
from carrel.settings import Settings
from carrel.storage.database import Database, Session
from carrel.toolsets.catalog import catalog_toolset
from tests.content_seed import ALPHA, FULL, GAMMA, HUB, NOWHERE, ROOT, WIDE
from tests.content_servers import ENGINES, KINDS, ContentServers, compact, error, ok, text
from tests.wire import MODERN, HttpServer, HttpWire, StdioWire

pytest_plugins = ["tests.content_fixtures"]

CATALOG_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_projects", {}),
    ("search_entities", {"projectId": ALPHA, "query": "bulk", "limit": 50}),
    ("search_entities", {"projectId": ALPHA, "query": "ß"}),
    ("search_entities", {"projectId": ALPHA, "query": "a\0b"}),
    ("get_entity", {"projectId": ALPHA, "entityId": FULL}),
    ("get_entity", {"projectId": ALPHA, "entityId": NOWHERE}),
    ("get_entity", {"projectId": ALPHA, "entityId": "x"}),
    ("get_entity_graph", {"projectId": GAMMA, "entityId": ROOT, "depth": 2}),
    ("get_entity_graph", {"projectId": HUB, "entityId": WIDE, "depth": 2}),
]


@pytest.mark.rule("catalog.limits.deterministic")
@pytest.mark.parametrize(("tool", "arguments"), CATALOG_CALLS)
def test_every_engine_transport_and_revision_answers_the_same_bytes(
    content: ContentServers, tool: str, arguments: dict[str, Any]
) -> None:
    answers = {text(content.wire("catalog", *kind), tool, **arguments) for kind in KINDS for _ in range(2)}
    assert len(answers) == 1


# --- it only reads


def copied(content: ContentServers, folder: Path) -> str:
    """The URL of a copy of the SQLite database, for tests that do things to it."""
    paths = (content.folder / "content.db", folder / "copy.db")
    with closing(sqlite3.connect(paths[0])) as source, closing(sqlite3.connect(paths[1])) as target:
        source.backup(target)
    return "sqlite:///copy.db"


def everything(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.rule("catalog.limits.never_writes")
def test_nothing_changes_in_the_database_nor_beside_it(content: ContentServers, tmp_path: Path) -> None:
    wire = StdioWire(MODERN, "--toolsets", "catalog", "--database", copied(content, tmp_path), cwd=tmp_path)
    before = everything(tmp_path / "copy.db")
    for tool, arguments in CATALOG_CALLS:
        text(wire, tool, **arguments)
    assert everything(tmp_path / "copy.db") == before
    wire.close()
    assert {name for name in os.listdir(tmp_path) if not name.endswith(("-wal", "-shm"))} == {"copy.db"}


@pytest.mark.rule("catalog.limits.never_writes")
def test_it_serves_where_it_may_only_read(content: ContentServers, tmp_path: Path) -> None:
    read_only = f"{content.urls['postgres']}?options=-c%20default_transaction_read_only%3Don"
    wire = StdioWire(MODERN, "--toolsets", "catalog", "--database", read_only, cwd=tmp_path)
    usual = content.wire("catalog", "postgres", "stdio", MODERN)
    for tool, arguments in CATALOG_CALLS:
        assert text(wire, tool, **arguments) == text(usual, tool, **arguments)
    wire.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.rule("catalog.limits.never_writes")
@pytest.mark.anyio
async def test_a_snapshot_cannot_write(database: Database) -> None:
    sql = "INSERT INTO task (user_id, title, created_at) VALUES ('ana', 'x', 0)"
    with pytest.raises(StoreError):
        await database.snapshot(lambda session: session.all(sql, {}), seconds=5)
    assert await database.read(lambda session: session.first("SELECT count(*) FROM task", {})) == (0,)


# --- time


SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT max(i) FROM n"


@pytest.mark.rule("catalog.limits.timeout_cancelled")
@pytest.mark.anyio
async def test_the_engine_ends_a_statement_that_takes_too_long(database: Database) -> None:
    async def slow(session: Session) -> Any:
        return await session.all(SLOW, {})

    started = time.monotonic()
    with pytest.raises(StoreTimeout):
        await database.snapshot(slow, seconds=0.2)
    assert time.monotonic() - started < 5
    assert await database.snapshot(lambda session: session.first("SELECT 1", {}), seconds=5) == (1,)


@pytest.mark.rule("catalog.limits.timeout_message", "catalog.limits.timeout_cancelled", "common.error.timeout")
def test_a_request_past_its_limit_says_so_and_leaves_nothing_running(content: ContentServers, tmp_path: Path) -> None:
    url = content.urls["postgres"]
    words = ("--toolsets", "catalog", "--database", url)
    wire = StdioWire(MODERN, *words, cwd=tmp_path, CARREL_SERVER_CALL_TIMEOUT="1")
    with psycopg.connect(url) as blocker:
        blocker.execute("LOCK TABLE entity IN ACCESS EXCLUSIVE MODE")
        found = error(wire, "get_entity", projectId=ALPHA, entityId=FULL)
        assert (list(found), found["code"]) == (["code", "message", "details"], "INTERNAL_ERROR")
        assert "1 second" in found["message"]
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        assert blocker.execute(waiting).fetchone() == (0,)
    assert ok(wire, "get_entity", projectId=ALPHA, entityId=FULL)["entity"]["id"] == FULL
    wire.close()


class Watched:
    """A database that only says how long it was given."""

    seconds: float | None = None

    async def snapshot(self, _work: object, *, seconds: float) -> Any:
        self.seconds = seconds


@pytest.mark.rule("catalog.limits.timeout")
@pytest.mark.anyio
async def test_the_limit_of_a_request_and_of_its_statements_is_30_seconds() -> None:
    assert Settings().server.call_timeout == 30
    watched = Watched()
    for tool in catalog_toolset(cast("Database", watched)).tools:
        watched.seconds = None
        await tool.handler({"projectId": ALPHA, "entityId": FULL, "query": "x"}, Caller("tests"))
        assert watched.seconds == 30


# --- failures inside


@pytest.fixture(scope="module")
def broken(content: ContentServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server whose database loses its tables while it runs."""
    folder = tmp_path_factory.mktemp("broken")
    server = HttpServer("--database", copied(content, folder), cwd=folder)
    with closing(sqlite3.connect(folder / "copy.db")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for table in ("relation", "search_performance", "quotable_block", "entity"):
            connection.execute(f"DROP TABLE {table}")
        connection.commit()
    yield server
    assert server.stop() == 143


def tells_nothing(message: str, server: HttpServer) -> None:
    """The cause is in the log, where it may come a moment later, and not in the message."""
    for word in ("SELECT", "sqlite", "SQLite", "no such table", "Traceback", "/", ".py"):
        assert word not in message
    deadline = time.monotonic() + 10
    while not any("no such table" in line for line in server.log):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    server.log.clear()


@pytest.mark.rule("catalog.error.internal", "common.error.no_leak")
@pytest.mark.parametrize("tool", ["search_entities", "get_entity", "get_entity_graph"])
def test_the_catalog_does_not_tell_why_it_failed(broken: HttpServer, tool: str) -> None:
    wire = HttpWire(MODERN, broken.url, "/catalog/mcp")
    more = {"query": "needle"} if tool == "search_entities" else {"entityId": FULL}
    found = error(wire, tool, projectId=ALPHA, **more)
    wire.close()
    assert (list(found), found["code"], found["details"]) == (["code", "message", "details"], "INTERNAL_ERROR", {})
    tells_nothing(found["message"], broken)


ROUTES = {
    "search_entities": "/api/entities",
    "get_entity": f"/api/entities/{FULL}",
    "get_entity_graph": f"/api/entities/{FULL}/graph",
    "list_search_performance": "/api/seo/search-performance",
    "list_quotable_blocks": "/api/quotable-blocks",
}


@pytest.mark.rule("bridge.error.server_error", "common.error.no_leak")
@pytest.mark.parametrize("tool", ROUTES)
def test_the_backend_does_not_tell_why_it_failed(broken: HttpServer, tool: str) -> None:
    response = httpx.get(f"{broken.url}{ROUTES[tool]}", headers={"x-project-id": ALPHA}, timeout=30, trust_env=False)
    body = response.json()
    assert (response.status_code, response.headers["content-type"]) == (500, "application/json")
    assert (list(body), list(body["error"]), body["error"]["code"]) == (["error"], ["code", "message"], "SERVER_ERROR")
    tells_nothing(body["error"]["message"], broken)
    wire = HttpWire(MODERN, broken.url, "/bridge/mcp")
    entity = {"entityId": FULL} if tool.startswith("get_") else {}
    assert text(wire, tool, projectId=ALPHA, **entity) == compact(body)
    wire.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_of_servers_that_were_used_has_no_errors(content: ContentServers, engine: str) -> None:
    """Nothing that the other tests call, right or wrong, is a failure of ours."""
    assert not any('"level": "error"' in line for line in content.http(engine).log)
