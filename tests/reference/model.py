"""What both content contracts stand on, in plain Python over lists: nothing here is Carrel's."""

import re
import unicodedata
from calendar import monthrange
from typing import Any

Row = dict[str, Any]
Value = dict[str, Any]

ENTITY_TYPES = ("guide", "concept", "project", "news")
STATUSES = ("draft", "publish_requested", "published", "archived")
CONCEPT_KINDS = ("standard", "model", "comparison")
CLAIM_TYPES = ("statistic", "comparison", "definition", "howto_step")
RELATION_TYPES = (
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
)


class World:
    """The rows of a bundle, ids in lower case, each list in the order of the file."""

    def __init__(self, bundle: dict[str, list[Row]]) -> None:
        self.projects = [_lowered(row) for row in bundle["projects"]]
        self.entities = [_lowered(row) for row in bundle["entities"]]
        self.relations = [_lowered(row) for row in bundle["relations"]]
        self.performance = [_lowered(row) for row in bundle["searchPerformance"]]
        self.blocks = [_lowered(row) for row in bundle["quotableBlocks"]]
        self._entity_by_id = {row["id"]: row for row in self.entities}

    def project(self, project_id: str) -> Row | None:
        return next((row for row in self.projects if row["id"] == project_id.lower()), None)

    def entity(self, project_id: str, entity_id: str) -> Row | None:
        """None also for an entity of another project."""
        row = self._entity_by_id.get(entity_id.lower())
        return row if row is not None and row["projectId"] == project_id.lower() else None

    def of(self, rows: list[Row], project_id: str) -> list[Row]:
        return [row for row in rows if row["projectId"] == project_id.lower()]

    def relations_of(self, project_id: str, types: set[str]) -> list[Row]:
        """The project's relations of these types; of all types where none is named."""
        return [row for row in self.of(self.relations, project_id) if not types or row["relationType"] in types]


def _lowered(row: Row) -> Row:
    ids = ("id", "projectId", "entityId", "fromEntityId", "toEntityId")
    lowered = {key: value.lower() if key in ids and value is not None else value for key, value in row.items()}
    if row.get("comparisonTargets"):
        lowered["comparisonTargets"] = [target.lower() for target in row["comparisonTargets"]]
    return lowered


def pick(row: Row, *names: str) -> Value:
    """These fields in this order; what the bundle leaves out is null."""
    return {name: row.get(name) for name in names}


# --- text


def fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def contains(text: str | None, needle: str) -> bool:
    return text is not None and fold(needle) in fold(text)


def ordered(rows: list[Row], *keys: str) -> list[Row]:
    """Sorted by the fields named, `-` before a name for descending, the first one weighing most."""
    rows = list(rows)
    for key in reversed(keys):
        rows.sort(key=lambda row: row[key.removeprefix("-")], reverse=key.startswith("-"))
    return rows


# --- values of arguments


def is_text(value: Any, shortest: int = 0, longest: int | None = None) -> bool:
    """An unpaired surrogate is no text: it cannot be written as UTF-8."""
    if not isinstance(value, str) or any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        return False
    return len(value) >= shortest and (longest is None or len(value) <= longest)


def is_integer(value: Any, lowest: int, highest: int | None = None) -> bool:
    """5.0 is an integer; true and "5" are not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return False
    return value >= lowest and (highest is None or value <= highest)


def is_one_of(value: Any, allowed: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in allowed


def is_set_of(value: Any, allowed: tuple[str, ...], most: int) -> bool:
    if not isinstance(value, list) or not all(is_one_of(item, allowed) for item in value):
        return False
    return len(value) <= most and len(set(value)) == len(value)


def is_uuid(value: Any, pattern: str = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value, re.IGNORECASE | re.ASCII) is not None


def instant(text: Any, *, upper: bool = False) -> str | None:
    """A date argument as the instant that it bounds, written out as times are; None if it is not one of the formats."""
    if not isinstance(text, str):
        return None
    date = r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    if (found := re.fullmatch(date, text)) is not None:
        clock = ("23", "59", "59", "999") if upper else ("00", "00", "00", "000")
    else:
        found = re.fullmatch(date + r"T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3}))?Z", text)
        if found is None:
            return None
        clock = (found[4], found[5], found[6], (found[7] or "").ljust(3, "0"))
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    if int(clock[0]) > 23 or int(clock[1]) > 59 or int(clock[2]) > 59:
        return None
    return f"{found[1]}-{found[2]}-{found[3]}T{clock[0]}:{clock[1]}:{clock[2]}.{clock[3]}Z"
