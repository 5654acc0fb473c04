"""Calls of a client under way, counted by several servers together."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from carrel.errors import StoreUnavailable
from carrel.mcp.limits import CallLimits, RateLimiter, RateStore, SharedLimits
from carrel.storage.redis_rate_store import RedisRateStore
from tests.limit_stores import open_windows, shift
from tests.wire import MODERN, HttpServer, HttpWire, call, value

pytest_plugins = ["tests.limit_fixtures"]

MOST = 3


# --- the stores


@pytest.mark.anyio
@pytest.mark.rule("limits.shared.concurrent")
async def test_however_many_ask_at_once_no_more_have_a_lease_than_may(store_url: str) -> None:
    stores = [await open_windows(store_url) for _ in range(2)]
    held, most_held, taken = 0, 0, 0

    async def call(number: int) -> None:
        nonlocal held, most_held, taken
        store = stores[number % 2]
        for turn in range(5):
            lease = f"{number} {turn}"
            if await store.acquire("ana", lease, most=MOST):
                held += 1
                taken += 1
                most_held = max(most_held, held)
                await asyncio.sleep(0.005)
                held -= 1
                await store.release("ana", lease)

    await asyncio.gather(*map(call, range(16)))
    assert 0 < most_held <= MOST
    assert taken >= MOST
    assert [await stores[0].acquire("ana", str(each), most=MOST) for each in range(MOST + 1)] == [True] * MOST + [False]
    assert await stores[0].acquire("bob", "0", most=MOST), "each client has its own"
    assert await stores[0].admit("ana", "a", of_tool=1, of_client=1) is None, "rates are apart"
    for store in stores:
        await store.close()


@pytest.mark.anyio
@pytest.mark.rule("limits.shared.lease", "limits.shared.clock")
async def test_a_lease_runs_out_and_a_clock_put_back_makes_none_longer(windows: RateStore, store_url: str) -> None:
    async def acquire(lease: str) -> bool:
        return await windows.acquire("ana", lease, most=2)

    longer = await open_windows(store_url, lease_seconds=90)
    assert [await acquire("one"), await longer.acquire("ana", "two", most=2), await acquire("three")] == [
        True,
        True,
        False,
    ]
    await shift(store_url, 59)
    assert not await acquire("three")
    await shift(store_url, 2)
    assert [await acquire("three"), await acquire("four")] == [True, False], "the longer one has its own time"
    await shift(store_url, -3600)
    assert not await acquire("four")
    await shift(store_url, 61)
    assert [await acquire("four"), await acquire("five")] == [True, False], "the other one is of 90 seconds from then"
    await shift(store_url, 30)
    assert await acquire("five")
    await longer.close()


@pytest.mark.anyio
@pytest.mark.rule("limits.shared.bounded")
async def test_a_store_forgets_leases_that_ran_out(store_url: str) -> None:
    windows = await open_windows(store_url, lease_seconds=0.3)
    assert await windows.acquire("forgotten", "x", most=1)
    if isinstance(windows, RedisRateStore):
        from redis.asyncio import Redis

        redis = Redis.from_url(store_url)
        assert 0 < await redis.pttl("carrel:limits:{forgotten}:under way") <= 1300
        await redis.aclose()
    else:
        await shift(store_url, 30)
        await windows.sweep()
        with psycopg.connect(store_url) as connection:
            assert connection.execute("SELECT count(*) FROM rate_window").fetchone() == (1,)
            connection.execute("UPDATE rate_window SET seen_at = seen_at - 31000000")
        await windows.sweep()
        with psycopg.connect(store_url) as connection:
            assert connection.execute("SELECT count(*) FROM rate_window").fetchone() == (0,)
    await asyncio.sleep(0.35)  # the store's clock is what counts
    assert await windows.acquire("forgotten", "y", most=1)
    await windows.close()


@pytest.mark.anyio
@pytest.mark.rule("limits.shared.concurrent")
async def test_a_call_that_is_cancelled_leaves_no_lease_behind(windows: RateStore) -> None:
    shared = SharedLimits(windows, RateLimiter(0), concurrent=MOST)
    limits = CallLimits(RateLimiter(0), shared, concurrent=MOST)

    async def run() -> None:
        async with limits.call("ana", "a") as seconds:
            assert seconds is None
            await asyncio.sleep(60)

    for pause in (0.0, 0.0, 0.05):  # while its lease is being taken, and later
        calls = [asyncio.create_task(run()) for _ in range(MOST)]
        await asyncio.sleep(pause)
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        while shared._requests:
            await asyncio.wait(shared._requests)
    assert limits._in_flight == {}
    assert [bool(await shared.begin("ana")) for _ in range(MOST + 1)] == [True] * MOST + [False]
    assert shared._paused_until < 0, "the store was asked, and answered"


class Flaky:
    """A store that answers only while it is there."""

    def __init__(self) -> None:
        self.is_there = True
        self.leases: set[str] = set()

    async def admit(self, client: str, tool: str, *, of_tool: int, of_client: int) -> float | None:
        return None

    async def acquire(self, client: str, lease: str, *, most: int) -> bool:
        self._answer()
        if len(self.leases) >= most:
            return False
        self.leases.add(lease)
        return True

    async def release(self, client: str, lease: str) -> None:
        self._answer()
        self.leases.discard(lease)

    async def close(self) -> None:
        pass

    def _answer(self) -> None:
        if not self.is_there:
            raise StoreUnavailable("gone")


@pytest.mark.anyio
@pytest.mark.rule("limits.shared.unreachable")
async def test_while_the_store_is_away_each_process_counts_alone_and_gives_back_later_what_it_had() -> None:
    now, store = 1000.0, Flaky()
    shared = SharedLimits(store, RateLimiter(0), lambda: now, concurrent=2)
    limits = CallLimits(RateLimiter(0), shared, concurrent=2)
    before = limits.call("ana", "a")
    assert await before.begin() is None
    store.is_there = False
    during = [limits.call("ana", "a") for _ in range(2)]
    assert [await each.begin() for each in during] == [None, 1]
    await before.end()
    await before.end()
    assert len(store.leases) == 1, "it could not be told"
    store.is_there = True
    now += 6
    after = limits.call("ana", "a")
    assert await after.begin() is None
    while shared._requests:
        await asyncio.wait(shared._requests)
    assert len(store.leases) == 1, "what was owed was given back with the next visit"
    for each in (*during, after):
        await each.end()
    assert (store.leases, limits._in_flight) == (set(), {})


# --- servers


@contextmanager
def held_up(url: str) -> Iterator[None]:
    """Every call that reads tasks waits until the end of this."""
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE task IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting(url: str) -> int:
    """Calls that are held up."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'task'::regclass"
        ).fetchone()
    return found[0] if found else 0


