"""The error dialect of the bridge contract."""

from carrel.mcp.toolset import Arguments, Caller, ErrorObject, Failure, Tool
from carrel.mcp.validation import Violation
from carrel.toolsets.schema_messages import NO_SURROGATES, describe_violation, surrogate_argument


def error(code: str, message: str) -> ErrorObject:
    return {"error": {"code": code, "message": message}}


def invalid(field: str, must_be: str) -> ErrorObject:
    return error("BAD_REQUEST", f"{field} must be {must_be}")


def admit(arguments: Arguments, _caller: Caller) -> Failure | None:
    field = surrogate_argument(arguments)
    return None if field is None else Failure(invalid(field, NO_SURROGATES))


class BridgeDialect:
    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def invalid(self, tool: str, violations: list[Violation]) -> ErrorObject:
        return invalid(*describe_violation(self._tools, tool, violations))

    def failed(self, tool: str) -> ErrorObject:
        return error("SERVER_ERROR", f"{tool} failed; the server's log says why")

    def timed_out(self, tool: str, seconds: float) -> ErrorObject:
        return error("SERVER_ERROR", f"the backend timed out: no answer within {seconds:g} seconds")

    def rate_limited(self, tool: str, retry_after: int) -> ErrorObject:
        return error("FORBIDDEN", f"Rate limit exceeded for {tool}; try again in {retry_after} seconds")

    def too_large(self, tool: str, message: str) -> ErrorObject:
        return error("SERVER_ERROR", message)
