"""What watches the calls: the log, and Prometheus metrics where somebody can ask for them."""

import logging
import math

from carrel.mcp.pipeline import CallRecord, Observer

log = logging.getLogger("carrel.calls")


def log_call(record: CallRecord) -> None:
    """One line a call; never with its result."""
    level = logging.WARNING if record.is_slow else logging.INFO
    if record.outcome == "failed":
        level = logging.ERROR
    if log.isEnabledFor(level):
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
        # Not log.log(), which walks the stack to find its caller: a third of what the line costs.
        log.handle(log.makeRecord(log.name, level, "", 0, "call", (), None, extra={"fields": fields}))


def prometheus_observer() -> Observer:
    """Counts and times calls in prometheus_client's registry, its buckets a factor of the root of 2 apart."""
    from prometheus_client import Counter, Histogram

    buckets = [0.000_25 * math.sqrt(2) ** step for step in range(34)]
    calls = Counter("carrel_calls", "Tool calls", ["toolset", "tool", "outcome"])
    seconds = Histogram("carrel_call_seconds", "Duration of tool calls", ["toolset", "tool"], buckets=buckets)

    def observe(record: CallRecord) -> None:
        calls.labels(record.toolset, record.tool, record.outcome).inc()
        seconds.labels(record.toolset, record.tool).observe(record.seconds)

    return observe
