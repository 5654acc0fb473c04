"""How long a client's calls may take together."""

import random
from pathlib import Path

import pytest

from carrel.mcp.limits import TimeBudget
from carrel.settings import Settings
from tests.code_searches import ENDLESS, write_paths
from tests.databases import prepare_desk
from tests.wire import ERAS, MODERN, HttpServer, HttpWire, StdioWire, Wire, call, value


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.rule("limits.rates.seconds")
def test_calls_that_took_the_budget_keep_others_waiting_until_enough_of_it_is_a_minute_old() -> None:
    clock = Clock()
    budget = TimeBudget(10, clock)
    for at, seconds in ((0, 4.0), (20, 3.0), (30, 5.0)):
        clock.now = 1000.0 + at
        assert budget.retry_after("ana") is None
        budget.spend("ana", seconds)
    assert budget.retry_after("ana") == 30, "without the first, 8 of 10 are spent"
    assert budget.retry_after("bob") is None
    clock.now = 1060.0
    assert budget.retry_after("ana") is None
    budget.spend("ana", 60.0)
    assert budget.retry_after("ana") == 60, "one call may take more than all of it"
    clock.now = 1120.0
    assert budget.retry_after("ana") is None


@pytest.mark.rule("limits.rates.seconds")
def test_slow_searches_are_rate_limited_before_there_are_sixty(tmp_path: Path) -> None:
    assert Settings().code_limits.grep_seconds == 30
    chance = random.Random(1)
    text = "".join(chance.choices("abcdefgh" * 200 + "\n", k=4_000_000))
    folder = prepare_desk(write_paths(tmp_path, {"big.txt": text, "small.txt": "needle\n"}))
    settings = {"CARREL_CODE_LIMITS_GREP_SECONDS": "3"}
    server = HttpServer("--toolsets", "code", cwd=folder, **settings)
    wires = [HttpWire(era, server.url) for era in ERAS]
    stdio = StdioWire(MODERN, "--toolsets", "code", cwd=folder, **settings)
    some: tuple[Wire, ...] = (wires[0], stdio)
    for first in some:
        assert value(call(first, "grep_codebase", {"pattern": "needle"}))["totalMatches"] == 1
        assert value(call(first, "grep_codebase", {"pattern": ENDLESS}))["error"] == "Search timed out"
    for wire in (*wires, stdio):
        refused = value(call(wire, "grep_codebase", {"pattern": "needle"}))
        assert refused["error"] == "Rate limit exceeded for grep_codebase"
        assert 30 < refused["retryAfter"] <= 60
        assert value(call(wire, "read_file", {"path": "small.txt"}))["file"]["path"] == "small.txt"
    for each in wires:
        each.close()
    assert server.stop() == 143
    assert stdio.close() == 0
