"""The three tools, thin on top of the code room."""

from typing import Any

from carrel.code.context import ContextSearch
from carrel.code.grep.result import GrepFailure
from carrel.code.grep.searching import CodeSearcher
from carrel.code.knowledge.accesses import AccessCounter
from carrel.code.opening import ABSOLUTE, DENIED, TRAVERSAL, Refusal
from carrel.code.reading import CodeReader
from carrel.mcp.toolset import Arguments, Caller, Failure, Scopes, Toolset, load_tools
from carrel.toolsets.code.dialect import CodeDialect, admit

FAILURES = {
    "context_search": "Search failed",
    "read_file": "Failed to read file",
    "grep_codebase": "Search failed",
}
LONGEST_SECONDS = {"context_search": 5.0, "read_file": 0.5, "grep_codebase": 3.0}
LONGEST_WITH_DEPENDENCIES = 2.0

DENIALS = frozenset({ABSOLUTE, DENIED, TRAVERSAL})


def code_toolset(
    reader: CodeReader, searcher: CodeSearcher, context: ContextSearch, accesses: AccessCounter
) -> Toolset:
    code = _Handlers(reader, searcher, context, accesses)
    tools = load_tools(
        "carrel.toolsets.code",
        {"context_search": code.context_search, "read_file": code.read_file, "grep_codebase": code.grep},
    )
    return Toolset(
        name="code",
        about="this project's code base: read files, grep, and search what was learned about it; paths are relative.",
        tools=tools,
        dialect=CodeDialect(tools, FAILURES),
        scopes=Scopes("code:read", "code:write"),
        targets=("path",),
        admit=admit,
        longest=_longest,
    )


def _longest(tool: str, arguments: Arguments) -> float:
    return LONGEST_WITH_DEPENDENCIES if arguments.get("includeDeps") is True else LONGEST_SECONDS[tool]


class _Handlers:
    def __init__(
        self, reader: CodeReader, searcher: CodeSearcher, context: ContextSearch, accesses: AccessCounter
    ) -> None:
        self._reader = reader
        self._searcher = searcher
        self._context = context
        self._accesses = accesses

    async def context_search(self, arguments: Arguments, caller: Caller) -> Any:
        answer = await self._context.search(
            arguments["query"],
            type_=arguments.get("type", "all"),
            module=arguments.get("module"),
            limit=int(arguments.get("limit", 5)),
            tell=caller.progress,
        )
        return Failure(answer) if "error" in answer else answer

    async def read_file(self, arguments: Arguments, _caller: Caller) -> Any:
        answer = await self._reader.read(
            arguments["path"],
            include_deps=arguments.get("includeDeps", False),
            max_depth=int(arguments.get("maxDepth", 1)),
        )
        if isinstance(answer, Refusal):
            return Failure(answer.answer(), is_denial=answer.error in DENIALS)
        self._accesses.note(answer["file"]["path"])
        return answer

    async def grep(self, arguments: Arguments, _caller: Caller) -> Any:
        answer = await self._searcher.search(
            arguments["pattern"],
            file_pattern=arguments.get("filePattern"),
            case_sensitive=arguments.get("caseSensitive", False),
            limit=int(arguments.get("limit", 50)),
        )
        return Failure(answer.error) if isinstance(answer, GrepFailure) else answer
