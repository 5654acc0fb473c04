"""What the last calls come to: how many of which, how long they took, and which went wrong."""

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from heapq import nlargest
from typing import Any, NamedTuple

from carrel.calls.store import MINUTES, Call, CallReader, CallReaders, who
from carrel.common import iso

WINDOW_SECONDS = 300
LEAST_SECONDS = 60
MOST_RECENT = 50
ERRORS = frozenset({"refused", "limited", "failed"})


class Figures(NamedTuple):
    started: float
    window: int
    """Seconds that the tools' figures are of: fewer than usual where the server has just begun, or so many calls came
    that not all are kept."""
    tools: list[dict[str, Any]]
    minutes: list[int]
    recent: list[dict[str, Any]]


def figures(stores: CallReaders, only: str | None, now: float | None = None) -> Figures:
    """Of all calls, or `only` those of one user."""
    now = time.time() if now is None else now
    readers = list(stores.read())
    started = min(reader.started for reader in readers)
    usual = min(WINDOW_SECONDS, max(LEAST_SECONDS, now - started))
    since = max((now - usual, *(reader.calls[0].at for reader in readers if reader.is_full and reader.calls)))
    calls = [call for reader in readers for call in reader.calls]
    if only is not None:
        wanted = who(only)
        calls = [call for call in calls if call.who == wanted]
    window = max(1, round(now - since))
    return Figures(
        started,
        window,
        _tools([call for call in calls if call.at >= since], window),
        _minutes(readers, calls if only is not None else None, now),
        [_recent(call) for call in nlargest(MOST_RECENT, calls, key=lambda call: call.at)],
    )


def instant(seconds: float) -> str:
    """As ISO 8601 has it, in UTC."""
    return iso(round(seconds * 1000))


def _tools(calls: Iterable[Call], window: int) -> list[dict[str, Any]]:
    by_tool: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        by_tool[call.toolset, call.tool].append(call)
    most_first = sorted(by_tool.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_tool(*name, some, window) for name, some in most_first]


def _tool(toolset: str, tool: str, calls: list[Call], window: int) -> dict[str, Any]:
    durations = sorted(call.seconds for call in calls)
    return {
        "toolset": toolset,
        "tool": tool,
        "calls": len(calls),
        "perMinute": round(len(calls) * 60 / window, 1),
        "errors": sum(call.outcome in ERRORS for call in calls),
        **{f"p{percent}": milliseconds(percentile(durations, percent)) for percent in (50, 95, 99)},
    }


def percentile(ordered: list[float], percent: int) -> float:
    """The least that so many in a hundred do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _minutes(readers: Iterable[CallReader], calls: Iterable[Call] | None, now: float) -> list[int]:
    """Calls in each of the last minutes; a single user's as far as they are kept."""
    counted: defaultdict[int, int] = defaultdict(int)
    if calls is None:
        for reader in readers:
            for minute, total in reader.minutes().items():
                counted[minute] += total
    else:
        for call in calls:
            counted[int(call.at // 60)] += 1
    last = int(now // 60)
    return [counted[minute] for minute in range(last - MINUTES + 1, last + 1)]


def _recent(call: Call) -> dict[str, Any]:
    return {
        "at": instant(call.at),
        "toolset": call.toolset,
        "tool": call.tool,
        "outcome": call.outcome,
        "ms": milliseconds(call.seconds),
        "bytes": call.size,
        "user": call.user or None,
    }
