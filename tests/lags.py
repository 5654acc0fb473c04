"""How long calls keep the event loop of a server from others; see `benchmarks/lag_probe.py`."""

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import lag_probe
from benchmarks.lag_probe import Lag

MAX_LAG_MS = 100
SETTLING_SECONDS = 0.3


def lag_of(lags: Path, work: Callable[[], object]) -> Lag:
    """The longest that the server kept others waiting over this, by its own fault."""
    since = time.time()
    work()
    while lag_probe.lags(lags, time.time() - SETTLING_SECONDS):
        time.sleep(0.1)
    return lag_probe.worst(lags, since)


def lag_of_retried(lags: Path, work: Callable[[], object]) -> Lag:
    """The same. What is too long is done once more: a busy machine, or a collection of garbage."""
    found = lag_of(lags, work)
    return found if found.own_ms < MAX_LAG_MS else lag_of(lags, work)
