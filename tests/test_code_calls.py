"""What a call of the code toolset leaves behind: its place in the limit, a log line, and counts for `carrel status`."""

import asyncio
import json
import logging
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from carrel.calls.call_store import BUCKET_COUNT, CallRecord, CallStore, bucket_index, bucket_seconds
from carrel.calls.counters import CallCounters, tool_uses
from carrel.errors import StoreUnavailable
from carrel.mcp.limits import RateLimiter
from carrel.mcp.toolset import Caller
from carrel.storage.database import Database
from carrel.workspace import find_workspace
from tests.code_servers import error, ok
from tests.code_trees import tree
from tests.databases import prepare_desk
from tests.program import run_carrel_here
from tests.wire import LEGACY, MODERN, PLAIN, HttpServer, HttpWire, StdioWire

FILES = {"src/a.py": "def lantern():\n    pass\n", "src/b.py": "import a\n", ".env": "KEY=quince-1\n"}
WORDS_ONLY = {"CARREL_EMBEDDINGS_PROVIDER": "none"}
LIMITED = "[code.limits]\nread_file = 3\ngrep_codebase = 1\ncontext_search = 0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tree(prepare_desk(tmp_path), FILES)


def desk_at(folder: Path, **server: Any) -> Any:
    settings = {"embeddings": {"provider": "none"}, "server": {"toolsets": ["code"], **server}}
    return find_workspace(folder, settings, environment={}).open()


# --- limits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.rule("code.limits.sliding")
def test_a_limit_is_a_true_sliding_minute_for_each_client_and_tool() -> None:
    clock = Clock()
    limiter = RateLimiter(0, clock, by_tool={"read_file": 3, "grep_codebase": 1})
    for moment in (1000.0, 1020.0, 1040.0):
        clock.now = moment
        assert limiter.retry_after("ana", "read_file") is None
    clock.now = 1040.5
    assert limiter.retry_after("ana", "read_file") == 20
    assert limiter.retry_after("ana", "grep_codebase") is None
    assert limiter.retry_after("bob", "read_file") is None
    assert all(limiter.retry_after("ana", "context_search") is None for _ in range(200))
    clock.now = 1059.999
    assert limiter.retry_after("ana", "read_file") == 1
    clock.now = 1060.0
    assert limiter.retry_after("ana", "read_file") is None
    assert limiter.retry_after("ana", "read_file") == 20, "of the three, one was a minute ago"


CHEAP = {
    "context_search": {"query": "lantern"},
    "read_file": {"path": "gone"},
    "grep_codebase": {"pattern": "("},
}
INVALID = {"context_search": {"query": "ab"}, "read_file": {}, "grep_codebase": {"pattern": "x", "limit": 0}}


@pytest.mark.anyio
@pytest.mark.rule("code.limits.default", "code.limits.answer", "code.limits.validation")
async def test_the_limits_are_30_100_and_60_and_wrong_calls_do_not_count(folder: Path) -> None:
    async with desk_at(folder) as desk:
        pipeline = desk.pipeline()
        for tool, limit in {"context_search": 30, "read_file": 100, "grep_codebase": 60}.items():
            for _ in range(5):
                await pipeline.call(tool, INVALID[tool], Caller("ana"))
            answers = [await pipeline.call(tool, CHEAP[tool], Caller("ana")) for _ in range(limit)]
            assert not any("Rate limit" in each.text for each in answers)
            refused = await pipeline.call(tool, CHEAP[tool], Caller("ana"))
            assert refused.is_error
            assert list(refused.value) == ["error", "retryAfter"]
            assert refused.value["error"] == f"Rate limit exceeded for {tool}"
            assert 1 <= refused.value["retryAfter"] <= 60
            assert isinstance(refused.value["retryAfter"], int)
            wrong = await pipeline.call(tool, INVALID[tool], Caller("ana"))
            assert "Rate limit" not in wrong.text
            assert "Rate limit" not in (await pipeline.call(tool, CHEAP[tool], Caller("bob"))).text


# --- log lines


def lines_of(log: Iterator[str] | list[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log if line.startswith("{")]
    return [line for line in found if line["logger"] == "carrel.calls" and "tool" in line]


@pytest.mark.anyio
@pytest.mark.rule("code.metrics.slow")
async def test_a_call_past_its_contracts_maximum_is_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "carrel.calls")
    async with desk_at(folder) as desk:
        max_seconds = desk.toolsets["code"].max_seconds
        assert [max_seconds(tool, {}) for tool in CHEAP] == [5.0, 0.5, 3.0]
        assert max_seconds("read_file", {"includeDeps": True}) == 2.0
        pipeline = desk.pipeline()
        monkeypatch.setitem(_max_seconds(), "read_file", 60.0)
        await pipeline.call("read_file", {"path": "src/a.py"}, Caller("ana"))
        monkeypatch.setitem(_max_seconds(), "read_file", 0.0)
        await pipeline.call("read_file", {"path": "src/a.py"}, Caller("ana"))
    levels = [(each.levelname, each.__dict__["fields"].get("slow")) for each in caplog.records if each.msg == "call"]
    assert levels == [("INFO", None), ("WARNING", True)]


