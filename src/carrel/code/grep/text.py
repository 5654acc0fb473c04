"""The text of an open file as `rg` sees it: UTF-8 without a byte order mark, read a block at a time.

Offsets are those that `rg` gives. UTF-16 with a byte order mark is put into UTF-8 in a temporary file first.
"""

import codecs
import os
from collections.abc import Callable
from typing import IO

BLOCK = 1 << 14
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Text:
    """`check` is called for every block, and may raise to end the work."""

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
        elif encoding := _MARKS.get(mark[:2]):
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
            piece = self.slice(begin, min(end, begin + BLOCK))
            if not piece:
                break
            count += len(decoder.decode(piece))
            begin += len(piece)
        return count + len(decoder.decode(b"", final=True))

    def _block_at(self, offset: int) -> tuple[bytes, int]:
        """The block that an offset is in, and where in it."""
        number, at = divmod(offset, BLOCK)
        if number != self._number:
            self._block = self._read(self._first + number * BLOCK, BLOCK)
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
        while piece := self._read(begin, BLOCK):
            decoded.write(decoder.decode(piece).encode())
            begin += len(piece)
        decoded.write(decoder.decode(b"", final=True).encode())
        decoded.flush()
        self._descriptor = decoded.fileno()
