"""The types of content fields: folded text, times, UUIDs, and closed sets of values."""

import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Literal, get_args
from unicodedata import normalize

from carrel.common import iso

SEPARATOR = "\x01"
"""Separates texts that are stored as one key. No content may contain it."""


def fold(text: str) -> str:
    """Return the text folded for case-insensitive comparison: `NFC(NFC(text).casefold())`, alike on every engine."""
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())


_EPOCH = datetime(1970, 1, 1)  # UTC throughout; without a zone it prints without one
DAY_MS = 24 * 60 * 60 * 1000
MIN_TIME_MS, MAX_TIME_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first and last instant of the calendar, the years 1 to 9999, in milliseconds since 1970."""
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}:\d{2})(?:\.(\d{1,3}))?Z)?", re.ASCII)

DATE_FORMATS = "YYYY-MM-DD or YYYY-MM-DDTHH:mm:ss.sssZ"


def iso_or_none(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds)


def first_instant(text: str) -> int | None:
    """Parse a date (its first instant) or a UTC timestamp; None for anything else."""
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
    """Parse a date (its last instant) or a UTC timestamp; None for anything else."""
    first = first_instant(text)
    return first if first is None or "T" in text else first + DAY_MS - 1


EntityType = Literal["guide", "concept", "project", "news"]
EntityStatus = Literal["draft", "publish_requested", "published", "archived"]
ConceptKind = Literal["standard", "model", "comparison"]
Difficulty = Literal["beginner", "intermediate", "advanced"]
ClaimType = Literal["statistic", "comparison", "definition", "howto_step"]
RelationType = Literal[
    "GUIDE_USES_CONCEPT",
    "GUIDE_EXPLAINS_CONCEPT",
    "GUIDE_REFERENCES_SOURCE",
    "CONCEPT_RELATES_TO_CONCEPT",
    "CONCEPT_REFERENCES_SOURCE",
    "NEWS_DERIVED_FROM_SOURCE",
    "NEWS_REFERENCES_SOURCE",
    "NEWS_REFERENCES_CONCEPT",
    "PROJECT_IMPLEMENTS_CONCEPT",
    "PROJECT_REFERENCES_SOURCE",
    "PROJECT_HAS_GUIDE",
    "DISTRIBUTION_PROMOTES_GUIDE",
    "DISTRIBUTION_PROMOTES_CONCEPT",
    "DISTRIBUTION_PROMOTES_PROJECT",
    "DISTRIBUTION_PROMOTES_NEWS",
    "VIDEO_EXPLAINS_GUIDE",
    "VIDEO_EXPLAINS_CONCEPT",
    "VIDEO_EXPLAINS_PROJECT",
    "VIDEO_EXPLAINS_NEWS",
]
RELATION_TYPES: tuple[str, ...] = get_args(RelationType)
ENTITY_TYPES: tuple[str, ...] = get_args(EntityType)
STATUSES: tuple[str, ...] = get_args(EntityStatus)
CONCEPT_KINDS: tuple[str, ...] = get_args(ConceptKind)
DIFFICULTIES: tuple[str, ...] = get_args(Difficulty)
CLAIM_TYPES: tuple[str, ...] = get_args(ClaimType)

SOURCE, VIDEO, DISTRIBUTION = "sourceItem", "video", "distributionEvent"
ITEM_KINDS = (SOURCE, VIDEO, DISTRIBUTION)
"""The kinds of item that a relation can have at one end instead of an entity."""

_KIND_BY_NAME_PART = {kind.upper(): kind for kind in ENTITY_TYPES} | {
    "SOURCE": SOURCE,
    "VIDEO": VIDEO,
    "DISTRIBUTION": DISTRIBUTION,
}
RELATION_ENDS = {
    name: (_KIND_BY_NAME_PART[name.partition("_")[0]], _KIND_BY_NAME_PART[name.rpartition("_")[2]])
    for name in RELATION_TYPES
}
"""The kinds of the two ends of each relation type, derived from its name."""
MAX_PARALLEL_RELATIONS = max(Counter(RELATION_ENDS.values()).values())
"""The most relations that can lead from one entity to another: one of each type that fits both."""
