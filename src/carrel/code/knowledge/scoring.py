"""How much a file gains in a search from being read: a little, and less as time passes."""

import math

MOST = 0.05
"""No file gains more: what answers the query goes before what is read often."""
MANY_READS = 100
"""Reads from which more make no difference."""
HALF_LIFE = 14 * 24 * 60 * 60 * 1000
"""Milliseconds after which a file that is not read any more gains half as much."""


def boost(count: int, last: int, now: int) -> float:
    """From 0 to `MOST`; grows with how often a file was read, falls with how long ago. Times are in milliseconds."""
    if count <= 0:
        return 0.0
    often = min(1.0, math.log1p(count) / math.log1p(MANY_READS))
    return MOST * often * 0.5 ** (max(0, now - last) / HALF_LIFE)


def boosted(score: float, gain: float) -> float:
    """A score from 0 to 1 with its gain: still within 1, and in the same order as the scores of others that gain as
    much."""
    return score + (1.0 - score) * gain
