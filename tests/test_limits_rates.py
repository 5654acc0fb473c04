"""Rates and calls at once: in memory, and shared over PostgreSQL and Redis."""

import asyncio
import logging
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel.errors import MissingExtra, SettingsError, StoreUnavailable
from carrel.mcp.limits import CallLimits, RateLimiter, RateStore, SharedLimits, tool_rates
from carrel.storage.postgres_rate_store import PostgresRateStore
from carrel.storage.redis_rate_store import RedisRateStore
from tests.limit_stores import shift

pytest_plugins = ["tests.limit_fixtures"]
pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# --- in memory


@pytest.mark.rule("limits.rates.client")
def test_a_call_counts_against_the_tool_and_the_client_or_against_neither() -> None:
    clock = Clock()
    limiter = RateLimiter(0, clock, by_tool={"read_file": 2}, of_client=3)
    assert limiter.retry_after("ana", "read_file") is None
    clock.now += 10
    assert limiter.retry_after("ana", "read_file") is None
    assert limiter.retry_after("ana", "read_file") == 50
    clock.now += 10
    assert limiter.retry_after("ana", "other") is None, "what was refused did not count"
    assert limiter.retry_after("ana", "other") == 40, "the client's own limit is reached"
    assert limiter.retry_after("bob", "other") is None
    clock.now += 40
    assert limiter.retry_after("ana", "other") is None
    assert limiter.retry_after("ana", "read_file") == 10


@pytest.mark.rule("limits.rates.sliding")
@example(steps=[(1.19568412090387, "a"), (0.0, "a")], of_tool=0, of_client=1)
@given(
    steps=st.lists(st.tuples(st.floats(0, 30), st.sampled_from("ab")), max_size=80),
    of_tool=st.integers(0, 4),
    of_client=st.integers(0, 5),
)
def test_no_minute_holds_more_than_the_limits(steps: list[tuple[float, str]], of_tool: int, of_client: int) -> None:
    clock = Clock()
    limiter = RateLimiter(of_tool, clock, of_client=of_client)
    admitted: deque[tuple[float, str]] = deque()
    for pause, tool in steps:
        clock.now += pause
        live = [each for moment, each in admitted if moment > clock.now - 60]
        fits = not (of_tool and live.count(tool) >= of_tool) and not (of_client and len(live) >= of_client)
        wait = limiter.retry_after("ana", tool)
        assert (wait is None) == fits
        if wait is None:
            admitted.append((clock.now, tool))
        else:
            assert 1 <= wait <= 60


@pytest.mark.rule("limits.rates.tools")
def test_limits_of_tools_are_read_and_mistakes_are_told() -> None:
    assert tool_rates([" read_file = 100", "grep=0"], ["read_file", "grep"]) == {"read_file": 100, "grep": 0}
    with pytest.raises(SettingsError, match="no such tool"):
        tool_rates(["reed_file=1"], ["read_file"])
    for wrong in ("read_file", "read_file=", "read_file=x", "=3", "read_file=-1", "read_file=1/s"):
        with pytest.raises(SettingsError, match="TOOL=CALLS_A_MINUTE"):
            tool_rates([wrong], ["read_file"])


@pytest.mark.rule("limits.calls.concurrent")
def test_calls_under_way_are_counted_for_each_client() -> None:
    limits = CallLimits(RateLimiter(0, by_tool={"rare": 1}), concurrent=2)
    assert [limits.begin("ana", "a") for _ in range(3)] == [None, None, 1]
    assert limits.begin("bob", "rare") is None
    assert limits.begin("bob", "rare") == 60, "and what its rate refuses is not under way"
    limits.leave("ana")
    assert [limits.begin("ana", "a") for _ in range(2)] == [None, 1]
    for client in ("ana", "ana", "bob"):
        limits.leave(client)
    assert limits._in_flight == {}, "memory follows the active ones"
    unlimited = CallLimits(RateLimiter(0))
    assert all(unlimited.begin("ana", "a") is None for _ in range(1000))


# --- shared


CALLER = """
import asyncio, sys
from carrel.mcp.limits import RateLimiter, SharedLimits

async def windows(url):
    if url.startswith("redis"):
        from carrel.storage.redis_rate_store import RedisRateStore
        return RedisRateStore(url)
    from carrel.storage.postgres_rate_store import PostgresRateStore
    return await PostgresRateStore.open(url)

async def main():
    shared = SharedLimits(await windows(sys.argv[1]), RateLimiter(0, by_tool={"grep_codebase": 30}))
    await shared.retry_after("warm", "grep_codebase")
    print("ready", flush=True)
    sys.stdin.readline()
    answers = await asyncio.gather(*(shared.retry_after("ana", "grep_codebase") for _ in range(100)))
    print(sum(each is None for each in answers), min(each for each in answers if each), flush=True)
    await shared.close()

asyncio.run(main())
"""


@pytest.mark.rule("limits.shared.agree", "limits.rates.sliding")
def test_of_200_calls_from_two_processes_exactly_the_limit_goes_through(store_url: str) -> None:
    root = Path(__file__).parent.parent
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", CALLER, store_url],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for each in callers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in callers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    found = [each.communicate(timeout=60)[0].split() for each in callers]
    assert sum(int(admitted) for admitted, _ in found) == 30
    assert all(50 <= int(wait) <= 60 for _, wait in found)


