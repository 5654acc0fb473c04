"""A matching line with the lines around it, as they are shown, out of an open file that is read a block at a time."""

import codecs
import os
from collections.abc import Callable
from typing import IO, NamedTuple

BLOCK_BYTES = 1 << 14
_ENCODING_BY_BOM = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class TextFile:
    """An open file as `rg` sees it: UTF-8 without a byte order mark. Offsets are those that `rg` gives.

    UTF-16 with a byte order mark is put into UTF-8 in a temporary file first. `check` is called for every block, and
    may raise to end the work.
    """

    def __init__(self, descriptor: int, check: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._check = check
        self._first = 0
        self._decoded: IO[bytes] | None = None
        self._number = -1
        self._block = b""
        mark = self._read(0, 3)
        if mark == codecs.BOM_UTF8:
            self._first = 3
        elif encoding := _ENCODING_BY_BOM.get(mark[:2]):
            self._decode(encoding)

    def close(self) -> None:
        """The descriptor stays open."""
        if self._decoded is not None:
            self._decoded.close()

    def slice(self, begin: int, end: int) -> bytes:
        """The bytes between two offsets, or fewer at the end."""
        pieces: list[bytes] = []
        while begin < end:
            block, at = self._block_at(begin)
            piece = block[at : at + end - begin]
            if not piece:
                break
            pieces.append(piece)
            begin += len(piece)
        return b"".join(pieces)

    def line_end(self, offset: int) -> int:
        """Where the next line feed is from here on, or the end of the text."""
        while True:
            block, at = self._block_at(offset)
            if (found := block.find(b"\n", at)) >= 0:
                return offset - at + found
            if at >= len(block):
                return offset
            offset += len(block) - at

    def line_begin(self, offset: int) -> int:
        """Where the line begins that holds what is just before the offset."""
        while offset > 0:
            block, at = self._block_at(offset - 1)
            if (found := block.rfind(b"\n", 0, at + 1)) >= 0:
                return offset - at + found
            offset -= at + 1
        return 0

    def characters(self, begin: int, end: int) -> int:
        """How many characters are between two offsets; what is not UTF-8 counts as the U+FFFD that it is shown as."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        count = 0
        while begin < end:
            piece = self.slice(begin, min(end, begin + BLOCK_BYTES))
            if not piece:
                break
            count += len(decoder.decode(piece))
            begin += len(piece)
        return count + len(decoder.decode(b"", final=True))

    def _block_at(self, offset: int) -> tuple[bytes, int]:
        """The block that an offset is in, and where in it."""
        number, at = divmod(offset, BLOCK_BYTES)
        if number != self._number:
            self._block = self._read(self._first + number * BLOCK_BYTES, BLOCK_BYTES)
            self._number = number
        return self._block, at

    def _read(self, begin: int, size: int) -> bytes:
        self._check()
        os.lseek(self._descriptor, begin, os.SEEK_SET)
        return os.read(self._descriptor, size)

    def _decode(self, encoding: str) -> None:
        import tempfile

        decoder = codecs.getincrementaldecoder(encoding)("replace")
        decoded = self._decoded = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        begin = 2
        while piece := self._read(begin, BLOCK_BYTES):
            decoded.write(decoder.decode(piece).encode())
            begin += len(piece)
        decoded.write(decoder.decode(b"", final=True).encode())
        decoded.flush()
        self._descriptor = decoded.fileno()


CONTEXT_LINES = 2
MAX_LINE_CHARACTERS = 500
TRUNCATION_MARK = "... [truncated]"

_MAX_CHARACTER_BYTES = 4  # bytes of a character
_MAX_SIDE_BYTES = _MAX_CHARACTER_BYTES * (MAX_LINE_CHARACTERS + 2)
_CHARACTERS_CUT_ONCE = MAX_LINE_CHARACTERS - len(TRUNCATION_MARK)
_CHARACTERS_PER_SIDE = (MAX_LINE_CHARACTERS - 2 * len(TRUNCATION_MARK)) // 2


class Excerpt(NamedTuple):
    column: int
    """In characters from 1."""
    text: str
    before: list[str]
    after: list[str]


def excerpt(text: TextFile, begin: int, column: int | None) -> Excerpt:
    """The line that begins at an offset, and its context.

    The first match's column is given in bytes from 1, None for the end of the line.
    """
    end = text.line_end(begin)
    content_end = _without_returns(text, begin, end)
    match = content_end if column is None else min(begin + column - 1, content_end)
    match = _character_begin(text, begin, match)
    shown = _shortened(text, begin, match, content_end)
    return Excerpt(text.characters(begin, match) + 1, shown, _before(text, begin), _after(text, end))


def _before(text: TextFile, begin: int) -> list[str]:
    lines: list[str] = []
    while begin > 0 and len(lines) < CONTEXT_LINES:
        end = begin - 1
        begin = text.line_begin(end)
        lines.append(_context_line(text, begin, end))
    return lines[::-1]


def _after(text: TextFile, end: int) -> list[str]:
    lines: list[str] = []
    while len(lines) < CONTEXT_LINES and text.slice(end + 1, end + 2):
        begin = end + 1
        end = text.line_end(begin)
        lines.append(_context_line(text, begin, end))
    return lines


def _context_line(text: TextFile, begin: int, end: int) -> str:
    return _shortened(text, begin, begin, _without_returns(text, begin, end))


def _shortened(text: TextFile, begin: int, match: int, end: int) -> str:
    """The line, or as much of it around the match as fits."""
    first = max(begin, match - _MAX_SIDE_BYTES)
    last = min(end, match + _MAX_SIDE_BYTES)
    before = text.slice(first, match).decode("utf-8", "replace")
    after = text.slice(match, last).decode("utf-8", "replace")
    whole = before + after
    if first == begin and last == end and len(whole) <= MAX_LINE_CHARACTERS:
        return whole
    if first == begin and len(before) <= _CHARACTERS_CUT_ONCE // 2:
        return whole[:_CHARACTERS_CUT_ONCE] + TRUNCATION_MARK
    if last == end and len(after) <= _CHARACTERS_CUT_ONCE // 2:
        return TRUNCATION_MARK + whole[-_CHARACTERS_CUT_ONCE:]
    return TRUNCATION_MARK + before[-_CHARACTERS_PER_SIDE:] + after[:_CHARACTERS_PER_SIDE] + TRUNCATION_MARK


def _without_returns(text: TextFile, begin: int, end: int) -> int:
    """Where the line's content ends."""
    while end > begin and text.slice(end - 1, end) == b"\r":
        end -= 1
    return end


def _character_begin(text: TextFile, begin: int, offset: int) -> int:
    """Where the character begins that the offset is in: a pattern of bytes may match within one."""
    for back in range(min(_MAX_CHARACTER_BYTES - 1, offset - begin), 0, -1):
        piece = text.slice(offset - back, offset + 1)
        if len(piece) > back and len(piece.decode("utf-8", "replace")) == 1:
            return offset - back
    return offset
