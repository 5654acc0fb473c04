"""What the tools do, thin on top of the code room."""

from typing import Any

from carrel.code.context import ContextSearch
from carrel.code.grep.result import GrepFailure
from carrel.code.grep.searching import CodeSearcher
from carrel.code.knowledge.accesses import AccessCounter
from carrel.code.opening import ABSOLUTE, DENIED, TRAVERSAL, Refusal
from carrel.code.reading import CodeReader
from carrel.mcp.toolset import Arguments, Caller, Failure, Handler

DENIALS = frozenset({ABSOLUTE, DENIED, TRAVERSAL})


def code_handlers(
    reader: CodeReader, searcher: CodeSearcher, context: ContextSearch, accesses: AccessCounter
) -> dict[str, Handler]:
    """By tool."""
    code = _Handlers(reader, searcher, context, accesses)
    return {"context_search": code.context_search, "read_file": code.read_file, "grep_codebase": code.grep}


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
