"""The two passes of a search: how many lines match in which file, then where the first of them are."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from carrel.code.grep.excerpts import excerpt
from carrel.code.grep.files import NAMES_DESCRIPTORS, opened
from carrel.code.grep.processes import Processes
from carrel.code.grep.program import counting, placing
from carrel.code.grep.text import Text

_COUNT = re.compile(r"(?:\./)?([^\0]*)\0(\d+)\r?\n")
_PLACE = re.compile(r"([^\0]*)\0(\d+):(?:(\d+):)?(\d+):[^\n]*\n")
_NOT_UNICODE = re.compile("[\udc80-\udcff]")


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


class Place(NamedTuple):
    """Of a line with a match. The column is in bytes from 1, None for the end of the line."""

    line: int
    column: int | None
    offset: int


class Passes:
    """Of one pattern below one root."""

    def __init__(self, program: str, root: str, pattern: str, *, case_sensitive: bool, processes: Processes) -> None:
        self._program = program
        self._root = root
        self._pattern = pattern
        self._case_sensitive = case_sensitive
        self._processes = processes

    def count(self, narrowing: list[str], selected: Callable[[str], bool]) -> Counts:
        """Counts only what is selected. A file whose name is not UTF-8 has no path that could be shown: it never is."""
        by_path: list[tuple[str, int]] = []
        files = 0
        command = counting(self._pattern, case_sensitive=self._case_sensitive, narrowing=narrowing)
        for lines in self._output(command):
            suspicious = not lines.isascii()
            for path, count in _COUNT.findall(lines):
                if selected(path) and not (suspicious and _NOT_UNICODE.search(path)):
                    files += 1
                    if count != "0":
                        by_path.append((path, int(count)))
        return Counts(sorted(by_path), files)

    def matches(self, counts: Counts, limit: int) -> list[dict[str, Any]]:
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
        found: list[dict[str, Any]] = []
        with opened(self._root, paths) as files:
            places = self._places(files, limit)
            for path, descriptor in files.items():
                with closing(Text(descriptor, self._processes.check)) as text:
                    for place in places.get(path, ())[: limit - len(found)]:
                        found.append({"file": path, "line": place.line, **excerpt(text, place.offset, place.column)})
        return found

    def _places(self, files: dict[str, int], limit: int) -> dict[str, list[Place]]:
        by_descriptor = NAMES_DESCRIPTORS
        names = {f"/dev/fd/{descriptor}" if by_descriptor else f"./{path}": path for path, descriptor in files.items()}
        if not names:
            return {}
        places: dict[str, list[Place]] = {}
        command = placing(self._pattern, case_sensitive=self._case_sensitive, limit=limit, files=list(names))
        for lines in self._output(command, list(files.values()) if by_descriptor else ()):
            for name, line, column, offset in _PLACE.findall(lines):
                place = Place(int(line), int(column) if column else None, int(offset))
                places.setdefault(names[name], []).append(place)
        return places

    def _output(self, arguments: list[str], descriptors: Sequence[int] = ()) -> Iterator[str]:
        """What `rg` prints, in pieces of whole lines; names that are not UTF-8 have surrogates in them."""
        process = self._processes.start([self._program, *arguments], self._root, descriptors)
        kept = b""
        for piece in self._processes.output(process):
            kept += piece
            end = _whole_lines(kept)
            yield kept[:end].decode("utf-8", "surrogateescape")
            kept = kept[end:]
        status, complaint = self._processes.ended(process)
        if status not in (0, 1) and complaint:
            raise SearchFailed(complaint)


def _whole_lines(printed: bytes) -> int:
    """Where the last line ends. Each is a name, maybe with line feeds in it, a NUL, and something without either."""
    last = printed.rfind(b"\0")
    end = printed.find(b"\n", last) if last >= 0 else -1
    if end < 0:
        before = printed.rfind(b"\0", 0, max(last, 0))
        end = printed.find(b"\n", before) if before >= 0 else -1
    return end + 1
