"""The log line of a call."""

import logging
from functools import lru_cache

from carrel import logs
from carrel.calls.record import CallRecord

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
