"""The parts of a Markdown text that are prose, and not code or comments.

A small part of CommonMark: just enough of its blocks to recognize code. `tests/test_notes_markdown.py` compares it with
markdown-it-py, which takes some ten times as long. Time is linear in a text's length, whatever it holds, and no single
pattern match takes long: a regular expression holds the interpreter lock until it returns.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_CODE_OR_COMMENT = re.compile(r"`|<!--")
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
_HEADING_OR_RULE = re.compile(r"#{1,6}(?:[ \t]|\Z)|([*_-])[ \t]*(?:\1[ \t]*){2,}\Z")
"""Headings and rules: a line that no paragraph goes on through."""
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*\Z")
_INLINE = re.compile(r"\\.|`+|<!--", re.DOTALL)
_TICKS = re.compile(r"`+")
_TAB_WIDTH = 4
"""Columns between tab stops, and of an indent that makes code."""
_MAX_INDENT = 32
"""Columns of an indent that are counted, more than any container uses."""
MAX_NESTING = 64
"""Nested lists and quotes; the start of one more is text."""


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


def prose(text: str, start: int = 0) -> list[Span]:
    """Return the parts of the text from `start` on that are neither code nor comments, in order."""
    if start >= len(text):
        return []
    if (spans := _simple(text, start)) is not None:
        return spans
    if _HAS_BLOCKS.search(text, start):
        return list(_inline(text, _Blocks(text, start).spans()))
    if _CODE_OR_COMMENT.search(text, start):
        return list(_inline(text, _paragraphs(text, start)))
    return [Span(start, len(text))]


def _simple(text: str, start: int) -> list[Span] | None:
    """Return the prose of a text with only inline code and unindented fences, as most are; None for any other."""
    spans: list[Span] = []
    for piece in _outside_fences(text, start):
        place, end = piece
        if _needs_block_parser(text, place, end):
            return None
        while (tick := text.find("`", place, end)) >= 0:
            if (found := _CODE_IN_A_LINE.match(text, tick, end)) is None:
                return None
            spans.append(Span(place, tick))
            place = found.end()
        spans.append(Span(place, end))
    return spans


def _needs_block_parser(text: str, start: int, end: int) -> bool:
    """Whether a text has anything that only the block parser understands. Separate searches are faster than one
    pattern, since most texts are full of single blanks."""
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
    """Yield the blocks of a text that has only paragraphs and headings."""
    for found in _BREAK.finditer(text, start):
        if found.start() > start:
            yield Span(start, found.start())
        if found[0].strip():
            yield Span(found.start(), found.end())
        start = found.end()
    if start < len(text):
        yield Span(start, len(text))


def _inline(text: str, blocks: Iterator[Span]) -> Iterator[Span]:
    """Yield the spans without the code and comments in them."""
    for block in blocks:
        start = place = block.start
        ends = _SpanEnds(text, block.end)
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


class _SpanEnds:
    """The ends of code spans and comments in a block. No search that failed is repeated: the time stays linear."""

    __slots__ = ("_end", "_has_comments", "_runs", "_text")

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._runs: dict[int, list[int]] | None = None
        """By how many backticks there are together, where."""
        self._has_comments = True

    def of_code(self, ticks: int, place: int) -> int:
        """Return the end of the next run of as many backticks; 0 if there is none."""
        if self._runs is None:
            self._runs = {}
            for found in _TICKS.finditer(self._text, place, self._end):
                self._runs.setdefault(len(found[0]), []).append(found.start())
        runs = self._runs.get(ticks, ())
        next_run = bisect_left(runs, place)
        return runs[next_run] + ticks if next_run < len(runs) else 0

    def of_comment(self, start: int) -> int:
        """Return the end of a comment; 0 if it has none. `<!-->` is a whole comment."""
        if not self._has_comments:
            return 0
        found = self._text.find("-->", start + len("<!"), self._end)
        self._has_comments = found >= 0
        return found + len("-->") if found >= 0 else 0


@dataclass(slots=True)
class _LineCursor:
    """A line, read from the left; columns count tabs at their stops."""

    text: str
    end: int
    """Behind its last character that is no white space."""
    place: int = 0
    column: int = 0
    tab_rest: int = 0
    """Columns of a tab that a container has taken a part of."""

    def indent(self) -> int:
        """Return the columns of white space that come next, at most about `_MAX_INDENT`."""
        column, place, widest = self.column, self.place, self.column + _MAX_INDENT
        while place < len(self.text) and self.text[place] in " \t" and column < widest:
            column += 1 if self.text[place] == " " else _TAB_WIDTH - column % _TAB_WIDTH
            place += 1
        return self.tab_rest + column - self.column

    def is_blank(self) -> bool:
        return self.place >= self.end

    def first(self) -> int:
        """Return the position of the first character that is not white space."""
        place = self.place
        while place < len(self.text) and self.text[place] in " \t":
            place += 1
        return place

    def skip_indent(self, columns: int) -> None:
        """Advance by so many columns of white space."""
        while columns > 0:
            if self.tab_rest:
                taken = min(columns, self.tab_rest)
                self.tab_rest -= taken
                columns -= taken
                continue
            if self.place >= len(self.text) or self.text[self.place] not in " \t":
                return
            width = 1 if self.text[self.place] == " " else _TAB_WIDTH - self.column % _TAB_WIDTH
            self.place += 1
            self.column += width
            self.tab_rest = width
        return

    def advance(self, characters: int) -> None:
        """Advance by so many characters that are not white space."""
        self.place += characters
        self.column += characters


@dataclass(slots=True)
class _Blocks:
    """A line-by-line parser of blocks."""

    source: str
    start: int
    containers: list[int] = field(default_factory=list[int])
    """What a line is in: a list item as the columns that its content is indented by, a quote as 0."""
    fence: str = ""
    in_paragraph: bool = False
    in_comment: bool = False
    is_item_empty: bool = False
    """The innermost list item has begun with nothing; if a blank line follows, it has ended."""

    has_closed: bool = False
    """The line at hand has ended the paragraph."""

    def spans(self) -> Iterator[Span]:
        """Yield paragraphs and headings."""
        begin: int | None = None
        end = place = self.start
        while place < len(self.source):
            stop = self.source.find("\n", place)
            after = len(self.source) if stop < 0 else stop + 1
            text = self.source[place : after - (stop >= 0)].rstrip("\r")
            line = _LineCursor(text, len(text.rstrip()))
            goes_on, self.has_closed = self.in_paragraph, False
            is_prose = self._read(line)
            if begin is not None and not (is_prose and goes_on and not self.has_closed):
                yield Span(begin, end)
                begin = None
            if is_prose:
                begin = place + line.place if begin is None else begin
                end = after
            place = after
        if begin is not None:
            yield Span(begin, end)

    def _read(self, line: _LineCursor) -> bool:
        """Consume a line; return whether its rest is prose."""
        matched = self._match(line)
        if self.fence:
            if matched == len(self.containers):
                self._check_fence_end(line)
                return False
            self.fence = ""
        if self.in_comment:
            if matched == len(self.containers):
                return self._check_comment_end(line)
            self.in_comment = False
        if line.is_blank():
            self.in_paragraph = False
            del self.containers[matched - self.is_item_empty :]
            self.is_item_empty = False
            return False
        self.is_item_empty = False
        return self._read_start(line, matched)

    def _match(self, line: _LineCursor) -> int:
        """Return how many open containers the line continues."""
        for number, width in enumerate(self.containers):
            if line.is_blank():  # in every item, and in no quote
                return self.containers.index(0, number) if 0 in self.containers[number:] else len(self.containers)
            if width:
                if line.indent() < width:
                    return number
                line.skip_indent(width)
            else:
                if line.indent() >= _TAB_WIDTH or not line.text.startswith(">", line.first()):
                    return number
                self._skip_quote(line)
        return len(self.containers)

    def _skip_quote(self, line: _LineCursor) -> None:
        line.skip_indent(line.indent())
        line.advance(1)
        if line.indent():
            line.skip_indent(1)

    def _check_fence_end(self, line: _LineCursor) -> None:
        if line.indent() < _TAB_WIDTH:
            rest = line.text[line.place : line.end].strip()
            if len(rest) >= len(self.fence) and not rest.strip(self.fence[0]):
                self.fence = ""

    def _check_comment_end(self, line: _LineCursor) -> bool:
        end = line.text.find("-->", line.place)
        if end < 0:
            return False
        self.in_comment = False
        line.place = end + len("-->")
        return not line.is_blank()

    def _read_start(self, line: _LineCursor, matched: int) -> bool:
        """Open containers, and classify the rest of a line that is neither blank nor in a fence."""
        goes_on = self.in_paragraph
        while True:
            indent = line.indent()
            if indent >= _TAB_WIDTH:
                if self.in_paragraph and goes_on:
                    return True  # of the paragraph, however far in
                self._close_containers(matched)
                return False
            first = line.first()
            if matched >= MAX_NESTING:
                break
            if line.text.startswith(">", first):
                self._close_containers(matched)
                self._skip_quote(line)
                self.containers.append(0)
            elif (
                (marker := _MARKER.match(line.text, first))
                and not _HEADING_OR_RULE.match(line.text, first)
                and self._begins_item(line, marker, goes_on and matched == len(self.containers))
            ):
                self._close_containers(matched)
                line.skip_indent(indent)
                width = marker.end() - first
                line.advance(width)
                inner = line.indent()
                wide = inner if 1 <= inner <= _TAB_WIDTH and not line.is_blank() else 1
                line.skip_indent(wide)
                self.containers.append(indent + width + wide)
            else:
                break
            matched, goes_on = len(self.containers), False
            if line.is_blank():
                self.is_item_empty = self.containers[-1] > 0
                return False
        return self._read_leaf(line, first, matched, goes_on)

    def _begins_item(self, line: _LineCursor, marker: re.Match[str], goes_on: bool) -> bool:
        """Whether a marker begins a list item; within a paragraph an item needs content, and a number must be 1."""
        if not goes_on:
            return True
        return marker.end() < line.end and marker[1] in (None, "1")

    def _read_leaf(self, line: _LineCursor, first: int, matched: int, goes_on: bool) -> bool:
        if fence := _FENCE.match(line.text, first):
            self._close_containers(matched)
            self.fence = fence[0]
            return False
        if line.text.startswith("<!--", first):
            self._close_containers(matched)
            self.in_comment = line.text.find("-->", first) < 0
            return not self.in_comment
        if _HEADING_OR_RULE.match(line.text, first):
            self._close_containers(matched)
            return True
        if not goes_on:
            self._close_containers(matched)
        self.in_paragraph = not (goes_on and matched == len(self.containers) and _UNDERLINE.match(line.text, first))
        return True

    def _close_containers(self, matched: int) -> None:
        """Close the containers that the line does not continue, and the paragraph."""
        del self.containers[matched:]
        self.in_paragraph = False
        self.has_closed = True
