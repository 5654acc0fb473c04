"""Durations of calls in logarithmic buckets, eight for each doubling: a percentile is at most 5 % off."""

import math

BUCKETS = 256
"""Up to an hour; the last one also holds whatever took longer."""
PER_DOUBLING = 8
SHORTEST = 0.000_25 / 2**8
"""Seconds. Chosen so that every bound of the Prometheus histogram is a bound here too."""
FIRST_BOUND = 64
"""The bucket that begins at 0.25 ms, the lowest bound of the Prometheus histogram."""


def bucket_of(seconds: float) -> int:
    if seconds <= SHORTEST:
        return 0
    return min(BUCKETS - 1, int(math.log2(seconds / SHORTEST) * PER_DOUBLING))


def seconds_of(bucket: int) -> float:
    """The middle of a bucket."""
    return SHORTEST * 2 ** ((bucket + 0.5) / PER_DOUBLING)
