"""Values as JSON and TOML have them."""

from typing import Any, cast


def table(value: Any) -> dict[str, Any] | None:
    """The value, if it has keys: they are strings in both."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
