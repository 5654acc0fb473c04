"""Log lines, on stderr only: stdout belongs to the protocol and to data."""

import json
import logging
import sys
import time
from functools import lru_cache
from typing import Any

_encode = json.JSONEncoder(default=str).encode


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(form: str, level: str) -> None:
    """Send every logger's lines to stderr: `form` is auto, text or json."""
    if form == "auto":
        form = "text" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("mcp", "uvicorn", "alembic", "psycopg"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))


def _time(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03}Z"


@lru_cache(maxsize=1)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was logged with `extra={"fields": {...}}`."""
    return getattr(record, "fields", {})
