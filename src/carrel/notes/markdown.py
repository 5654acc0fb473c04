"""Where in a markdown text words mean what they say: outside of code and comments.

A small part of CommonMark: just enough of its blocks to know code by. `tests/test_notes_markdown.py` compares it with
markdown-it-py, which takes some ten times as long. Whatever a text holds, the time is linear in its length, and no
single call of a pattern takes long: a thread that is in one lets no other run.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_HAS_INLINE = re.compile(r"`|<!--")
_CODE_IN_A_LINE = re.compile(r"`(`*+)[^\n]*?(?<!`)`\1(?!`)")
_FENCED_CODE = re.compile(
    r"^(?:(`{3,})[^`\n]*\n(?:[^\n]*\n)*?(?: {0,3}\1`*[ \t]*\r?(?:\n|\Z)|[^\n]*\Z)"
    r"|(~{3,})[^\n]*\n(?:[^\n]*\n)*?(?: {0,3}\2~*[ \t]*\r?(?:\n|\Z)|[^\n]*\Z))",
    re.MULTILINE,
)
_HAS_BLOCKS = re.compile(
    r"```|~~~|^(?: {4}| {0,3}\t| {0,3}>| {0,3}<!--| {0,3}(?:[-+*]|\d{1,9}[.)])[ \t])", re.MULTILINE
)
_BREAK = re.compile(r"^(?:[ \t]*\r?\n| {0,3}#{1,6}(?:[ \t][^\n]*|\r?)(?:\n|\Z))", re.MULTILINE)
"""A blank line, or a heading."""
_MARKER = re.compile(r"(?:[-+*]|(\d{1,9})[.)])(?=[ \t]|\Z)")
_FENCE = re.compile(r"(`{3,})(?=[^`]*\Z)|(~{3,})")
_ALONE = re.compile(r"#{1,6}(?:[ \t]|\Z)|([*_-])[ \t]*(?:\1[ \t]*){2,}\Z")
"""Headings and rules: a line that no paragraph goes on through."""
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*\Z")
_INLINE = re.compile(r"\\.|`+|<!--", re.DOTALL)
_TICKS = re.compile(r"`+")
_STOP = 4
"""Columns from one tab stop to the next; and an indent of so many is code."""
_WIDEST = 32
"""Columns of an indent that are counted: more than any container takes."""
MAX_CONTAINERS = 64
"""Lists and quotes within each other; what would begin one more is text."""


class Span(NamedTuple):
    start: int
    end: int


def prose(text: str, start: int = 0) -> list[Span]:
    """The parts of the text from `start` on that are neither code nor a comment, in order."""
    if start >= len(text):
        return []
    if (spans := _simple(text, start)) is not None:
        return spans
    if _HAS_BLOCKS.search(text, start):
        return list(_inline(text, _Blocks(text, start).spans()))
    if _HAS_INLINE.search(text, start):
        return list(_inline(text, _paragraphs(text, start)))
    return [Span(start, len(text))]


def _simple(text: str, start: int) -> list[Span] | None:
    """Of a text like most: code is within lines, or between fences that stand at their beginning, and nothing in it
    could begin any other. Else None."""
    spans: list[Span] = []
    for piece in _outside_fences(text, start):
        place, end = piece
        if _is_not_simple(text, place, end):
            return None
        while (tick := text.find("`", place, end)) >= 0:
            if (found := _CODE_IN_A_LINE.match(text, tick, end)) is None:
                return None
            spans.append(Span(place, tick))
            place = found.end()
        spans.append(Span(place, end))
    return spans


def _is_not_simple(text: str, start: int, end: int) -> bool:
    """One search for each is quicker than a pattern of all: most texts are full of single blanks."""
    find = text.find
    return (
        find("    ", start, end) >= 0
        or find("\t", start, end) >= 0
        or find("```", start, end) >= 0
        or find("~~~", start, end) >= 0
        or find("<!--", start, end) >= 0
        or find("\\`", start, end) >= 0
    )


def _outside_fences(text: str, start: int) -> Iterator[Span]:
    if text.find("```", start) >= 0 or text.find("~~~", start) >= 0:
        for found in _FENCED_CODE.finditer(text, start):
            yield Span(start, found.start())
            start = found.end()
    yield Span(start, len(text))


def _paragraphs(text: str, start: int) -> Iterator[Span]:
    """Of a text whose lines are all part of a paragraph or a heading."""
    for found in _BREAK.finditer(text, start):
        if found.start() > start:
            yield Span(start, found.start())
        if found[0].strip():
            yield Span(found.start(), found.end())
        start = found.end()
    if start < len(text):
        yield Span(start, len(text))


def _inline(text: str, blocks: Iterator[Span]) -> Iterator[Span]:
    """The spans without the code and comments in them."""
    for block in blocks:
        start = place = block.start
        ends = _Ends(text, block.end)
        while found := _INLINE.search(text, place, block.end):
            place = found.end()
            if found[0].startswith("`"):
                closed = ends.of_code(len(found[0]), place)
            elif found[0] == "<!--":
                closed = ends.of_comment(found.start())
            else:
                continue
            if closed:
                if found.start() > start:
                    yield Span(start, found.start())
                start = place = closed
        if start < block.end:
            yield Span(start, block.end)


class _Ends:
    """Where code and comments in a block end. What was looked for in vain is not looked for again."""

    __slots__ = ("_end", "_has_comments", "_runs", "_text")

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._runs: dict[int, list[int]] | None = None
        """By how many backticks there are together, where."""
        self._has_comments = True

    def of_code(self, ticks: int, place: int) -> int:
        """Behind the next run of just as many backticks; 0 if there is none."""
        if self._runs is None:
            self._runs = {}
            for found in _TICKS.finditer(self._text, place, self._end):
                self._runs.setdefault(len(found[0]), []).append(found.start())
        runs = self._runs.get(ticks, ())
        next_run = bisect_left(runs, place)
        return runs[next_run] + ticks if next_run < len(runs) else 0

    def of_comment(self, start: int) -> int:
        """Behind it; 0 if it has none. `<!-->` is one already."""
        if not self._has_comments:
            return 0
        found = self._text.find("-->", start + len("<!"), self._end)
        self._has_comments = found >= 0
        return found + len("-->") if found >= 0 else 0


@dataclass(slots=True)
class _Line:
    """A line, read from the left; columns are counted with tabs as they stand."""

    text: str
    end: int
    """Behind its last character that is no white space."""
    place: int = 0
    column: int = 0
    debt: int = 0
    """Columns of a tab that a container has taken a part of."""

    def indent(self) -> int:
        """How many columns of blanks come next; of more than `_WIDEST`, as many."""
        column, place, widest = self.column, self.place, self.column + _WIDEST
        while place < len(self.text) and self.text[place] in " \t" and column < widest:
            column += 1 if self.text[place] == " " else _STOP - column % _STOP
            place += 1
        return self.debt + column - self.column

    def is_blank(self) -> bool:
        return self.place >= self.end

    def first(self) -> int:
        """The place of what comes behind an indent that is no code's."""
        place = self.place
        while place < len(self.text) and self.text[place] in " \t":
            place += 1
        return place

    def skip(self, columns: int) -> None:
        """Past so many columns of blanks."""
        while columns > 0:
            if self.debt:
                taken = min(columns, self.debt)
                self.debt -= taken
                columns -= taken
                continue
            if self.place >= len(self.text) or self.text[self.place] not in " \t":
                return
            width = 1 if self.text[self.place] == " " else _STOP - self.column % _STOP
            self.place += 1
            self.column += width
            self.debt = width
        return

    def take(self, characters: int) -> None:
        """Past so many that are no blanks."""
        self.place += characters
        self.column += characters


