"""The calls of one process: counters, the last calls, and one log line each.

They are kept in memory that sibling workers can read.
"""

import logging
import math
import mmap
import os
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from carrel import logs

BUCKET_COUNT = 256
"""Up to an hour; the last one also holds whatever took longer."""
BUCKETS_PER_DOUBLING = 8
MIN_BUCKET_SECONDS = 0.000_25 / 2**8
"""Seconds. Chosen so that every bound of the Prometheus histogram is a bound here too."""
FIRST_HISTOGRAM_BUCKET = 64
"""The bucket that begins at 0.25 ms, the lowest bound of the Prometheus histogram."""


def bucket_index(seconds: float) -> int:
    if seconds <= MIN_BUCKET_SECONDS:
        return 0
    return min(BUCKET_COUNT - 1, int(math.log2(seconds / MIN_BUCKET_SECONDS) * BUCKETS_PER_DOUBLING))


def bucket_seconds(bucket: int) -> float:
    """The middle of a bucket."""
    return MIN_BUCKET_SECONDS * 2 ** ((bucket + 0.5) / BUCKETS_PER_DOUBLING)


class CallRecord(NamedTuple):
    """Made once for each call. It never holds the result, and arguments only where the settings ask for them."""

    toolset: str
    tool: str
    outcome: str
    """`ok`, `refused` for the caller's fault, `limited` past the rate limit, `failed` for ours, or `cancelled`."""
    seconds: float
    size: int
    """Characters of the result as JSON."""
    at: float
    """Seconds since 1970 when the call ended."""
    is_slow: bool = False
    """Whether it took longer than its contract allows."""
    arguments: dict[str, Any] | None = None
    subject: str = ""
    """Who called, where the caller is known."""


Observer = Callable[[CallRecord], None]


MAX_CALLS = 4096
"""Calls of which each is kept for itself."""
HISTORY_MINUTES = 30
MAX_SERIES = 1024
FILE_SUFFIX = ".calls"

_HEAD = struct.Struct("<dQQ")
"""When the process began, how many calls it has answered, and how many series these are of."""
_TOTAL, _SERIES_COUNT = 1, 2
"""Of those, as places in the head."""
_NAME = struct.Struct("<16s48s16s")
_CALL = struct.Struct("<ddIHxx16s88s")
_SLOTS = HISTORY_MINUTES + 2
_MINUTES_AT = 64
"""For each slot: which minute since 1970, and its calls."""
_NAMES_AT = 1024
_SUMS_AT = _NAMES_AT + MAX_SERIES * _NAME.size
_COUNTS_AT = _SUMS_AT + MAX_SERIES * 8
_CALLS_AT = _COUNTS_AT + MAX_SERIES * BUCKET_COUNT * 8
_SIZE = _CALLS_AT + MAX_CALLS * _CALL.size
"""2.7 MB, of which no more is real memory than was written to."""
_MAX_RESULT = 2**32 - 1


class Series(NamedTuple):
    """What calls are counted by."""

    toolset: str
    tool: str
    outcome: str


class Call(NamedTuple):
    at: float
    """Seconds since 1970 when it was answered."""
    seconds: float
    size: int
    outcome: str
    toolset: str
    tool: str
    user_key: bytes
    """Tells users apart whose names are longer than what is kept of them."""
    user: str