@pytest.mark.rule("limits.rates.client")
async def test_a_shared_store_holds_both_limits_and_counts_against_both_or_neither(windows: RateStore) -> None:
    async def admit(client: str, tool: str) -> bool:
        wait = await windows.admit(client, tool, of_tool=2, of_client=3)
        assert wait is None or 55 < wait <= 60
        return wait is None

    assert [await admit("ana", "a") for _ in range(4)] == [True, True, False, False]
    assert [await admit("ana", "b") for _ in range(2)] == [True, False]
    assert await admit("{bob} é", "a")
    assert await windows.admit("zoe", "a", of_tool=0, of_client=1) is None
    assert await windows.admit("zoe", "b", of_tool=0, of_client=1) is not None


@pytest.mark.rule("limits.rates.sliding", "limits.shared.clock")
async def test_a_shared_minute_slides_and_a_clock_put_back_locks_nobody_out(windows: RateStore, store_url: str) -> None:
    async def admit() -> float | None:
        return await windows.admit("sliding", "a", of_tool=2, of_client=0)

    assert await admit() is None
    await shift(store_url, 40)
    assert await admit() is None
    wait = await admit()
    assert wait is not None
    assert 15 < wait <= 20
    await shift(store_url, 20)
    assert await admit() is None, "one of the two was a minute ago"
    wait = await admit()
    assert wait is not None
    assert 35 < wait <= 40
    await shift(store_url, -3600)
    wait = await admit()
    assert wait is not None
    assert wait <= 60


@pytest.mark.rule("limits.shared.bounded")
async def test_a_shared_store_forgets_who_was_quiet_for_a_minute(windows: RateStore, store_url: str) -> None:
    for number in range(3):
        await windows.admit(f"quiet {number}", "a", of_tool=5, of_client=5)
    if isinstance(windows, PostgresRateStore):
        await shift(store_url, 61)
        await windows.admit("active", "a", of_tool=5, of_client=5)
        await windows.sweep()
        with psycopg.connect(store_url) as connection:
            assert connection.execute("SELECT client FROM rate_window").fetchall() == [("active",)]
            kind = connection.execute("SELECT relpersistence FROM pg_class WHERE relname = 'rate_window'").fetchone()
        assert kind == ("u",), "nobody waits for the disk"
        return
    from redis.asyncio import Redis

    redis = Redis.from_url(store_url)
    keys = await redis.keys("carrel:limits:{quiet*")
    assert len(keys) == 6
    assert all([0 < await redis.pttl(key) <= 61_000 for key in keys])
    await redis.aclose()


class Broken:
    """A store that does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        self.asked += 1
        raise StoreUnavailable("Redis: gone")

    async def acquire(self, client: str, lease: str, *, most: int) -> bool:
        raise StoreUnavailable("Redis: gone")

    async def release(self, client: str, lease: str) -> None:
        raise StoreUnavailable("Redis: gone")

    async def close(self) -> None:
        pass


@pytest.mark.rule("limits.shared.unreachable")
async def test_while_the_store_is_away_each_process_keeps_the_limits_and_says_so_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, store = Clock(), Broken()
    shared = SharedLimits(store, RateLimiter(2, clock), clock)
    with caplog.at_level(logging.WARNING, "carrel.limits"):
        assert [await shared.retry_after("ana", "a") for _ in range(3)] == [None, None, 60]
        assert store.asked == 1, "it is left alone for a while"
        clock.now += 5
        assert await shared.retry_after("ana", "a") == 55
        assert (store.asked, len(caplog.records)) == (2, 1)
        clock.now += 60
        assert await shared.retry_after("ana", "a") is None
        assert (store.asked, len(caplog.records)) == (3, 2)
    assert "Redis: gone" in caplog.text
    await shared.close()


@pytest.mark.rule("limits.shared.unreachable")
@pytest.mark.parametrize("make", [lambda port: RedisRateStore(f"redis://127.0.0.1:{port}"), None])
async def test_a_real_store_that_is_not_there_holds_no_call_up(make: Callable[[int], RedisRateStore] | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        port = silent.getsockname()[1]
        windows = make(port) if make else await PostgresRateStore.open(f"postgresql://x@127.0.0.1:{port}/x")
        shared = SharedLimits(windows, RateLimiter(1))
        async with asyncio.timeout(5):
            assert await shared.retry_after("ana", "a") is None
            assert await shared.retry_after("ana", "a") == 60
    await shared.close()


@pytest.mark.rule("limits.shared.agree")
async def test_cancelled_calls_give_their_connections_back(windows: PostgresRateStore | RedisRateStore) -> None:
    shared = SharedLimits(windows, RateLimiter(1000))
    calls = [asyncio.create_task(shared.retry_after("cancelled", "a")) for _ in range(40)]
    await asyncio.sleep(0)
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert await asyncio.gather(*(shared.retry_after("after", "a") for _ in range(20))) == [None] * 20
    assert shared._paused_until < 0, "the store was asked, and answered"
    await shared.close()


@pytest.mark.rule("limits.shared.clock")
async def test_any_subject_can_be_counted(windows: RateStore) -> None:
    shared = SharedLimits(windows, RateLimiter(1))
    for subject in ("x" * 10_000, "nul\0", "\ud800", "{a}:{b}", "%s", ""):
        assert await shared.retry_after(subject, "a") is None
        assert await shared.retry_after(subject, "a") == 60
    assert shared._paused_until < 0


@pytest.mark.rule("limits.shared.extra")
def test_redis_without_its_package_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "carrel.storage.redis_rate_store")
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(MissingExtra, match=r"pip install 'carrel\[redis\]'"):
        import carrel.storage.redis_rate_store  # noqa: F401 - whether it can be had
