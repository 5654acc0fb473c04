"""Searching the code base for a regular expression."""

import asyncio
import copy
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from carrel.code.file_access import DenyList
from carrel.code.grep.globs import InvalidGlob, parse_glob, ripgrep_filters
from carrel.code.grep.passes import Match, SearchFailed, SearchPasses
from carrel.code.grep.ripgrep import INSTALL_COMMAND, Processes, Stopped, find_program
from carrel.common import is_storable

SEARCH_TIMEOUT_SECONDS = 3.0
_MAX_CONCURRENT_SEARCHES = 8
_DENIED_CACHE_SIZE = 1 << 16
_NO_NUL = "a pattern is Unicode text without NUL, as no text file holds anything else"
_VERBOSE = re.compile(r"\(\?[a-wyzA-Z]*x")


@dataclass(frozen=True, slots=True)
class GrepResult:
    matches: Sequence[Match]
    total: int
    """Lines that match, given or not."""
    files: int
    """Text files that were searched."""
    milliseconds: int


class InvalidPattern(NamedTuple):
    details: str


class InvalidFilePattern(NamedTuple):
    details: str


class TimedOut(NamedTuple):
    seconds: float


class RipgrepMissing(NamedTuple):
    install: str
    """The command that installs it."""


GrepFailure = InvalidPattern | InvalidFilePattern | TimedOut | RipgrepMissing


class CodeSearcher:
    """Searches the text files below a root that are neither ignored, excluded nor denied."""

    def __init__(self, root: Path, denied: DenyList, *, seconds: float = SEARCH_TIMEOUT_SECONDS) -> None:
        self._root = str(root)
        self._seconds = seconds
        self._denied = lru_cache(_DENIED_CACHE_SIZE)(denied.path)  # of the path alone, whatever is there
        self._program: str | None = None
        self._threads = ThreadPoolExecutor(_MAX_CONCURRENT_SEARCHES, thread_name_prefix="carrel-grep")

    def with_deny_list(self, denied: DenyList) -> "CodeSearcher":
        """The same for callers who are denied other files; all of them wait for the same threads."""
        searcher = copy.copy(self)
        searcher._denied = lru_cache(_DENIED_CACHE_SIZE)(denied.path)
        return searcher

    async def search(
        self, pattern: str, *, file_pattern: str | None, case_sensitive: bool, limit: int
    ) -> GrepResult | GrepFailure:
        """Whoever cancels it waits until its processes are gone."""
        started = time.perf_counter()
        if error_text := pattern_error(pattern):
            return InvalidPattern(error_text)
        processes = Processes()
        job = self._threads.submit(
            self._search_on_thread,
            processes,
            started,
            pattern,
            file_pattern,
            case_sensitive=case_sensitive,
            limit=limit,
        )
        work = asyncio.wrap_future(job)
        try:
            async with asyncio.timeout(self._seconds):
                answer = await asyncio.shield(work)
        except TimeoutError:
            answer = None
        finally:
            processes.stop()
            job.cancel()  # where it has not begun
            await _ended(work)
        return TimedOut(self._seconds) if answer is None else answer

    def _search_on_thread(
        self,
        processes: Processes,
        started: float,
        pattern: str,
        file_pattern: str | None,
        *,
        case_sensitive: bool,
        limit: int,
    ) -> GrepResult | GrepFailure | None:
        """On a thread. None when it was stopped."""
        try:
            glob = parse_glob(file_pattern) if file_pattern else None
        except InvalidGlob as error:
            return InvalidFilePattern(str(error))
        if (program := self._get_program()) is None:
            return RipgrepMissing(INSTALL_COMMAND)

        def selected(path: str) -> bool:
            return (glob is None or glob.matches(path)) and not self._denied(path)

        try:
            with processes:
                passes = SearchPasses(program, self._root, pattern, case_sensitive=case_sensitive, processes=processes)
                counts = passes.count(ripgrep_filters(glob) if glob else [], selected)
                matches = passes.matches(counts, limit)
        except Stopped:
            return None
        except SearchFailed as failure:
            if (error_text := ripgrep_pattern_error(str(failure))) is None:
                raise
            return InvalidPattern(error_text)
        milliseconds = round((time.perf_counter() - started) * 1000)
        return GrepResult(matches, counts.total, counts.files, milliseconds)

    def _get_program(self) -> str | None:
        """Looked for again only if it is not where it was."""
        if self._program is None or not os.path.isfile(self._program):
            self._program = find_program()
        return self._program


async def _ended(work: asyncio.Future[GrepResult | GrepFailure | None]) -> None:
    """Wait for it to the end, also when cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancelled = error
    if not work.cancelled():
        work.exception()  # seen, even where nobody waits for the answer any more
    if cancelled is not None:
        raise cancelled


def pattern_error(pattern: str) -> str | None:
    """In words for the caller. Most faults are left to `rg` to tell."""
    if not is_storable(pattern):
        return _NO_NUL
    if _has_unopened_group(pattern):
        return "unopened group"
    return None


def ripgrep_pattern_error(stderr_text: str) -> str | None:
    """What `rg` found wrong with a pattern, in words for the caller; None where it complains about something else."""
    if 'pattern contains "\\0"' in stderr_text:  # written as \x00
        return _NO_NUL
    if "regex" not in stderr_text:
        return None
    return stderr_text.removeprefix("rg: ").split("\n\n")[0].strip()  # what follows is about options


def _has_unopened_group(pattern: str) -> bool:
    """`rg` puts a group around what it is given, and so finds nothing wrong with `a)|(b`."""
    if _VERBOSE.search(pattern):
        return False  # a parenthesis may be in a comment
    groups = classes = position = 0
    while position < len(pattern):
        sign = pattern[position]
        position += 1 + (sign == "\\")
        if sign == "[":
            classes += 1
            position += pattern.startswith("^", position)
            position += pattern.startswith("]", position)
        elif classes:
            classes -= sign == "]"
        elif sign in "()":
            groups += 1 if sign == "(" else -1
            if groups < 0:
                return True
    return False
