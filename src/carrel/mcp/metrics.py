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

from carrel.calls.call_store import BUCKET_COUNT, BUCKETS_PER_DOUBLING, FIRST_HISTOGRAM_BUCKET, CallReaders, CallStore

if TYPE_CHECKING:
    from prometheus_client import Metric

SAMPLE_INTERVAL_SECONDS = 5.0
SAMPLES_PER_BACKLOG_COUNT = 12
"""Looks; counting what is to be indexed is more work."""
MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
HISTOGRAM_BOUNDS = [0.000_25 * math.sqrt(2) ** step for step in range(34)]
"""Of the histogram of durations, in seconds: each is a bound of a bucket that durations are counted in."""

Refusals = Callable[[str], None]


class PoolConnections(NamedTuple):
    """Of a pool."""

    open: int
    idle: int
    waiting: int
    """Calls that wait for one."""


class InFlight:
    """How many calls are under way; a plain number, for it changes twice in every call."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class MetricsSource(Protocol):
    """What is looked at."""

    @property
    def in_flight(self) -> InFlight: ...

    @property
    def calls(self) -> CallStore: ...

    def connections(self) -> PoolConnections | None:
        """None where there is no pool."""
        ...

    async def backlog(self) -> int | None:
        """Passages whose meaning is to be indexed; None where nobody knows."""
        ...


class _Gauges:
    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge

        self.in_flight = Gauge("carrel_calls_in_flight", "Tool calls under way", multiprocess_mode="livesum")
        self.connections = Gauge(
            "carrel_database_connections",
            "PoolConnections of the database pools",
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
        if MULTIPROCESS_VARIABLE in os.environ:  # prometheus_client's own switch; alone, it tells process_* by itself
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


class MetricsSampler:
    """Looks at what there is while the context lasts, and whenever somebody asks for the numbers."""

    def __init__(self, source: MetricsSource, *, version: str, database: str) -> None:
        import platform

        self._source = source
        self._gauges = _gauges()
        self.calls = CallCollector(CallReaders(source.calls))
        self._gauges.info.labels(version, platform.python_version(), database).set(1)

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._run())
        _samplers.append(self)

    async def __aexit__(self, *_: object) -> None:
        _samplers.remove(self)
        self._task.cancel()
        await asyncio.wait([self._task])

    def sample(self) -> None:
        gauges = self._gauges
        gauges.in_flight.set(self._source.in_flight.count)
        if (connections := self._source.connections()) is not None:
            gauges.connections.labels("open").set(connections.open)
            gauges.connections.labels("idle").set(connections.idle)
            gauges.waiting.set(connections.waiting)
        if gauges.memory is not None and gauges.processor is not None:
            gauges.memory.set(_resident_bytes())
            gauges.processor.set(sum(os.times()[:2]))

    async def _run(self) -> None:
        samples = 0
        while True:
            self.sample()
            if samples % SAMPLES_PER_BACKLOG_COUNT == 0 and (backlog := await self._source.backlog()) is not None:
                self._gauges.backlog.set(backlog)
            samples += 1
            await asyncio.sleep(SAMPLE_INTERVAL_SECONDS)


_samplers: list[MetricsSampler] = []


def render_metrics() -> tuple[bytes, str]:
    """The numbers of this process, or of all workers together, and their content type."""
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

    for sampler in _samplers:
        sampler.sample()
    registry = REGISTRY
    if folder := os.environ.get(MULTIPROCESS_VARIABLE):
        from prometheus_client import multiprocess

        _remove_dead_workers(Path(folder).glob("gauge_live*.db"))
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    calls = CollectorRegistry()
    for sampler in _samplers:
        calls.register(sampler.calls)
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
        counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * BUCKET_COUNT)
        seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        for reader in self._readers.read():
            for series, found, total_seconds in reader.totals():
                calls[series] += sum(found)
                tool = series[:2]
                counts[tool] = [one + other for one, other in zip(counts[tool], found, strict=True)]
                seconds[tool] += total_seconds
        total = CounterMetricFamily("carrel_calls", "Tool calls", labels=["toolset", "tool", "outcome"])
        for labels, count in calls.items():
            total.add_metric(labels, count)
        yield total
        histogram = HistogramMetricFamily("carrel_call_seconds", "Duration of tool calls", labels=["toolset", "tool"])
        for labels, found in counts.items():
            below = [0, *accumulate(found)]
            step = BUCKETS_PER_DOUBLING // 2  # the bounds are a factor of the root of 2 apart
            buckets = [(str(le), below[FIRST_HISTOGRAM_BUCKET + i * step]) for i, le in enumerate(HISTOGRAM_BOUNDS)]
            histogram.add_metric(labels, [*buckets, ("+Inf", below[-1])], seconds[labels])
        yield histogram


def _remove_dead_workers(files: Iterable[Path]) -> None:
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
