"""How the code contract words errors; the journal's follow it."""

from collections.abc import Mapping
from typing import Any

from carrel.mcp.toolset import Arguments, Caller, ErrorObject, Failure, Tool
from carrel.mcp.validation import Violation
from carrel.toolsets.schema_messages import NO_SURROGATES, expected, surrogate_argument

INVALID = "Invalid parameters"
QUERY_TOO_SHORT: ErrorObject = {"error": "Query must be at least 3 characters"}


def invalid_parameter(name: str, message: str) -> ErrorObject:
    """One argument is wrong, which no schema could tell."""
    return {"error": INVALID, "details": [{"path": [name], "message": message}]}


def admit(arguments: Arguments, _caller: Caller) -> Failure | None:
    field = surrogate_argument(arguments)
    return None if field is None else Failure(invalid_parameter(field, f"Must be {NO_SURROGATES}"))


class CodeDialect:
    def __init__(self, tools: tuple[Tool, ...], failures: Mapping[str, str]) -> None:
        """`failures` says for each tool what it is that failed, where nothing more is known."""
        self._schemas: dict[str, Mapping[str, Any]] = {
            tool.name: tool.definition["inputSchema"]["properties"] for tool in tools
        }
        self._failures = failures

    def invalid(self, tool: str, violations: list[Violation]) -> ErrorObject:
        if tool == "context_search" and any(_is_short_query(each) for each in violations):
            return QUERY_TOO_SHORT
        details: dict[tuple[str | int, ...], str] = {}
        for each in violations:
            details.setdefault(each.path, _message(each, self._schemas[tool]))
        return {
            "error": INVALID,
            "details": [{"path": list(path), "message": message} for path, message in details.items()],
        }

    def failed(self, tool: str) -> ErrorObject:
        return {"error": self._failures[tool], "tool": tool}

    def timed_out(self, tool: str, seconds: float) -> ErrorObject:
        return {"error": f"{self._failures[tool]}: no answer within {seconds:g} seconds", "tool": tool}

    def rate_limited(self, tool: str, retry_after: int) -> ErrorObject:
        return {"error": f"Rate limit exceeded for {tool}", "retryAfter": retry_after}

    def too_large(self, tool: str, message: str) -> ErrorObject:
        return {"error": message, "tool": tool}


def _is_short_query(violation: Violation) -> bool:
    return violation.path == ("query",) and violation.rule == "minLength"


def _message(violation: Violation, properties: Mapping[str, Mapping[str, Any]]) -> str:
    if violation.rule == "required":
        return "Required"
    schema = properties.get(str(violation.path[0])) if violation.path else None
    if schema is None or violation.message == "the value cannot be read":
        return f"Must be {NO_SURROGATES}"
    if violation.rule == "pattern" and "format" not in schema:
        return "Must not contain NUL"
    return f"Must be {_wanted(schema)}"


def _wanted(schema: Mapping[str, Any]) -> str:
    if schema["type"] == "boolean":
        return "true or false"
    if schema["type"] == "string" and "minLength" in schema and "maxLength" not in schema:
        return "a string that is not empty" if schema["minLength"] == 1 else f"{schema['minLength']} characters or more"
    return expected(schema)
