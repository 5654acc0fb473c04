"""The last calls of one process, kept where its sibling processes can read them."""

import mmap
import os
import struct
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from carrel.mcp.pipeline import CallRecord

KEPT = 4096
"""Calls."""
MINUTES = 30
SUFFIX = ".ring"
OUTCOMES = ("", "ok", "refused", "limited", "failed", "cancelled")

_HEAD = struct.Struct("<dQ")
"""When the process began, and how many calls it has answered."""
_MINUTE = struct.Struct("<QQ")
"""Which minute since 1970, and its calls."""
_CALL = struct.Struct("<ddIB3x16s48s16s88s")
_MINUTES_AT = _HEAD.size
_CALLS_AT = 1024
_SLOTS = MINUTES + 2
_SIZE = _CALLS_AT + KEPT * _CALL.size
_LONGEST = 2**32 - 1


class Call(NamedTuple):
    at: float
    """Seconds since 1970 when it was answered."""
    seconds: float
    size: int
    outcome: str
    toolset: str
    tool: str
    who: bytes
    """Tells users apart whose names are longer than what is kept of them."""
    user: str


class Ring:
    """Written by one process alone. A call costs a few microseconds: nothing is waited for, nothing grows."""

    def __init__(self, folder: Path | None = None) -> None:
        """In a file in `folder`; without one, in the memory of this process."""
        if folder is None:
            self._memory = mmap.mmap(-1, _SIZE)
            _HEAD.pack_into(self._memory, 0, time.time(), 0)
        else:
            name = folder / f"calls-{os.getpid()}-{time.time_ns()}"  # a number may be another process's later
            with name.open("w+b") as file:
                file.truncate(_SIZE)
                self._memory = mmap.mmap(file.fileno(), _SIZE)
            _HEAD.pack_into(self._memory, 0, time.time(), 0)
            name.rename(f"{name}{SUFFIX}")  # whole by now
        self.folder = folder
        self._count = 0

    @property
    def memory(self) -> mmap.mmap:
        return self._memory

    def note(self, record: CallRecord) -> None:
        """To be called on the event loop."""
        memory, count, now = self._memory, self._count, time.time()
        _CALL.pack_into(
            memory,
            _CALLS_AT + count % KEPT * _CALL.size,
            now,
            record.seconds,
            min(record.size, _LONGEST),
            OUTCOMES.index(record.outcome) if record.outcome in OUTCOMES else 0,
            record.toolset.encode(),
            record.tool.encode(),
            *_user(record.subject),
        )
        self._count = count + 1
        struct.pack_into("<Q", memory, 8, self._count)  # last: who reads goes by it
        minute = int(now // 60)
        place = _MINUTES_AT + minute % _SLOTS * _MINUTE.size
        kept, calls = _MINUTE.unpack_from(memory, place)
        _MINUTE.pack_into(memory, place, minute, calls + 1 if kept == minute else 1)

    def close(self) -> None:
        self._memory.close()


@lru_cache(1024)
def _user(subject: str) -> tuple[bytes, bytes]:
    return who(subject), subject.encode()[:88]


def who(subject: str) -> bytes:
    return blake2b(subject.encode(), digest_size=16).digest() if subject else bytes(16)


class RingReader:
    """One process's ring, read by any; what was read before is not read again."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._seen = 0
        self.calls: deque[Call] = deque(maxlen=KEPT)
        """The oldest first."""

    @property
    def started(self) -> float:
        return _HEAD.unpack_from(self._memory, 0)[0]

    @property
    def is_full(self) -> bool:
        """Whether older calls have been forgotten."""
        return self._seen > KEPT

    def read(self) -> None:
        memory, before = self._memory, self._seen
        until = self._total()
        first = max(before, until - KEPT)
        parts = [
            (number, _CALL.unpack_from(memory, _CALLS_AT + number % KEPT * _CALL.size))
            for number in range(first, until)
        ]
        # Its writer may have come round meanwhile, and is perhaps just writing one more.
        oldest = self._total() - KEPT + 1
        self.calls.extend(_call(fields) for number, fields in parts if number >= oldest)
        self._seen = until

    def minutes(self) -> dict[int, int]:
        """Calls by the minute since 1970."""
        slots = self._memory[_MINUTES_AT : _MINUTES_AT + _SLOTS * _MINUTE.size]
        return dict(_MINUTE.iter_unpack(slots))

    def _total(self) -> int:
        return _HEAD.unpack_from(self._memory, 0)[1]


def _call(fields: tuple[float, float, int, int, bytes, bytes, bytes, bytes]) -> Call:
    at, seconds, size, outcome, toolset, tool, user_key, user = fields
    return Call(at, seconds, size, OUTCOMES[outcome], _text(toolset), _text(tool), user_key, _text(user))


@lru_cache(4096)
def _text(kept: bytes) -> str:
    return kept.rstrip(b"\0").decode(errors="ignore")


class Rings:
    """The rings of all processes that serve this desk."""

    def __init__(self, own: Ring) -> None:
        self._folder = own.folder
        self._readers: dict[str, RingReader] = {}
        if own.folder is None:
            self._readers[""] = RingReader(own.memory)

    def read(self) -> Iterable[RingReader]:
        for path in self._folder.glob(f"*{SUFFIX}") if self._folder else ():
            if path.name not in self._readers:
                with suppress(OSError), path.open("rb") as file:
                    memory = mmap.mmap(file.fileno(), _SIZE, access=mmap.ACCESS_READ)
                    self._readers[path.name] = RingReader(memory)
        for reader in self._readers.values():
            reader.read()
        return self._readers.values()