def _max_seconds() -> dict[str, float]:
    from carrel.toolsets.code import toolset

    return toolset.TIMEOUT_SECONDS


@contextmanager
def serving(folder: Path, *words: str) -> Generator[HttpServer]:
    server = HttpServer("--toolsets", "code", *words, cwd=folder, **WORDS_ONLY)
    try:
        yield server
    finally:
        assert server.stop() == 143


def status(folder: Path, *words: str, **env: str) -> str:
    done = run_carrel_here("status", *words, cwd=folder, **env)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.rule("code.limits.settings", "code.limits.client", "code.metrics.line", "code.metrics.arguments")
@pytest.mark.rule("code.metrics.status", "code.metrics.restarts", "code.metrics.prometheus")
def test_servers_at_one_desk_log_each_call_once_and_add_up_in_status(folder: Path) -> None:
    (folder / "carrel.toml").write_text(LIMITED, encoding="utf-8")
    with serving(folder) as server:
        grepped = _call_past_the_limits(server)
    lines = lines_of(server.log)
    outcomes = [(line["tool"], line["outcome"], line["level"]) for line in lines]
    reads = [("read_file", outcome, "info") for outcome in ("ok", "ok", "refused", "limited", "limited", "refused")]
    assert outcomes == [*reads, ("grep_codebase", "ok", "info"), ("context_search", "ok", "info")]
    for line in lines:
        assert list(line)[4:] == ["tool", "toolset", "outcome", "ms", "size"]
        assert line["ms"] > 0
    assert lines[6]["size"] == len(json.dumps(grepped, ensure_ascii=False, separators=(",", ":")))
    assert "quince" not in "".join(server.log)

    _call_with_arguments_logged(folder)
    _look_at_status(folder)


def _call_past_the_limits(server: HttpServer) -> Any:
    """What grep has answered."""
    modern, legacy = HttpWire(MODERN, server.url), HttpWire(LEGACY, server.url)
    ok(modern, "read_file", path="src/a.py")
    ok(legacy, "read_file", path="src/a.py")
    assert error(modern, "read_file", path="quince-2")["error"] == "File not found"
    for wire in (modern, legacy):
        found = error(wire, "read_file", path="src/a.py")
        assert (list(found), found["error"]) == (["error", "retryAfter"], "Rate limit exceeded for read_file")
        assert 1 <= found["retryAfter"] <= 60
    assert error(modern, "read_file")["error"] == "Invalid parameters"
    grepped = ok(modern, "grep_codebase", pattern="quince-3|lantern")
    ok(modern, "context_search", query="quince-4 lantern")
    metrics = httpx.get(f"{server.url}/metrics", trust_env=False, verify=PLAIN).text
    assert 'carrel_calls_total{outcome="limited",tool="read_file",toolset="code"} 2.0' in metrics
    assert 'carrel_call_seconds_bucket{le="0.00025",tool="grep_codebase",toolset="code"}' in metrics
    modern.close()
    legacy.close()
    return grepped


def _call_with_arguments_logged(folder: Path) -> None:
    with (folder / "log").open("w", encoding="utf-8") as log:
        variables = {**WORDS_ONLY, "CARREL_SERVER_LOG_ARGUMENTS": "true"}
        wire = StdioWire(MODERN, "--toolsets", "code", cwd=folder, stderr=log, **variables)
        ok(wire, "read_file", path="src/a.py", includeDeps=True)
        ok(wire, "read_file", path="src/b.py")
        assert error(wire, "context_search", query="ab")["error"] == "Query must be at least 3 characters"
        assert wire.close() == 0
    lines = lines_of((folder / "log").read_text(encoding="utf-8").splitlines())
    assert [line["arguments"] for line in lines] == [
        {"path": "src/a.py", "includeDeps": True},
        {"path": "src/b.py"},
        {"query": "ab"},
    ]


