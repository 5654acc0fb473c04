"""What an argument must be, in words, from the schema that a contract publishes for it."""

from collections.abc import Mapping
from typing import Any, cast

from carrel.common import SURROGATE
from carrel.mcp.toolset import Arguments, Tool
from carrel.mcp.validation import Violation

UNREADABLE = "text without unpaired surrogates"


def complaint(tools: Mapping[str, Tool], tool: str, violations: list[Violation]) -> tuple[str, str]:
    """The first argument that is wrong, and what it must be."""
    properties: Mapping[str, Any] = tools[tool].definition["inputSchema"]["properties"]
    first = violations[0]
    field = str(first.path[0]) if first.path else ""
    if field in properties:
        return field, expected(properties[field])
    known = f"known: {', '.join(properties)}" if properties else "this tool takes none"
    return field, f"left out: there is no such argument ({known})"


def unreadable(arguments: Arguments) -> str | None:
    """The first argument with half a surrogate pair in it: JSON can spell one, UTF-8 and so our stores cannot."""
    return next((name for name, value in arguments.items() if any(map(SURROGATE.search, _texts(value)))), None)


def _texts(value: object) -> list[str]:
    """A string, or those in a list: more than that no tool takes."""
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def expected(schema: Mapping[str, Any]) -> str:
    if schema.get("format") == "uuid":
        return "a UUID"
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    match schema["type"]:
        case "integer":
            return f"an integer{_range(schema.get('minimum'), schema.get('maximum'))}"
        case "array":
            different = "different " if schema.get("uniqueItems") else ""
            return f"a list of {_count(schema)}{different}values, each {expected(schema['items'])}"
        case _ if "maxLength" in schema:
            return f"a string of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
        case _:
            return "a string"


def _count(schema: Mapping[str, Any]) -> str:
    bounds = [
        f"at {which} {schema[name]}" for which, name in (("least", "minItems"), ("most", "maxItems")) if name in schema
    ]
    return f"{' and '.join(bounds)} " if bounds else ""


def _range(low: int | None, high: int | None) -> str:
    if high is None:
        return "" if low is None else f" of at least {low}"
    return f" from {low} to {high}"
