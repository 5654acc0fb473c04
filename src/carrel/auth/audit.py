"""Every write and every refusal as one line: when, who, what, and what came of it. Never what was written."""

import asyncio
import logging
import time
from typing import NamedTuple, Protocol

MAX_FIELD_LENGTH = 500

log = logging.getLogger("carrel.audit")


class AuditEntry(NamedTuple):
    at: int
    """Milliseconds since 1970."""
    subject: str
    """Empty where nobody is known."""
    client: str
    """The address that it came from."""
    action: str
    """The tool, or the path of what is no tool."""
    target: str
    """The id of what it was about, if it was about one thing."""
    outcome: str


def audit_entry(*, subject: str, client: str, action: str, target: str, outcome: str) -> AuditEntry:
    return AuditEntry(time.time_ns() // 1_000_000, subject, client, _printable(action), _printable(target), outcome)


def _printable(text: str) -> str:
    """As PostgreSQL can keep it and a terminal can show it."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text[:MAX_FIELD_LENGTH])


class Audit(Protocol):
    def record(self, entry: AuditEntry) -> "asyncio.Future[None] | None":
        """None, or what is done once the line is kept."""
        ...

    async def close(self) -> None: ...


class LogAudit:
    def record(self, entry: AuditEntry) -> None:
        log.info("audit", extra={"fields": {key: value for key, value in entry._asdict().items() if key != "at"}})

    async def close(self) -> None:
        pass
