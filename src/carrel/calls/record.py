"""One call as everything that watches calls sees it."""

from collections.abc import Callable
from typing import Any, NamedTuple


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