@dataclass(slots=True)
class _Blocks:
    """The blocks of a text, a line at a time."""

    source: str
    start: int
    containers: list[int] = field(default_factory=list[int])
    """What a line is in: a list item as the columns that its content is indented by, a quote as 0."""
    fence: str = ""
    in_paragraph: bool = False
    in_comment: bool = False
    is_item_empty: bool = False
    """The innermost list item has begun with nothing; if a blank line follows, it has ended."""

    has_left: bool = False
    """The line at hand has ended the paragraph."""

    def spans(self) -> Iterator[Span]:
        """Paragraphs and headings."""
        begin: int | None = None
        end = place = self.start
        while place < len(self.source):
            stop = self.source.find("\n", place)
            after = len(self.source) if stop < 0 else stop + 1
            text = self.source[place : after - (stop >= 0)].rstrip("\r")
            line = _Line(text, len(text.rstrip()))
            goes_on, self.has_left = self.in_paragraph, False
            is_prose = self._read(line)
            if begin is not None and not (is_prose and goes_on and not self.has_left):
                yield Span(begin, end)
                begin = None
            if is_prose:
                begin = place + line.place if begin is None else begin
                end = after
            place = after
        if begin is not None:
            yield Span(begin, end)

    def _read(self, line: _Line) -> bool:
        """Take in a line; whether its rest is prose, alone or together with the lines before."""
        matched = self._match(line)
        if self.fence:
            if matched == len(self.containers):
                self._look_for_end_of_fence(line)
                return False
            self.fence = ""
        if self.in_comment:
            if matched == len(self.containers):
                return self._look_for_end_of_comment(line)
            self.in_comment = False
        if line.is_blank():
            self.in_paragraph = False
            del self.containers[matched - self.is_item_empty :]
            self.is_item_empty = False
            return False
        self.is_item_empty = False
        return self._read_start(line, matched)

    def _match(self, line: _Line) -> int:
        """How many of the containers go on in this line."""
        for number, width in enumerate(self.containers):
            if line.is_blank():  # in every item, and in no quote
                return self.containers.index(0, number) if 0 in self.containers[number:] else len(self.containers)
            if width:
                if line.indent() < width:
                    return number
                line.skip(width)
            else:
                if line.indent() >= _STOP or not line.text.startswith(">", line.first()):
                    return number
                self._skip_quote(line)
        return len(self.containers)

    def _skip_quote(self, line: _Line) -> None:
        line.skip(line.indent())
        line.take(1)
        if line.indent():
            line.skip(1)

    def _look_for_end_of_fence(self, line: _Line) -> None:
        if line.indent() < _STOP:
            rest = line.text[line.place : line.end].strip()
            if len(rest) >= len(self.fence) and not rest.strip(self.fence[0]):
                self.fence = ""

    def _look_for_end_of_comment(self, line: _Line) -> bool:
        end = line.text.find("-->", line.place)
        if end < 0:
            return False
        self.in_comment = False
        line.place = end + len("-->")
        return not line.is_blank()

    def _read_start(self, line: _Line, matched: int) -> bool:
        """A line that is not blank, nor in a fence: new containers, then what it is."""
        goes_on = self.in_paragraph
        while True:
            indent = line.indent()
            if indent >= _STOP:
                if self.in_paragraph and goes_on:
                    return True  # of the paragraph, however far in
                self._leave(matched)
                return False
            first = line.first()
            if matched >= MAX_CONTAINERS:
                break
            if line.text.startswith(">", first):
                self._leave(matched)
                self._skip_quote(line)
                self.containers.append(0)
            elif (
                (marker := _MARKER.match(line.text, first))
                and not _ALONE.match(line.text, first)
                and self._begins_item(line, marker, goes_on and matched == len(self.containers))
            ):
                self._leave(matched)
                line.skip(indent)
                width = marker.end() - first
                line.take(width)
                inner = line.indent()
                wide = inner if 1 <= inner <= _STOP and not line.is_blank() else 1
                line.skip(wide)
                self.containers.append(indent + width + wide)
            else:
                break
            matched, goes_on = len(self.containers), False
            if line.is_blank():
                self.is_item_empty = self.containers[-1] > 0
                return False
        return self._read_leaf(line, first, matched, goes_on)

    def _begins_item(self, line: _Line, marker: re.Match[str], goes_on: bool) -> bool:
        """In the middle of a paragraph only what has content, and a number only if it is 1."""
        if not goes_on:
            return True
        return marker.end() < line.end and marker[1] in (None, "1")

    def _read_leaf(self, line: _Line, first: int, matched: int, goes_on: bool) -> bool:
        if fence := _FENCE.match(line.text, first):
            self._leave(matched)
            self.fence = fence[0]
            return False
        if line.text.startswith("<!--", first):
            self._leave(matched)
            self.in_comment = line.text.find("-->", first) < 0
            return not self.in_comment
        if _ALONE.match(line.text, first):
            self._leave(matched)
            return True
        if not goes_on:
            self._leave(matched)
        self.in_paragraph = not (goes_on and matched == len(self.containers) and _UNDERLINE.match(line.text, first))
        return True

    def _leave(self, matched: int) -> None:
        """The containers that do not go on, and the paragraph."""
        del self.containers[matched:]
        self.in_paragraph = False
        self.has_left = True
