"""The handlers of the code tools, a thin layer over `carrel.code`."""

from typing import Any

from carrel.code.context_search import ContextSearch, Results
from carrel.code.file_access import DenyList, Reason, Refusal
from carrel.code.grep.searcher import CodeSearcher, GrepResult
from carrel.code.knowledge.accesses import AccessCounter
from carrel.code.reader import CodeReader
from carrel.mcp.toolset import Arguments, Caller, Failure, Handler
from carrel.toolsets.code import results
from carrel.toolsets.code.toolset import READ_NOTES

DENIALS = frozenset({Reason.ABSOLUTE, Reason.DENIED, Reason.TRAVERSAL})


def code_handlers(
    reader: CodeReader,
    searcher: CodeSearcher,
    context: ContextSearch,
    accesses: AccessCounter,
    denied_without_notes: DenyList,
) -> dict[str, Handler]:
    """By tool. `denied_without_notes` is what is denied to callers who may not read notes."""
    code = _Handlers(reader, searcher, context, accesses, denied_without_notes)
    return {"context_search": code.context_search, "read_file": code.read_file, "grep_codebase": code.grep}


class _Handlers:
    def __init__(
        self,
        reader: CodeReader,
        searcher: CodeSearcher,
        context: ContextSearch,
        accesses: AccessCounter,
        denied_without_notes: DenyList,
    ) -> None:
        self._reader = reader
        self._reader_without_notes = reader.with_deny_list(denied_without_notes)
        self._searcher = searcher
        self._searcher_without_notes = searcher.with_deny_list(denied_without_notes)
        self._context = context
        self._accesses = accesses
        self._denied_without_notes = denied_without_notes

    async def context_search(self, arguments: Arguments, caller: Caller) -> Any:
        query = arguments["query"]
        found = await self._context.search(
            query,
            type_=arguments.get("type", "all"),
            module=arguments.get("module"),
            limit=int(arguments.get("limit", 5)),
            report_progress=caller.progress,
            denied=None if caller.may(READ_NOTES) else self._denied_without_notes,
        )
        return (
            results.context_search(query, found) if isinstance(found, Results) else Failure(results.no_context(found))
        )

    async def read_file(self, arguments: Arguments, caller: Caller) -> Any:
        reader = self._reader if caller.may(READ_NOTES) else self._reader_without_notes
        found = await reader.read(
            arguments["path"],
            include_deps=arguments.get("includeDeps", False),
            max_depth=int(arguments.get("maxDepth", 1)),
        )
        if isinstance(found, Refusal):
            return Failure(results.refused(found), is_denial=found.reason in DENIALS)
        self._accesses.record_read(found.path)
        return results.read_file(found)

    async def grep(self, arguments: Arguments, caller: Caller) -> Any:
        searcher = self._searcher if caller.may(READ_NOTES) else self._searcher_without_notes
        pattern = arguments["pattern"]
        found = await searcher.search(
            pattern,
            file_pattern=arguments.get("filePattern"),
            case_sensitive=arguments.get("caseSensitive", False),
            limit=int(arguments.get("limit", 50)),
        )
        return (
            results.grep(pattern, found)
            if isinstance(found, GrepResult)
            else Failure(results.not_searched(pattern, found))
        )
