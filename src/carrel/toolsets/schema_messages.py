"""Messages about invalid arguments, derived from the input schema of a tool."""

from collections.abc import Mapping
from typing import Any, cast

from carrel.common import SURROGATE
from carrel.mcp.toolset import Arguments, Tool
from carrel.mcp.validation import Violation

NO_SURROGATES = "text without unpaired surrogates"


def describe_violation(tools: Mapping[str, Tool], tool: str, violations: list[Violation]) -> tuple[str, str]:
    """Return the first invalid argument and what it must be."""
    properties: Mapping[str, Any] = tools[tool].definition["inputSchema"]["properties"]
    first = violations[0]
    field = str(first.path[0]) if first.path else ""
    if field in properties:
        return field, expected(properties[field])
    known = f"known: {', '.join(properties)}" if properties else "this tool takes none"
    return field, f"left out: there is no such argument ({known})"


def surrogate_argument(arguments: Arguments) -> str | None:
    """Return the first argument with an unpaired surrogate, which JSON can express but UTF-8 cannot."""
    return next((name for name, value in arguments.items() if any(map(SURROGATE.search, _texts(value)))), None)


def _texts(value: object) -> list[str]:
    """Return the strings of an argument, which is a string or a list of them."""
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def expected(schema: Mapping[str, Any]) -> str:
    """Describe the values that a schema allows, such as \"an integer from 1 to 100\"."""
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
