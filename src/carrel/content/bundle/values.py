"""Parsers of single values: what a field may contain, and how it is stored."""

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from carrel.common import UUID
from carrel.content.field_types import DATE_FORMATS, first_instant, fold

Parse = Callable[[Any], Any]

MAX_INTEGER = 2**53
MAX_FOLDED_BYTES = 2000  # bytes: what PostgreSQL's indexes take, with room for what stands beside it
MAX_URL_BYTES = 2000
MAX_NESTING = 256  # arrays and objects within each other, on every Python alike: how far one can recurse differs

_ID = re.compile(UUID)
_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS_AND_BREAKS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BLANKS = re.compile(r"\s")
_PROJECT_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class InvalidValue(Exception):
    """A value is invalid; the message follows the field's name: "must be a string, not 5"."""


def quoted(value: object) -> str:
    """Return a value as messages quote it: short, on one line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _string(value: object) -> str:
    if type(value) is not str:
        raise InvalidValue(f"must be a string, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return quoted(value)


def text(value: object) -> str:
    found = _string(value)
    if (bad := _CONTROLS.search(found)) is not None:
        raise InvalidValue(f"must not contain the character U+{ord(bad[0]):04X}")
    return found


def non_empty_text(value: object) -> str:
    found = text(value)
    if not found.strip():
        raise InvalidValue("must not be empty")
    return found


def line(limit: int, *, bytes_limit: int = MAX_FOLDED_BYTES) -> Parse:
    """Return a parser of single-line text that is sorted by."""

    def parse(value: object) -> str:
        found = _string(value)
        if (bad := _CONTROLS_AND_BREAKS.search(found)) is not None:
            raise InvalidValue(f"must not contain the character U+{ord(bad[0]):04X}")
        if not found.strip():
            raise InvalidValue("must not be empty")
        if len(found) > limit:
            raise InvalidValue(f"must have {limit} characters or less, not {len(found)}")
        if not found.isascii() and len(fold(found).encode()) > bytes_limit:
            raise InvalidValue(f"must have {bytes_limit} bytes or less in UTF-8, case aside")
        return found

    return parse


def slug(value: object) -> str:
    found: str = _slug_line(value)
    if _BLANKS.search(found) is not None:
        raise InvalidValue(f"must have no blanks, as {quoted(found)} has")
    return found


_slug_line = line(200)


def project_slug(value: object) -> str:
    found: str = _slug_line(value)
    if _PROJECT_SLUG.fullmatch(found) is None:
        raise InvalidValue(f"must be lower-case letters, digits and single hyphens between them, not {quoted(found)}")
    return found


def bounded(limit: int, *, empty: bool = False) -> Parse:
    """Return a parser of text of at most `limit` bytes without control characters."""

    def parse(value: object) -> str:
        found = _string(value)
        if (bad := _CONTROLS_AND_BREAKS.search(found)) is not None:
            raise InvalidValue(f"must not contain the character U+{ord(bad[0]):04X}")
        if not empty and not found.strip():
            raise InvalidValue("must not be empty")
        if len(found) * 4 > limit and len(found.encode()) > limit:
            raise InvalidValue(f"must have {limit} bytes or less in UTF-8")
        return found

    return parse


def identifier(value: object) -> str:
    found = _string(value)
    if _ID.fullmatch(found) is None:
        raise InvalidValue(f"must be a UUID such as 00000000-0000-4000-a000-000000000001, not {quoted(found)}")
    return found.lower()


def identifiers(value: object) -> list[str]:
    if not isinstance(value, list):
        raise InvalidValue(f"must be an array of UUIDs, not {_kind(value)}")
    return [identifier(each) for each in cast("list[object]", value)]


def one_of(choices: Sequence[str]) -> Parse:
    known = frozenset(choices)
    listed = ", ".join(choices)

    def parse(value: object) -> str:
        if type(value) is str and value in known:
            return value
        raise InvalidValue(f"must be one of {listed}, not {_kind(value)}")

    return parse


def time(value: object) -> int:
    return milliseconds(_string(value))


@lru_cache(maxsize=4096)
def milliseconds(value: str) -> int:
    """Return the milliseconds since 1970, UTC; a date is its first instant."""
    found = first_instant(value)
    if found is None:
        raise InvalidValue(f"must be {DATE_FORMATS}, and exist, not {quoted(value)}")
    return found


def integer(value: object) -> int:
    """Return a whole number; 5.0 is one, true is not."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise InvalidValue(f"must be a whole number, not {_kind(value)}")
    if not 0 <= value <= MAX_INTEGER:
        raise InvalidValue(f"must be between 0 and 2^53, not {quoted(value)}")
    return value


def number(value: object) -> float:
    if type(value) not in (int, float):
        raise InvalidValue(f"must be a number, not {_kind(value)}")
    try:
        found = float(cast("float", value))
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidValue("must be a number that can be kept, not one so large")
    return found


def share(value: object) -> float:
    found = number(value)
    if not 0 <= found <= 1:
        raise InvalidValue(f"must be between 0 and 1, not {quoted(value)}")
    return found


def position(value: object) -> float:
    found = number(value)
    if found <= 0:
        raise InvalidValue(f"must be greater than 0, not {quoted(value)}")
    return found


def open_value(value: object, room: int = MAX_NESTING) -> object:
    """Return any value of an open record, after checking that all its texts and numbers can be stored."""
    match value:
        case str():
            return text(value)
        case float() if not math.isfinite(value):
            raise InvalidValue("must hold numbers that can be kept, not one so large")
        case int() if not isinstance(value, bool) and abs(value) > MAX_INTEGER:
            raise InvalidValue(f"must hold whole numbers up to 2^53, not {quoted(value)}")
        case list() | dict() if not room:
            raise InvalidValue(f"must not be nested so deeply: {MAX_NESTING} levels are the most")
        case list():
            return [open_value(each, room - 1) for each in cast("list[object]", value)]
        case dict():
            return {text(key): open_value(each, room - 1) for key, each in cast("dict[str, object]", value).items()}
        case _:
            return value
