"""Where in a markdown text words mean what they say: outside of code and comments.

A small part of CommonMark: just enough of its blocks to know code by. `tests/test_notes_prose.py` compares it with
markdown-it-py, which takes some ten times as long.
"""

import re
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
_STOP = 4
"""Columns from one tab stop to the next; and an indent of so many is code."""


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
        if text.find("`", place, end) >= 0:
            for found in _CODE_IN_A_LINE.finditer(text, place, end):
                if text.find("`", place, found.start()) >= 0:
                    return None
                spans.append(Span(place, found.start()))
                place = found.end()
            if text.find("`", place, end) >= 0:
                return None
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
        while place < block.end and (found := _INLINE.search(text, place, block.end)):
            place = found.end()
            if found[0].startswith("`"):
                closed = _closing(text, found[0], place, block.end)
            elif found[0] == "<!--":
                closed = _end_of_comment(text, found.start(), block.end)
            else:
                continue
            if closed:
                if found.start() > start:
                    yield Span(start, found.start())
                start = place = closed
        if start < block.end:
            yield Span(start, block.end)


def _end_of_comment(text: str, start: int, end: int) -> int:
    """Behind it; 0 if it has none. `<!-->` is one already."""
    found = text.find("-->", start + len("<!"), end)
    return found + len("-->") if found >= 0 else 0


def _closing(text: str, ticks: str, place: int, end: int) -> int:
    """Behind the next run of just as many backticks; 0 if there is none."""
    found = re.compile(rf"(?<!`){ticks}(?!`)").search(text, place, end)
    return found.end() if found else 0


@dataclass(slots=True)
class _Line:
    """A line, read from the left; columns are counted with tabs as they stand."""

    text: str
    place: int = 0
    column: int = 0
    debt: int = 0
    """Columns of a tab that a container has taken a part of."""

    @property
    def rest(self) -> str:
        return self.text[self.place :]

    def indent(self) -> int:
        """How many columns of blanks come next."""
        column, place = self.column, self.place
        while place < len(self.text) and self.text[place] in " \t":
            column += 1 if self.text[place] == " " else _STOP - column % _STOP
            place += 1
        return self.debt + column - self.column

    def is_blank(self) -> bool:
        return not self.rest.strip()

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
            line = _Line(self.source[place : after - (stop >= 0)].rstrip("\r"))
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
            if width:
                if line.is_blank():
                    continue
                if line.indent() < width:
                    return number
                line.skip(width)
            else:
                if line.indent() >= _STOP or not line.rest.lstrip(" \t").startswith(">"):
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
            rest = line.rest.strip()
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
            rest = line.rest.lstrip(" \t")
            if rest.startswith(">"):
                self._leave(matched)
                self._skip_quote(line)
                self.containers.append(0)
            elif (
                (marker := _MARKER.match(rest))
                and not _ALONE.match(rest)
                and self._begins_item(rest, marker, goes_on and matched == len(self.containers))
            ):
                self._leave(matched)
                line.skip(indent)
                line.take(marker.end())
                inner = line.indent()
                wide = inner if 1 <= inner <= _STOP and not line.is_blank() else 1
                line.skip(wide)
                self.containers.append(indent + marker.end() + wide)
            else:
                break
            matched, goes_on = len(self.containers), False
            if line.is_blank():
                self.is_item_empty = self.containers[-1] > 0
                return False
        return self._read_leaf(line, rest, matched, goes_on)

    def _begins_item(self, rest: str, marker: re.Match[str], goes_on: bool) -> bool:
        """In the middle of a paragraph only what has content, and a number only if it is 1."""
        if not goes_on:
            return True
        return bool(rest[marker.end() :].strip()) and marker[1] in (None, "1")

    def _read_leaf(self, line: _Line, rest: str, matched: int, goes_on: bool) -> bool:
        if fence := _FENCE.match(rest):
            self._leave(matched)
            self.fence = fence[0]
            return False
        if rest.startswith("<!--"):
            self._leave(matched)
            self.in_comment = "-->" not in rest
            return not self.in_comment
        if _ALONE.match(rest):
            self._leave(matched)
            return True
        if not goes_on:
            self._leave(matched)
        self.in_paragraph = not (goes_on and matched == len(self.containers) and _UNDERLINE.match(rest))
        return True

    def _leave(self, matched: int) -> None:
        """The containers that do not go on, and the paragraph."""
        del self.containers[matched:]
        self.in_paragraph = False
        self.has_left = True
