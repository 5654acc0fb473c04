"""The error dialect of the catalog contract."""

from collections.abc import Mapping

from carrel.mcp.toolset import Arguments, Caller, ErrorObject, Failure, Tool
from carrel.mcp.validation import Violation
from carrel.toolsets.schema_messages import NO_SURROGATES, describe_violation, surrogate_argument


def error(code: str, message: str, details: Mapping[str, object] | None = None) -> ErrorObject:
    return {"error": {"code": code, "message": message, "details": dict(details or {})}}


PROJECT_NOT_FOUND = error("PROJECT_NOT_FOUND", "Project not found")
ENTITY_NOT_FOUND = error("ENTITY_NOT_FOUND", "Entity not found")


def invalid(field: str, must_be: str) -> ErrorObject:
    return error("VALIDATION_ERROR", f"{field} must be {must_be}", {"field": field, "expected": must_be})


def admit(arguments: Arguments, _caller: Caller) -> Failure | None:
    field = surrogate_argument(arguments)
    return None if field is None else Failure(invalid(field, NO_SURROGATES))


def timed_out(tool: str, seconds: float) -> ErrorObject:
    return error("INTERNAL_ERROR", f"{tool} timed out: it was cancelled after {seconds:g} seconds")


class CatalogDialect:
    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def invalid(self, tool: str, violations: list[Violation]) -> ErrorObject:
        return invalid(*describe_violation(self._tools, tool, violations))

    def failed(self, tool: str) -> ErrorObject:
        return error("INTERNAL_ERROR", f"{tool} failed; the server's log says why")

    def timed_out(self, tool: str, seconds: float) -> ErrorObject:
        return timed_out(tool, seconds)

    def rate_limited(self, tool: str, retry_after: int) -> ErrorObject:
        return error("INTERNAL_ERROR", f"Rate limit exceeded for {tool}", {"retryAfter": retry_after})

    def too_large(self, tool: str, message: str) -> ErrorObject:
        return error("INTERNAL_ERROR", message)