class CallStore:
    """Written by one process, on its event loop. Nothing is waited for, and nothing grows."""

    def __init__(self, folder: Path | None = None) -> None:
        """In a file in `folder`; without one, in the memory of this process."""
        self.folder = folder
        if folder is None:
            self.memory = mmap.mmap(-1, _SIZE)
            _HEAD.pack_into(self.memory, 0, time.time(), 0, 0)
        else:
            name = folder / f"{os.getpid()}-{time.time_ns()}"  # a later process may have the same number
            with name.open("w+b") as file:
                file.truncate(_SIZE)
                self.memory = mmap.mmap(file.fileno(), _SIZE)
            _HEAD.pack_into(self.memory, 0, time.time(), 0, 0)
            name.rename(f"{name}{FILE_SUFFIX}")  # readers only ever see a complete file
        view = memoryview(self.memory)
        self._head = view[: _HEAD.size].cast("Q")
        self._minutes = view[_MINUTES_AT : _MINUTES_AT + _SLOTS * 16].cast("Q")
        self._sums = view[_SUMS_AT:_COUNTS_AT].cast("d")
        self._counts = view[_COUNTS_AT:_CALLS_AT].cast("Q")
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._names: list[Series] = []
        self._total = 0
        self._wake: Callable[[], None] | None = None

    def record(self, record: CallRecord) -> None:
        number = self._numbers.get(record[:3])
        if number is None:
            number = self._add_series(Series(*record[:3]))
        total, at, seconds = self._total, record.at, record.seconds
        self._counts[number * BUCKET_COUNT + bucket_index(seconds)] += 1
        self._sums[number] += seconds
        place = _CALLS_AT + total % MAX_CALLS * _CALL.size
        size = min(record.size, _MAX_RESULT)
        _CALL.pack_into(self.memory, place, at, seconds, size, number, *_user(record.subject))
        self._total = self._head[_TOTAL] = total + 1  # last: readers go by it
        minute = int(at) // 60
        slot = minute % _SLOTS * 2
        if self._minutes[slot] != minute:
            self._minutes[slot] = minute
            self._minutes[slot + 1] = 0
        self._minutes[slot + 1] += 1
        if self._wake is not None:
            wake, self._wake = self._wake, None
            wake()

    def on_next_call(self, wake: Callable[[], None]) -> None:
        """Have `wake` called once, with the next call that is noted."""
        self._wake = wake

    def counts(self) -> dict[Series, list[int]]:
        """By series, the number of its calls in each bucket of duration."""
        return {
            series: self._counts[number * BUCKET_COUNT : (number + 1) * BUCKET_COUNT].tolist()
            for number, series in enumerate(self._names)
        }

    def _add_series(self, series: Series) -> int:
        number = len(self._names)
        if number == MAX_SERIES:  # there are not nearly that many tools; if there were, the last would hold the rest
            self._numbers[series] = number - 1
            return number - 1
        _NAME.pack_into(self.memory, _NAMES_AT + number * _NAME.size, *(name.encode() for name in series))
        self._names.append(series)
        self._numbers[series] = number
        self._head[_SERIES_COUNT] = number + 1
        return number


@lru_cache(1024)
def _user(subject: str) -> tuple[bytes, bytes]:
    return user_key(subject), subject.encode("utf-8", "replace")[:88]


def user_key(subject: str) -> bytes:
    return blake2b(subject.encode("utf-8", "replace"), digest_size=16).digest() if subject else bytes(16)


