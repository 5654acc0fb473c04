"""What JSON and TOML documents have in common."""

from typing import Any, cast


class Unreadable(ValueError):
    """The text is not what its format says, or not what can be edited."""

    def __init__(self, text: str, offset: int, reason: str) -> None:
        super().__init__(reason)
        before = text[:offset]
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self.reason = reason


def newline_of(text: str) -> str:
    """How lines end: as the first one does."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def table(value: Any) -> dict[str, Any] | None:
    """The value, if it has keys: they are strings in both."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
