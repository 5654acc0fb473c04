"""The two passes of a search: how many lines match in which file, then where the first of them are.

What was found is opened never through a link: one that was put in place since the search leads nowhere.
"""

import codecs
import os
import re
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from carrel.code.grep.excerpts import TextFile, excerpt
from carrel.code.grep.ripgrep import Processes, count_arguments, locate_arguments, recount_arguments
from carrel.directory import Directory

HAS_DESCRIPTOR_PATHS = os.path.isdir("/dev/fd")
"""Whether another program can be given a descriptor as a path."""


@contextmanager
def open_files(root: str, paths: list[str]) -> Generator[dict[str, int]]:
    """Descriptors of those paths that are regular files still."""
    files: dict[str, int] = {}
    directory = Directory(root)
    try:
        for path in paths:
            if (descriptor := _open_file(directory, path)) is not None:
                files[path] = descriptor
        yield files
    finally:
        for descriptor in files.values():
            os.close(descriptor)


def changed_folders(root: str, paths: Iterable[str], since: int) -> set[str]:
    """The folders of files in which, or above which, a name came, went or was replaced since a time in nanoseconds.

    A program that walks the tree by names may have been led out of it there, by a link in place of a folder; that the
    folder is back leaves its mark, too.
    """
    folders = {""}
    for folder in {path.rpartition("/")[0] for path in paths}:
        above = folder
        while above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    changed: set[str] = set()
    for folder in sorted(folders):  # each after those that it is in
        if folder and folder.rpartition("/")[0] in changed:
            changed.add(folder)
            continue
        try:
            found = os.lstat(os.path.join(root, folder)) if folder else os.stat(root)  # which may be a link itself
        except OSError:
            changed.add(folder)
            continue
        if not stat.S_ISDIR(found.st_mode) or max(found.st_mtime_ns, found.st_ctime_ns) >= since:
            changed.add(folder)
    return changed


def _open_file(directory: Directory, path: str) -> int | None:
    try:
        descriptor = directory.open(path)
    except OSError:
        return None  # gone, not ours to read any more, or a link by now
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


_RECORD_SEPARATOR = "\r\n./"
_NUMBER = re.compile("[0-9]+")
_LOCATION_LINE = re.compile(r"([^\0]*)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")
_COUNT_LINE = re.compile(r"([^\0]*)\0(\d+)\r?\n")
_NOT_UNICODE = re.compile("[\udc80-\udcff]")

_CLOCK_TICK_NANOSECONDS = 20_000_000
"""Nanoseconds by which the time of a file may be behind the clock's."""
_MAX_OPEN_FILES = 200
"""Files that are open at a time, at the most."""


class Match(NamedTuple):
    """A line that matches, with the lines around it."""

    path: str
    line: int
    column: int
    """Of the first match in the line, in characters from 1."""
    text: str
    before: Sequence[str]
    after: Sequence[str]


class SearchFailed(Exception):
    """`rg` ended with an error; the text is its own."""


@dataclass(frozen=True, slots=True)
class Counts:
    by_path: list[tuple[str, int]]
    """Files with a match, by path."""
    files: int
    """Text files that were looked at."""

    @property
    def total(self) -> int:
        return sum(count for _, count in self.by_path)


class MatchLocation(NamedTuple):
    """Of a line with a match. The column is in bytes from 1, None for the end of the line."""

    line: int
    column: int | None
    offset: int