@pytest.mark.rule("limits.shared.concurrent", "limits.shared.lease", "limits.shared.agree")
def test_two_servers_let_through_what_one_would_at_once_and_in_a_minute(
    store_url: str, postgres_url: str, tmp_path: Path
) -> None:
    where = {"CARREL_LIMITS_REDIS_URL": store_url} if store_url.startswith("redis") else {}
    kind = "redis" if where else "database"
    env = {
        "CARREL_LIMITS_STORAGE": kind,
        "CARREL_LIMITS_CONCURRENT_CALLS": str(MOST),
        "CARREL_LIMITS_TOOLS": "complete_task=15",
        **where,
    }
    words = ("--toolsets", "tasks", "--database", postgres_url)
    with ThreadPoolExecutor(16) as pool:
        servers = list(pool.map(lambda _: HttpServer(*words, cwd=tmp_path, **env), range(2)))
        wires = [HttpWire(MODERN, each.url) for each in servers]

        def ask(number: int) -> Any:
            return value(call(wires[number % 2], "list_tasks", {"user_id": "shared"}))

        def asked(*numbers: int) -> list[Future[Any]]:
            return [pool.submit(ask, each) for each in numbers]

        with held_up(postgres_url):
            answers = asked(*range(10))
            until(lambda: sum(each.done() for each in answers) == 10 - MOST)
            until(lambda: waiting(postgres_url) == MOST)
        found = [each.result() for each in answers]
        refused = {"error": "Rate limit exceeded for list_tasks", "retryAfter": 1}
        assert sorted(found, key=str) == [[]] * MOST + [refused] * (10 - MOST)

        def in_turn(number: int) -> list[Any]:
            return [ask(number + turn) for turn in range(10)]

        assert list(pool.map(in_turn, range(MOST))) == [[[]] * 10] * MOST, "what has ended makes room at once"

        def complete(number: int) -> list[bool]:
            answers = [call(wires[turn % 2], "complete_task", {"user_id": "a", "task_id": number}) for turn in range(8)]
            return ["Rate limit" not in str(each) for each in answers]

        assert sum(sum(each) for each in pool.map(complete, range(1, MOST + 1))) == 15
        with held_up(postgres_url):
            lost = asked(0, 0, 1)
            until(lambda: waiting(postgres_url) == MOST)
            servers[0].process.kill()
            assert servers[0].process.wait() == -9
            assert ask(1) == refused, "nobody can know what became of them"
            asyncio.run(shift(store_url, 36))  # call_timeout and the margin
            later = asked(1, 1)
            until(lambda: waiting(postgres_url) == 2 * MOST - 1 or any(each.done() for each in later))
        assert [each.result() for each in (lost[2], *later)] == [[]] * 3
        assert all(isinstance(each.exception(), Exception) for each in lost[:2])
    for wire in wires:
        wire.close()
    assert [each.stop() for each in servers] == [-9, 143]
