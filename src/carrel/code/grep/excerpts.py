"""A matching line with the lines around it, as they are shown."""

from typing import NamedTuple

from carrel.code.grep.text import Text

CONTEXT_LINES = 2
LONGEST_LINE = 500
CUT = "... [truncated]"

_WIDEST = 4  # bytes of a character
_REACH = _WIDEST * (LONGEST_LINE + 2)
_ONE_END = LONGEST_LINE - len(CUT)
_BOTH_ENDS = (LONGEST_LINE - 2 * len(CUT)) // 2


class Excerpt(NamedTuple):
    column: int
    """In characters from 1."""
    text: str
    before: list[str]
    after: list[str]


def excerpt(text: Text, begin: int, column: int | None) -> Excerpt:
    """The line that begins at an offset, and its context.

    The first match's column is given in bytes from 1, None for the end of the line.
    """
    end = text.line_end(begin)
    content_end = _without_returns(text, begin, end)
    match = content_end if column is None else min(begin + column - 1, content_end)
    match = _character_begin(text, begin, match)
    shown = _shown(text, begin, match, content_end)
    return Excerpt(text.characters(begin, match) + 1, shown, _before(text, begin), _after(text, end))


def _before(text: Text, begin: int) -> list[str]:
    lines: list[str] = []
    while begin > 0 and len(lines) < CONTEXT_LINES:
        end = begin - 1
        begin = text.line_begin(end)
        lines.append(_context_line(text, begin, end))
    return lines[::-1]


def _after(text: Text, end: int) -> list[str]:
    lines: list[str] = []
    while len(lines) < CONTEXT_LINES and text.slice(end + 1, end + 2):
        begin = end + 1
        end = text.line_end(begin)
        lines.append(_context_line(text, begin, end))
    return lines


def _context_line(text: Text, begin: int, end: int) -> str:
    return _shown(text, begin, begin, _without_returns(text, begin, end))


def _shown(text: Text, begin: int, match: int, end: int) -> str:
    """The line, or as much of it around the match as fits."""
    first = max(begin, match - _REACH)
    last = min(end, match + _REACH)
    before = text.slice(first, match).decode("utf-8", "replace")
    after = text.slice(match, last).decode("utf-8", "replace")
    whole = before + after
    if first == begin and last == end and len(whole) <= LONGEST_LINE:
        return whole
    if first == begin and len(before) <= _ONE_END // 2:
        return whole[:_ONE_END] + CUT
    if last == end and len(after) <= _ONE_END // 2:
        return CUT + whole[-_ONE_END:]
    return CUT + before[-_BOTH_ENDS:] + after[:_BOTH_ENDS] + CUT


def _without_returns(text: Text, begin: int, end: int) -> int:
    """Where the line's content ends."""
    while end > begin and text.slice(end - 1, end) == b"\r":
        end -= 1
    return end


def _character_begin(text: Text, begin: int, offset: int) -> int:
    """Where the character begins that the offset is in: a pattern of bytes may match within one."""
    for back in range(min(_WIDEST - 1, offset - begin), 0, -1):
        piece = text.slice(offset - back, offset + 1)
        if len(piece) > back and len(piece.decode("utf-8", "replace")) == 1:
            return offset - back
    return offset