class SearchPasses:
    """Of one pattern below one root."""

    def __init__(self, program: str, root: str, pattern: str, *, case_sensitive: bool, processes: Processes) -> None:
        self._program = program
        self._root = root
        self._pattern = pattern
        self._case_sensitive = case_sensitive
        self._processes = processes

    def count(self, filters: list[str], selected: Callable[[str], bool]) -> Counts:
        """Counts only what is selected. A file whose name is not UTF-8 has no path that could be shown: it never is.

        `rg` walks by names. What it read while names changed is counted again, in files opened beneath the root.
        """
        since = time.time_ns() - _CLOCK_TICK_NANOSECONDS
        command = count_arguments(self._pattern, case_sensitive=self._case_sensitive, filters=filters)
        counts = {path: int(count) for path, count in _parse_counts(self._output(command)) if selected(path)}
        if changed := changed_folders(self._root, counts, since):
            recount_paths = [path for path in counts if path.rpartition("/")[0] in changed]
            for path in recount_paths:
                del counts[path]
            for start in range(0, len(recount_paths), _MAX_OPEN_FILES):
                counts |= self._recount(recount_paths[start : start + _MAX_OPEN_FILES])
        return Counts(sorted((path, count) for path, count in counts.items() if count), len(counts))

    def _recount(self, paths: list[str]) -> dict[str, int]:
        with open_files(self._root, paths) as files:
            if not files:
                return {}
            names, separator = _file_arguments(files)
            command = recount_arguments(
                self._pattern, case_sensitive=self._case_sensitive, files=list(names), separator=separator
            )
            printed = b"".join(self._output(command, list(files.values()))).decode()
        return {names[name.replace(separator, "/")]: int(count) for name, count in _COUNT_LINE.findall(printed)}

    def matches(self, counts: Counts, limit: int) -> list[Match]:
        """The first matches, by path and line."""
        paths: list[str] = []
        covered = 0
        for path, count in counts.by_path:
            if covered >= limit:
                break
            paths.append(path)
            covered += count
        if not paths:
            return []
        found: list[Match] = []
        with open_files(self._root, paths) as files:
            locations = self._locate(files, limit)
            for path, descriptor in files.items():
                with closing(TextFile(descriptor, self._processes.check)) as text:
                    for location in locations.get(path, ())[: limit - len(found)]:
                        found.append(Match(path, location.line, *excerpt(text, location.offset, location.column)))
        return found

    def _locate(self, files: dict[str, int], limit: int) -> dict[str, list[MatchLocation]]:
        if not files:
            return {}
        names, separator = _file_arguments(files)
        command = locate_arguments(
            self._pattern, case_sensitive=self._case_sensitive, limit=limit, files=list(names), separator=separator
        )
        printed = b"".join(self._output(command, list(files.values()))).decode()
        locations: dict[str, list[MatchLocation]] = {}
        for name, line, column, offset in _LOCATION_LINE.findall(printed):
            location = MatchLocation(int(line), int(column) if column else None, int(offset))
            locations.setdefault(names[name.replace(separator, "/")], []).append(location)
        return locations

    def _output(self, arguments: list[str], descriptors: Sequence[int] = ()) -> Iterator[bytes]:
        """What `rg` prints, piece by piece."""
        running = self._processes.start(
            [self._program, *arguments], self._root, descriptors if HAS_DESCRIPTOR_PATHS else ()
        )
        yield from self._processes.output(running)
        if running.process.returncode not in (0, 1) and running.stderr_text:
            raise SearchFailed(running.stderr_text)


def _file_arguments(files: dict[str, int]) -> tuple[dict[str, str], str]:
    """What `rg` is to call open files, each with its path; and the separator that it is to print in these names."""
    if HAS_DESCRIPTOR_PATHS:
        return {f"/dev/fd/{descriptor}": path for path, descriptor in files.items()}, ":"  # none that it would resolve
    return {f"./{path}": path for path in files}, "/"


def _parse_counts(printed: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Paths and counts of what counting prints: lines of `./`, a path, `/` and a count, with a NUL for each `/`.

    A name may hold what looks like the end of a line, but no count before it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    kept = begun = ""
    for piece in chain(printed, (b"./",)):
        *lines, kept = (kept + decoder.decode(piece).replace("\0", "/")).split(_RECORD_SEPARATOR)
        for line in lines:
            path, _, count = (begun + line).rpartition("/")
            if count != "0" and not _NUMBER.fullmatch(count):
                begun += line + _RECORD_SEPARATOR
                continue
            begun = ""
            if path.isascii() or not _NOT_UNICODE.search(path):
                yield path.removeprefix("./"), count
