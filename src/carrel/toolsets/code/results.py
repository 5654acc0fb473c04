"""What the code contract answers: its names, words and order."""

from collections.abc import Mapping
from typing import Any

from carrel.code.context_search import NotEmbedded, NothingIndexed, Result, Results
from carrel.code.file_access import MAX_FILE_BYTES, Reason, Refusal
from carrel.code.grep.passes import Match
from carrel.code.grep.searcher import GrepFailure, GrepResult, InvalidFilePattern, InvalidPattern, RipgrepMissing
from carrel.code.reader import Dependency, ReadFile, Text
from carrel.common import SURROGATE, iso
from carrel.mcp.toolset import ErrorObject
from carrel.toolsets.code.dialect import INVALID, invalid_parameter

Answer = dict[str, Any]

_REFUSALS: Mapping[Reason, str] = {
    Reason.INVALID: INVALID,
    Reason.ABSOLUTE: "Absolute paths not allowed",
    Reason.TRAVERSAL: "Path traversal not allowed",
    Reason.DENIED: "Permission denied",
    Reason.NOT_FOUND: "File not found",
    Reason.NOT_A_FILE: "Not a file",
    Reason.TOO_LARGE: "File too large",
    Reason.NOT_TEXT: "Not a text file",
    Reason.NOT_PARSED: "Failed to parse imports",
}


# --- read_file


def read_file(found: ReadFile) -> Answer:
    answer: Answer = {
        "file": {"path": found.path, "content": found.text.content, **_facts(found.size, found.text)},
        "dependencies": [_dependency(each) for each in found.dependencies],
        "metadata": {"module": found.module, "role": found.role, "lastModified": iso(found.modified // 1_000_000)},
    }
    if found.warnings:
        answer["warnings"] = [{"line": each.line, "message": each.message} for each in found.warnings]
    if found.is_truncated:
        answer["truncated"] = True
    return answer


def _dependency(found: Dependency) -> Answer:
    answer: Answer = {"path": found.path, "type": found.kind, "level": 1}
    if found.text is None:
        return answer | {"size": found.size}
    shown = {"content": found.text.content} if found.is_shown else {}
    return {**answer, **shown, **_facts(found.size, found.text)}


def _facts(size: int, text: Text) -> Answer:
    encoding = {} if text.encoding is None else {"encoding": text.encoding}
    return {"size": size, "lines": text.lines, "language": text.language, **encoding}


def refused(refusal: Refusal) -> ErrorObject:
    error = {"error": _REFUSALS[refusal.reason], "path": _printable(refusal.path)}
    match refusal.reason:
        case Reason.INVALID:
            return error | {"details": [{"path": ["path"], "message": refusal.detail}]}
        case Reason.TOO_LARGE:
            return error | {"details": f"{refusal.size} bytes, the limit is {MAX_FILE_BYTES}"}
        case Reason.NOT_TEXT:
            return error | {"details": refusal.detail}
        case Reason.NOT_PARSED:
            return error | {"details": f"Syntax error at line {refusal.line}"}
        case _:
            return error


# --- grep_codebase


def grep(pattern: str, found: GrepResult) -> Answer:
    answer: Answer = {
        "matches": [_match(each) for each in found.matches],
        "pattern": pattern,
        "totalMatches": found.total,
        "filesSearched": found.files,
        "searchTime": found.milliseconds,
    }
    if not found.total:
        answer["message"] = f"No matches found for pattern '{pattern}'"
    return answer


def _match(match: Match) -> Answer:
    return {
        "file": match.path,
        "line": match.line,
        "column": match.column,
        "text": match.text,
        "context": {"before": match.before, "after": match.after},
    }


def not_searched(pattern: str, why: GrepFailure) -> ErrorObject:
    if isinstance(why, InvalidPattern):
        return {"error": "Invalid regex pattern", "pattern": _printable(pattern), "details": why.details}
    if isinstance(why, InvalidFilePattern):
        return invalid_parameter("filePattern", why.details)
    if isinstance(why, RipgrepMissing):
        return {"error": "ripgrep is not installed", "details": f"Install it with: {why.install}"}
    details = (
        f"The search took longer than {why.seconds:g} seconds. Narrow it with filePattern, or use a simpler pattern."
    )
    return {"error": "Search timed out", "pattern": pattern, "details": details}


# --- context_search


def context_search(query: str, found: Results) -> Answer:
    return {
        "results": [_result(each) for each in found.results],
        "query": query,
        "totalFound": found.total,
        "searchTime": found.milliseconds,
    }


def _result(found: Result) -> Answer:
    return {
        "id": found.id,
        "type": found.type,
        "content": found.content,
        "module": found.module,
        "session": found.session,
        "date": iso(found.date),
        "score": found.score,
        "source": found.source,
    }


def no_context(why: NothingIndexed | NotEmbedded) -> ErrorObject:
    if isinstance(why, NotEmbedded):
        return {"error": "Failed to generate query embedding", "details": why.details}
    return {
        "error": "No embeddings found. Run initial session to generate context.",
        "fallback": "Use grep_codebase for text search",
    }


def _printable(text: str) -> str:
    """Half a surrogate pair cannot be written as UTF-8."""
    return SURROGATE.sub("\ufffd", text)
