"""Helpers that several packages share: storable text, UUIDs, times, and the types of progress callbacks."""

import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

UUID: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
RFC_4122_UUID: Final = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
"""Of the versions and the variant that RFC 4122 has."""

UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
"""PostgreSQL takes no NUL, and UTF-8 no half of a surrogate pair."""
SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""JSON can spell half of a pair, and a file name can hold one; UTF-8 cannot."""

_EPOCH: Final = datetime(1970, 1, 1)  # UTC throughout; without a zone it prints without one

Progress = Callable[[int], None]
"""Progress callback: how many more are done."""
TotalProgress = Callable[[int, int], None]
"""Progress callback: done, total."""
StepProgress = Callable[[str, int, int], None]
"""Progress callback: step, how many more are done, total."""
AsyncProgress = Callable[[float, float, str], Awaitable[None]]
"""Progress callback that may send: done, total, message."""


def is_storable(text: str) -> bool:
    """Whether every engine can keep the text."""
    return UNSTORABLE.search(text) is None


def now() -> int:
    """Return milliseconds since 1970, the form in which all times are stored."""
    return time.time_ns() // 1_000_000


def iso(milliseconds: int) -> str:
    """Format a time as ISO 8601 in UTC, with milliseconds."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds") + "Z"


_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:\d{2})?)?", re.ASCII)
INSTANT_FORMATS = "a day, YYYY-MM-DD, or a time, YYYY-MM-DDTHH:mm:ssZ"


def instant(text: str) -> int | None:
    """Parse a date or time, in UTC unless it names a zone; return None for anything else."""
    if _ISO.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _UTC_EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None
