"""The three tools, as clients are shown them."""

from collections.abc import Mapping

from carrel.mcp.toolset import Arguments, Handler, Scopes, Suggest, Toolset, load_tools
from carrel.toolsets.code.dialect import CodeDialect, admit

FAILURES = {
    "context_search": "Search failed",
    "read_file": "Failed to read file",
    "grep_codebase": "Search failed",
}
TOOLS = tuple(FAILURES)
TIMEOUT_SECONDS = {"context_search": 5.0, "read_file": 0.5, "grep_codebase": 3.0}
DEPENDENCIES_TIMEOUT_SECONDS = 2.0
READ_NOTES = "notes:read"
"""Without this scope, the vault's files are denied."""


def code_toolset(handlers: Mapping[str, Handler], suggestions: Mapping[str, Suggest]) -> Toolset:
    tools = load_tools("carrel.toolsets.code", handlers)
    return Toolset(
        name="code",
        about="this project's code base: read files, grep, and search what was learned about it; paths are relative.",
        tools=tools,
        dialect=CodeDialect(tools, FAILURES),
        scopes=Scopes("code:read", "code:write"),
        targets=("path",),
        admit=admit,
        max_seconds=_timeout_of,
        suggestions=suggestions,
    )


def _timeout_of(tool: str, arguments: Arguments) -> float:
    return DEPENDENCIES_TIMEOUT_SECONDS if arguments.get("includeDeps") is True else TIMEOUT_SECONDS[tool]
