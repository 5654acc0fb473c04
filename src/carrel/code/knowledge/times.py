"""Times: milliseconds since 1970 within, ISO 8601 in UTC to the outside."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:\d{2})?)?", re.ASCII)
FORMATS = "a day, YYYY-MM-DD, or a time, YYYY-MM-DDTHH:mm:ssZ"


def instant(text: str) -> int | None:
    """The instant that a date or a time stands for, in UTC where it names no zone; None for anything else."""
    if _ISO.fullmatch(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None