def _look_at_status(folder: Path) -> None:
    found = json.loads(status(folder, "--json"))
    assert list(found) == ["tools", "files"]
    numbers = {tool["tool"]: tuple(tool.values())[2:6] for tool in found["tools"]}
    assert list(found["tools"][0]) == [
        *("toolset", "tool", "calls", "errors", "refused", "limited", "p50", "p95", "p99")
    ]
    assert numbers == {"context_search": (2, 0, 1, 0), "grep_codebase": (1, 0, 0, 0), "read_file": (8, 0, 2, 2)}
    assert all(0 < tool["p50"] <= tool["p95"] <= tool["p99"] for tool in found["tools"])
    assert [(each["path"], each["reads"]) for each in found["files"]] == [("src/a.py", 3), ("src/b.py", 1)]
    shown = status(folder, "--files", "1").splitlines()
    assert shown[0].split() == ["calls", "errors", "refused", "limited", "p50", "ms", "p95", "ms", "p99", "ms"]
    assert [line.split()[:6] for line in shown[1:4]] == [
        ["code", "context_search", "2", "0", "1", "0"],
        ["code", "grep_codebase", "1", "0", "0", "0"],
        ["code", "read_file", "8", "0", "2", "2"],
    ]
    assert [line.split() for line in shown[-2:]] == [["reads", "file"], ["3", "src/a.py"]]


@pytest.mark.rule("code.metrics.status")
def test_the_status_of_a_desk_that_was_never_used_says_so(folder: Path) -> None:
    assert json.loads(status(folder, "--json")) == {"tools": [], "files": []}
    done = run_carrel_here("status", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no tools have been called yet\n")


@pytest.mark.rule("code.metrics.accesses")
def test_reads_of_many_clients_at_once_are_counted_exactly(ready_url: str, folder: Path) -> None:
    (folder / "carrel.toml").write_text("[code.limits]\nread_file = 0\n", encoding="utf-8")

    def client(number: int) -> None:
        wire = HttpWire((MODERN, LEGACY)[number % 2], servers[number // 2 % 2].url)
        for turn in range(25):
            ok(wire, "read_file", path="src/a.py" if turn % 5 else "./src/b.py")
            error(wire, "read_file", path="src/gone.py")
        wire.close()

    started = time.time()
    words = ("--database", ready_url)
    with serving(folder, *words) as one, serving(folder, *words) as two, ThreadPoolExecutor(8) as threads:
        servers = (one, two)
        list(threads.map(client, range(8)))
    found = json.loads(status(folder, "--json", CARREL_DATABASE_URL=ready_url))
    assert {each["path"]: each["reads"] for each in found["files"]} == {"src/a.py": 160, "src/b.py": 40}
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started))
    assert all(each["lastRead"] >= seconds for each in found["files"])
    (use,) = found["tools"]
    assert (use["calls"], use["refused"], use["errors"]) == (400, 200, 0)


# --- the counters


def note(calls: CallStore, tool: str, outcome: str, seconds: float) -> None:
    calls.record(CallRecord("code", tool, outcome, seconds, 1, time.time()))


@pytest.mark.anyio
@pytest.mark.rule("code.metrics.percentiles")
async def test_percentiles_are_at_most_five_percent_off_and_add_up_over_processes(database: Database) -> None:
    stores = [CallStore() for _ in range(3)]
    counters = [
        CallCounters(database, desk, calls) for desk, calls in zip(("desk", "desk", "other"), stores, strict=True)
    ]
    for milliseconds in range(1, 101):
        note(stores[milliseconds % 2], "read_file", "ok", milliseconds / 1000)
    note(stores[0], "grep_codebase", "failed", 0.0)
    note(stores[0], "read_file", "cancelled", 5.0)
    note(stores[2], "read_file", "ok", 9.0)
    for each in counters:
        await each.close()
    grep, read = await tool_uses(database, "desk")
    assert (grep.tool, grep.calls, grep.errors) == ("grep_codebase", 1, 1)
    assert (read.calls, read.errors, read.refused, read.limited) == (100, 0, 0, 0)
    for found, expected in ((read.p50, 50), (read.p95, 95), (read.p99, 99)):
        assert abs(found - expected) / expected <= 0.05
    for seconds in (1e-7, 1e-6, 0.0123, 4.2, 3600.0):
        assert abs(bucket_seconds(bucket_index(seconds)) / max(seconds, 1e-6) - 1) <= 0.05
    assert bucket_index(1e9) == BUCKET_COUNT - 1


@pytest.mark.anyio
@pytest.mark.rule("code.metrics.away")
async def test_calls_are_kept_until_the_database_takes_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.calls.counters.WRITE_DELAY_SECONDS", 0.0)
    monkeypatch.setattr("carrel.calls.counters.WRITE_RETRY_SECONDS", 0.0)
    write, failures = database.write, [StoreUnavailable("away"), StoreUnavailable("away")]

    async def failing(job: Any) -> Any:
        if failures:
            raise failures.pop()
        done = await write(job)
        written.set()
        return done

    monkeypatch.setattr(database, "write", failing)
    calls, written = CallStore(), asyncio.Event()
    counters = CallCounters(database, "desk", calls)
    for _ in range(3):
        note(calls, "read_file", "ok", 0.001)
    async with asyncio.timeout(20):
        await written.wait()
    note(calls, "read_file", "ok", 0.001)
    await counters.close()
    assert [use.calls for use in await tool_uses(database, "desk")] == [4]
