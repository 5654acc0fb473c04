"""Times: milliseconds since 1970 within, ISO 8601 in UTC to the outside."""

import re
from datetime import datetime, timedelta

from carrel.common import iso

_EPOCH = datetime(1970, 1, 1)  # UTC throughout; without a zone it prints without one
DAY = 24 * 60 * 60 * 1000
BEGINNING, END = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last instant of the calendar: the years 1 to 9999."""
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,3}))?Z)?", re.ASCII)

FORMATS = "YYYY-MM-DD or YYYY-MM-DDTHH:mm:ss.sssZ"


def iso_or_none(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds)


def first_instant(text: str) -> int | None:
    """The instant that a date or a UTC timestamp stands for, a date's first; None for anything else."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00:00'}")
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "").ljust(3, "0"))


def last_instant(text: str) -> int | None:
    """As `first_instant`, but a date's last."""
    first = first_instant(text)
    return first if first is None or "T" in text else first + DAY - 1
