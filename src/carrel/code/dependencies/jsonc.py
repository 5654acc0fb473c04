"""JSON as people write it in settings: with comments and commas at the end."""

import re
from typing import Any, cast

from carrel.untrusted import Unreadable, load_json

_PART = re.compile(r'("(?:[^"\\\n]++|\\.)*+"?)|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|,(?=\s*+[}\]])')


def loads(text: str) -> dict[str, Any]:
    """An object; an empty one for what is none."""
    for _ in range(2):  # a comma may stand before a comment before the end
        text = _PART.sub(lambda found: found[1] or "", text)
    try:
        return mapping(load_json(text))
    except Unreadable:
        return {}


def mapping(value: Any) -> dict[str, Any]:
    """What should be an object, as one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def strings(value: Any) -> list[str]:
    """What should be a list of strings, or one string, as a list."""
    if isinstance(value, str):
        return [value]
    return [each for each in cast("list[Any]", value) if isinstance(each, str)] if isinstance(value, list) else []
