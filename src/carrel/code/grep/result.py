"""What a search answers, in the contract's fields and words."""

import re
from dataclasses import dataclass
from typing import Any

from carrel.code.grep.program import INSTALL

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class GrepFailure:
    """The contract's error object."""

    error: dict[str, Any]


def found(pattern: str, matches: list[dict[str, Any]], *, total: int, files: int, milliseconds: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "matches": matches,
        "pattern": pattern,
        "totalMatches": total,
        "filesSearched": files,
        "searchTime": milliseconds,
    }
    if not total:
        answer["message"] = f"No matches found for pattern '{pattern}'"
    return answer


def invalid_pattern(pattern: str, details: str) -> GrepFailure:
    return GrepFailure({"error": "Invalid regex pattern", "pattern": _printable(pattern), "details": details})


def invalid_file_pattern(message: str) -> GrepFailure:
    return GrepFailure({"error": "Invalid parameters", "details": [{"path": ["filePattern"], "message": message}]})


def timed_out(pattern: str, seconds: float) -> GrepFailure:
    details = f"The search took longer than {seconds:g} seconds. Narrow it with filePattern, or use a simpler pattern."
    return GrepFailure({"error": "Search timed out", "pattern": pattern, "details": details})


def not_installed() -> GrepFailure:
    return GrepFailure({"error": "ripgrep is not installed", "details": f"Install it with: {INSTALL}"})


def _printable(text: str) -> str:
    """Half a surrogate pair cannot be written as UTF-8."""
    return _SURROGATE.sub("\ufffd", text)