class CallReader:
    """One process's store, read by any process; what was read before is not read again."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._seen = 0
        self._names: list[Series] = []
        self.calls: deque[Call] = deque(maxlen=MAX_CALLS)
        """The oldest first."""

    @property
    def started(self) -> float:
        return _HEAD.unpack_from(self._memory, 0)[0]

    @property
    def is_full(self) -> bool:
        """Whether older calls have been forgotten."""
        return self._seen > MAX_CALLS

    def read(self) -> None:
        memory, before = self._memory, self._seen
        until = self._total()
        first = max(before, until - MAX_CALLS)
        parts = [
            (number, _CALL.unpack_from(memory, _CALLS_AT + number % MAX_CALLS * _CALL.size))
            for number in range(first, until)
        ]
        # The writer may have come round meanwhile, and may be writing one more at this moment.
        oldest = self._total() - MAX_CALLS + 1
        names = self._series()
        self.calls.extend(_call(fields, names) for number, fields in parts if number >= oldest)
        self._seen = until

    def minutes(self) -> dict[int, int]:
        """Calls by the minute since 1970."""
        slots = self._memory[_MINUTES_AT : _MINUTES_AT + _SLOTS * 16]
        return dict(struct.Struct("<QQ").iter_unpack(slots))

    def totals(self) -> Iterable[tuple[Series, list[int], float]]:
        """Each series, its calls in each bucket of duration, and the seconds that they took together."""
        for number, series in enumerate(self._series()):
            counts = struct.unpack_from(f"<{BUCKET_COUNT}Q", self._memory, _COUNTS_AT + number * BUCKET_COUNT * 8)
            (seconds,) = struct.unpack_from("<d", self._memory, _SUMS_AT + number * 8)
            yield series, list(counts), seconds

    def _series(self) -> list[Series]:
        for number in range(len(self._names), _HEAD.unpack_from(self._memory, 0)[_SERIES_COUNT]):
            names = _NAME.unpack_from(self._memory, _NAMES_AT + number * _NAME.size)
            self._names.append(Series(*map(_text, names)))
        return self._names

    def _total(self) -> int:
        return _HEAD.unpack_from(self._memory, 0)[_TOTAL]


def _call(fields: tuple[float, float, int, int, bytes, bytes], names: list[Series]) -> Call:
    at, seconds, size, number, user_key, user = fields
    series = names[number]
    return Call(at, seconds, size, series.outcome, series.toolset, series.tool, user_key, _text(user))


@lru_cache(4096)
def _text(kept: bytes) -> str:
    return kept.rstrip(b"\0").decode(errors="ignore")


class CallReaders:
    """The stores of all processes that serve this desk, those that have ended included."""

    def __init__(self, own: CallStore) -> None:
        self._folder = own.folder
        self._readers: dict[str, CallReader] = {}
        if own.folder is None:
            self._readers[""] = CallReader(own.memory)

    def read(self) -> Iterable[CallReader]:
        for path in self._folder.glob(f"*{FILE_SUFFIX}") if self._folder else ():
            if path.name not in self._readers:
                with suppress(OSError), path.open("rb") as file:
                    memory = mmap.mmap(file.fileno(), _SIZE, access=mmap.ACCESS_READ)
                    self._readers[path.name] = CallReader(memory)
        for reader in self._readers.values():
            reader.read()
        return self._readers.values()


log = logging.getLogger("carrel.calls")


def log_call(record: CallRecord) -> None:
    """One line a call; never with its result."""
    level = logging.INFO
    if record.outcome == "failed":
        level = logging.ERROR
    elif record.is_slow:
        level = logging.WARNING
    if not log.isEnabledFor(level):
        return
    if (write := logs.line_writer(log)) is None:
        # Not log.log(), which walks the stack to find its caller.
        entry = log.makeRecord(log.name, level, "", 0, "call", (), None, extra={"fields": _fields(record)})
        log.handle(entry)
        return
    # As the handler would format it, without the logging machinery: that costs more than the rest of a short call.
    more = ', "slow": true' if record.is_slow else ""
    if record.arguments is not None:
        more += f', "arguments": {logs.encode(record.arguments)}'
    write(
        f'{{"time": "{logs.timestamp(record.at)}", {_about(level, *record[:3])}, '
        f'"ms": {round(record.seconds * 1000, 3)}, "size": {record.size}{more}}}\n'
    )


@lru_cache(1024)
def _about(level: int, toolset: str, tool: str, outcome: str) -> str:
    """The part of a line that is the same for many calls."""
    fields = {
        "level": logging.getLevelName(level).lower(),
        "logger": log.name,
        "event": "call",
        "tool": tool,
        "toolset": toolset,
        "outcome": outcome,
    }
    return logs.encode(fields)[1:-1]


def _fields(record: CallRecord) -> dict[str, object]:
    fields: dict[str, object] = {
        "tool": record.tool,
        "toolset": record.toolset,
        "outcome": record.outcome,
        "ms": round(record.seconds * 1000, 3),
        "size": record.size,
    }
    if record.is_slow:
        fields["slow"] = True
    if record.arguments is not None:
        fields["arguments"] = record.arguments
    return fields
