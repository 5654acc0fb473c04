"""What /metrics tells an operator, of one process and of several."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from carrel.calls.call_store import MAX_SERIES, CallReaders, CallRecord, CallStore
from carrel.mcp.metrics import HISTOGRAM_BOUNDS, CallCollector, refusal_counter, render_metrics
from carrel.version import __version__
from tests.databases import prepare_desk
from tests.wire import MODERN, PLAIN, HttpServer, HttpWire, call


def numbers(url: str) -> dict[str, float]:
    text = httpx.get(f"{url}/metrics", trust_env=False, verify=PLAIN, timeout=30).raise_for_status().text
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*(?:\{.*\})?) (\S+)$", text, re.MULTILINE)}


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.rule("operations.metrics.one")
def test_a_process_tells_its_calls_its_connections_and_what_it_is(tmp_path: Path, postgres_url: str) -> None:
    server = HttpServer("--toolsets", "tasks", "--database", postgres_url, cwd=tmp_path)
    try:
        wire = HttpWire(MODERN, server.url)
        call(wire, "list_tasks", {"user_id": "metrics"})
        call(wire, "list_tasks", {"user_id": "metrics", "status": "none"})
        wire.close()
        found = numbers(server.url)
    finally:
        server.stop()
    assert found['carrel_calls_total{outcome="ok",tool="list_tasks",toolset="tasks"}'] == 1
    assert found['carrel_calls_total{outcome="refused",tool="list_tasks",toolset="tasks"}'] == 1
    assert found["carrel_calls_in_flight"] == 0
    assert found['carrel_database_connections{state="open"}'] >= 1
    assert found['carrel_database_connections{state="idle"}'] >= 1
    assert found["carrel_database_waiting"] == 0
    assert found["process_resident_memory_bytes"] > 2**20
    (info,) = [name for name in found if name.startswith("carrel_build_info{")]
    assert f'version="{__version__}"' in info
    assert 'database="postgresql"' in info


@pytest.mark.rule("operations.metrics.many")
def test_workers_are_added_up_and_one_that_was_killed_is_forgotten(tmp_path: Path) -> None:
    server = HttpServer("--toolsets", "tasks", "--workers", "2", cwd=prepare_desk(tmp_path))
    try:
        eventually(lambda: len(_workers(numbers(server.url))) == 2)
        wire = HttpWire(MODERN, server.url)
        for _ in range(5):
            call(wire, "list_tasks", {"user_id": "ana"})
        wire.close()
        found = numbers(server.url)
        assert found['carrel_calls_total{outcome="ok",tool="list_tasks",toolset="tasks"}'] == 5
        assert all(found[name] > 2**20 for name in found if name.startswith("carrel_worker_resident_memory_bytes"))
        killed = _workers(found).pop()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: killed not in (now := _workers(numbers(server.url))) and len(now) == 2)
        assert numbers(server.url)['carrel_calls_total{outcome="ok",tool="list_tasks",toolset="tasks"}'] == 5
    finally:
        server.stop()


def _workers(found: dict[str, float]) -> set[int]:
    return {int(pid) for name in found for pid in re.findall(r'^carrel_worker_cpu_seconds\{pid="(\d+)"\}', name)}


@pytest.mark.rule("operations.metrics.index")
def test_what_is_still_to_be_indexed_is_told(tmp_path: Path) -> None:
    from tests.program import run_carrel_here

    prepare_desk(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Garden\n\nTomatoes want sun.\n", encoding="utf-8")
    assert run_carrel_here("index", cwd=tmp_path, CARREL_EMBEDDINGS_PROVIDER="none").returncode == 0
    server = HttpServer("--toolsets", "tasks", cwd=tmp_path)
    try:
        eventually(lambda: numbers(server.url)["carrel_index_pending_passages"] == 1)
    finally:
        server.stop()


@pytest.mark.rule("operations.metrics.refusals")
def test_refusals_are_counted_by_reason() -> None:
    count = refusal_counter()
    count("scope")
    count("scope")
    assert b'carrel_refusals_total{reason="scope"} 2.0' in render_metrics()[0]
    refusal_counter()("scope")
    assert b'carrel_refusals_total{reason="scope"} 3.0' in render_metrics()[0]


@pytest.mark.rule("operations.metrics.many")
def test_calls_are_told_as_prometheus_own_counters_would_tell_them(tmp_path: Path) -> None:
    """Also of processes that have ended, and of as many series as there is room for."""
    expected = CollectorRegistry()
    total = Counter("carrel_calls", "Tool calls", ["toolset", "tool", "outcome"], registry=expected)
    seconds = Histogram(
        "carrel_call_seconds",
        "Duration of tool calls",
        ["toolset", "tool"],
        buckets=HISTOGRAM_BOUNDS,
        registry=expected,
    )
    stores = [CallStore(tmp_path) for _ in range(3)]
    for number in range(2000):
        tool, outcome = ("read", "write")[number % 2], ("ok", "ok", "failed")[number % 3]
        taken = 1.011**number / 2**14
        stores[number % 3].record(CallRecord("desk", tool, outcome, taken, 1, 0.0))
        total.labels("desk", tool, outcome).inc()
        seconds.labels("desk", tool).observe(taken)
    found = CollectorRegistry()
    found.register(CallCollector(CallReaders(stores[0])))
    assert _samples(found) == pytest.approx(_samples(expected))
    for number in range(MAX_SERIES + 10):
        stores[0].record(CallRecord("desk", f"tool-{number}", "ok", 0.0, 1, 0.0))
    assert sum(sum(each) for each in stores[0].counts().values()) == 667 + MAX_SERIES + 10


def _samples(registry: CollectorRegistry) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in lines if "_created" not in name}
