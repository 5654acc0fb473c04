"""Log lines, on stderr only: stdout belongs to the protocol and to data."""

import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, TextIO

encode = json.JSONEncoder(default=str).encode


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return encode(line)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{timestamp(record.created)} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonHandler(logging.StreamHandler[TextIO]):
    def write(self, line: str) -> None:
        """A line that is formatted already. As with any other, a stream that is gone is no reason to fail."""
        try:
            with self.lock or nullcontext():
                self.stream.write(line)  # stderr is flushed at the end of each line
        except (OSError, ValueError):
            pass


def configure(form: str, level: str) -> None:
    """Send every logger's lines to stderr: `form` is auto, text or json."""
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    handler = _JsonHandler(sys.stderr) if form == "json" else logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("mcp", "uvicorn", "alembic", "psycopg"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))


def line_writer(log: logging.Logger) -> Callable[[str], None] | None:
    """What writes a JSON line where a logger's lines would go; None where they are text, or go anywhere else too."""
    handlers = logging.root.handlers
    if len(handlers) != 1 or log.handlers:
        return None
    handler = handlers[0]
    return handler.write if isinstance(handler, _JsonHandler) else None


def timestamp(moment: float) -> str:
    """As ISO 8601 has it, in UTC, to the millisecond."""
    seconds = int(moment)
    return f"{_second(seconds)}.{int((moment - seconds) * 1000):03}Z"


@lru_cache(maxsize=1)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was logged with `extra={"fields": {...}}`."""
    return getattr(record, "fields", {})
