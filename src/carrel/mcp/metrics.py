"""What an operator is told at /metrics.

Where several workers share a port, each keeps its numbers in a file and whoever is asked adds them up: what is not
counted but looked at, such as connections, is looked at by every worker a few times a minute.
"""

import asyncio
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from carrel.calls.call_store import BUCKETS, FIRST_BOUND, PER_DOUBLING, CallReaders, CallStore

if TYPE_CHECKING:
    from prometheus_client import Metric

LOOK_SECONDS = 5.0
BACKLOG_EVERY = 12
"""Looks; counting what is to be indexed is more work."""
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
BOUNDS = [0.000_25 * math.sqrt(2) ** step for step in range(34)]
"""Of the histogram of durations, in seconds: each is a bound of a bucket that durations are counted in."""

Refusals = Callable[[str], None]


class Connections(NamedTuple):
    """Of a pool."""

    open: int
    idle: int
    waiting: int
    """Calls that wait for one."""


class Flights:
    """How many calls are under way; a plain number, for it changes twice in every call."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Watched(Protocol):
    """What is looked at."""

    @property
    def flights(self) -> Flights: ...

    @property
    def calls(self) -> CallStore: ...

    def connections(self) -> Connections | None:
        """None where there is no pool."""
        ...

    async def backlog(self) -> int | None:
        """Passages whose meaning is to be indexed; None where nobody knows."""
        ...


class _Gauges:
    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge

        self.flights = Gauge("carrel_calls_in_flight", "Tool calls under way", multiprocess_mode="livesum")
        self.connections = Gauge(
            "carrel_database_connections",
            "Connections of the database pools",
            ["state"],
            multiprocess_mode="livesum",
        )
        self.waiting = Gauge(
            "carrel_database_waiting", "Calls that wait for a database connection", multiprocess_mode="livesum"
        )
        self.backlog = Gauge(
            "carrel_index_pending_passages",
            "Passages whose meaning is not indexed yet",
            multiprocess_mode="mostrecent",
        )
        self.info = Gauge(
            "carrel_build_info", "What runs, always 1", ["version", "python", "database"], multiprocess_mode="max"
        )
        self.memory = self.processor = None
        if MULTIPROCESS in os.environ:  # prometheus_client's own switch; alone, it tells process_* by itself
            self.memory = Gauge(
                "carrel_worker_resident_memory_bytes", "Memory of a worker", multiprocess_mode="liveall"
            )
            self.processor = Gauge(
                "carrel_worker_cpu_seconds", "Processor time of a worker since its start", multiprocess_mode="liveall"
            )
        self.refusals = Counter("carrel_refusals", "Requests that were let in by no gateway, by reason", ["reason"])


@cache
def _gauges() -> _Gauges:
    """Once in a process: the registry takes each name once."""
    return _Gauges()


def refusal_counter() -> Refusals:
    """To be told the reason of each refusal at the gateway: `no token`, `bad token`, `scope`, `host`, `origin`."""
    counter: Any = _gauges().refusals
    return lambda reason: counter.labels(reason).inc()


class Watch:
    """Looks at what there is while the context lasts, and whenever somebody asks for the numbers."""

    def __init__(self, watched: Watched, *, version: str, database: str) -> None:
        import platform

        self._watched = watched
        self._gauges = _gauges()
        self.calls = CallCollector(CallReaders(watched.calls))
        self._gauges.info.labels(version, platform.python_version(), database).set(1)

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._run())
        _watches.append(self)

    async def __aexit__(self, *_: object) -> None:
        _watches.remove(self)
        self._task.cancel()
        await asyncio.wait([self._task])

    def look(self) -> None:
        gauges = self._gauges
        gauges.flights.set(self._watched.flights.count)
        if (connections := self._watched.connections()) is not None:
            gauges.connections.labels("open").set(connections.open)
            gauges.connections.labels("idle").set(connections.idle)
            gauges.waiting.set(connections.waiting)
        if gauges.memory is not None and gauges.processor is not None:
            gauges.memory.set(_resident_bytes())
            gauges.processor.set(sum(os.times()[:2]))

    async def _run(self) -> None:
        looks = 0
        while True:
            self.look()
            if looks % BACKLOG_EVERY == 0 and (backlog := await self._watched.backlog()) is not None:
                self._gauges.backlog.set(backlog)
            looks += 1
            await asyncio.sleep(LOOK_SECONDS)


_watches: list[Watch] = []


def page() -> tuple[bytes, str]:
    """The numbers of this process, or of all workers together, and their content type."""
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

    for watch in _watches:
        watch.look()
    registry = REGISTRY
    if folder := os.environ.get(MULTIPROCESS):
        from prometheus_client import multiprocess

        _forget_the_dead(Path(folder).glob("gauge_live*.db"))
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    calls = CollectorRegistry()
    for watch in _watches:
        calls.register(watch.calls)
    return generate_latest(calls) + generate_latest(registry), CONTENT_TYPE_LATEST


class CallCollector:
    """Reads the calls of all workers when somebody asks, so that a call itself has nothing to do with Prometheus."""

    def __init__(self, readers: CallReaders) -> None:
        self._readers = readers

    def describe(self) -> "Iterable[Metric]":
        return ()

    def collect(self) -> "Iterable[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        calls: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * BUCKETS)
        seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        for reader in self._readers.read():
            for series, found, taken in reader.totals():
                calls[series] += sum(found)
                tool = series[:2]
                counts[tool] = [one + other for one, other in zip(counts[tool], found, strict=True)]
                seconds[tool] += taken
        total = CounterMetricFamily("carrel_calls", "Tool calls", labels=["toolset", "tool", "outcome"])
        for labels, count in calls.items():
            total.add_metric(labels, count)
        yield total
        histogram = HistogramMetricFamily("carrel_call_seconds", "Duration of tool calls", labels=["toolset", "tool"])
        for labels, found in counts.items():
            below = [0, *accumulate(found)]
            step = PER_DOUBLING // 2  # the bounds are a factor of the root of 2 apart
            buckets = [(str(le), below[FIRST_BOUND + i * step]) for i, le in enumerate(BOUNDS)]
            histogram.add_metric(labels, [*buckets, ("+Inf", below[-1])], seconds[labels])
        yield histogram


def _forget_the_dead(files: Iterable[Path]) -> None:
    """A worker that was killed takes back nothing: its connections are not there any more."""
    from prometheus_client import multiprocess

    for pid in {int(path.stem.rpartition("_")[2]) for path in files}:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(pid)  # pyright: ignore[reportUnknownMemberType] - the library has no types there
        except PermissionError:
            continue


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
