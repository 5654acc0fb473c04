"""How the notes contract words errors."""

from carrel.mcp.toolset import Arguments, Caller, ErrorObject, Failure, Tool
from carrel.mcp.validation import Violation
from carrel.toolsets.schema_messages import NO_SURROGATES, describe_violation, surrogate_argument


def error(code: str, message: str) -> ErrorObject:
    return {"error": {"code": code, "message": message}}


def admit(arguments: Arguments, _caller: Caller) -> Failure | None:
    field = surrogate_argument(arguments)
    return None if field is None else Failure(error("INVALID_PARAMS", f"{field} must be {NO_SURROGATES}"))


class NotesDialect:
    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def invalid(self, tool: str, violations: list[Violation]) -> ErrorObject:
        field, must_be = describe_violation(self._tools, tool, violations)
        return error("INVALID_PARAMS", f"{field} must be {must_be}")

    def failed(self, tool: str) -> ErrorObject:
        return error("PROVIDER_ERROR", f"{tool} failed; the server's log says why")

    def timed_out(self, tool: str, seconds: float) -> ErrorObject:
        return error("PROVIDER_ERROR", f"{tool} was given up after {seconds:g} seconds; try again")

    def rate_limited(self, tool: str, retry_after: int) -> ErrorObject:
        return error("PROVIDER_ERROR", f"Rate limit exceeded for {tool}; try again in {retry_after} seconds")

    def too_large(self, tool: str, message: str) -> ErrorObject:
        return error("PROVIDER_ERROR", message)
