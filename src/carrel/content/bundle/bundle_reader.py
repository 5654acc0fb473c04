"""The records of a bundle's files, one after another: JSON or JSON Lines, either of them packed with gzip.

No more than one record and what is read ahead of it is held at a time.
"""

import gzip
import json
import zlib
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard, cast

from carrel.common import Progress
from carrel.content.bundle.fields import BY_KEY
from carrel.errors import UsageError
from carrel.untrusted import Limits, check_json
from carrel.untrusted import Unreadable as LimitExceeded

CHUNK_BYTES = 1 << 16
MAX_RECORD_BYTES = 1 << 24
CUT_OFF_CHARACTERS = 64  # characters: an error this close to the end of what was read may only be the end
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"


class Record(NamedTuple):
    kind: str
    """The name in the file: a key of the document, or the line's `kind`."""
    number: int
    """The line number from 1, or the index in its array from 0."""
    value: Any


class UnreadableBundle(Exception):
    """A fault after which the rest of the file cannot be read, and its location."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem


class BadRecord(NamedTuple):
    """A line that is not a record; the lines after it can still be read."""

    number: int
    problem: str


class DuplicateField(ValueError):
    pass


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateField(f"{twice} is there twice")
    return found


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _constant(name: str) -> object:
    raise DuplicateField(f"{name} is no number of JSON")


_LIMITS = Limits(characters=2 * MAX_RECORD_BYTES, depth=900)
"""Limits of Python's JSON parser. A field that nests too deeply to be stored is refused later, by name."""
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


class BundleFile:
    """A bundle file; its format is detected from its content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_lines = False

    def place(self, key: str, number: int) -> str:
        return f"{self.path}:{number}" if self.is_lines else f"{self.path}: {key}[{number}]"

    def records(self, progress: Progress) -> Iterator[Record | BadRecord]:
        """Yield the records, and report the bytes read as progress. Raise `UnreadableBundle` where reading cannot go
        on."""
        with self._opened() as (raw, file):
            reported = 0
            start = file.peek(CHUNK_BYTES)[:CHUNK_BYTES]
            self.is_lines = _is_lines(start)
            found = _lines(file) if self.is_lines else _Document(file, str(self.path)).records()
            for count, record in enumerate(found):
                if count % 256 == 0 and (now := raw.tell()) != reported:
                    progress(now - reported)
                    reported = now
                yield record
            progress(self.path.stat().st_size - reported)

    @contextmanager
    def _opened(self) -> "Generator[tuple[BinaryIO, BufferedReader]]":
        try:
            with self.path.open("rb") as raw:
                magic = raw.peek(4)[:4]
                if magic == ZIP_MAGIC:
                    raise UsageError(f"{self.path} is a zip archive: unzip it first")
                if magic[:2] == GZIP_MAGIC:
                    with gzip.open(raw, "rb") as unpacked, BufferedReader(cast("Any", unpacked), CHUNK_BYTES) as file:
                        yield raw, file
                else:
                    yield raw, raw
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UnreadableBundle(str(self.path), f"is damaged, or not gzip to its end: {error}") from error
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from error


def _is_lines(start: bytes) -> bool:
    """Whether the file is JSON Lines: its first line begins an object that looks like a record."""
    line = start.removeprefix(BOM_UTF8).lstrip().split(b"\n", 1)[0]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _first_key(line) not in (None, *BY_KEY)
    if not is_object(value) or "kind" in value:
        return is_object(value)
    return BY_KEY.keys().isdisjoint(value) and not all(isinstance(each, list) for each in value.values())


def _first_key(line: bytes) -> str | None:
    """Return the first key of an object that is cut off."""
    inner = line[1:].lstrip().decode(errors="replace")
    try:
        key = _DECODER.raw_decode(inner)[0] if line.startswith(b"{") else None
    except ValueError:
        return None
    return key if isinstance(key, str) else None


def _lines(file: BufferedReader) -> Iterator[Record | BadRecord]:
    number = 0
    while line := file.readline(MAX_RECORD_BYTES + 1):
        number += 1
        if len(line) > MAX_RECORD_BYTES:
            yield BadRecord(number, f"is longer than {MAX_RECORD_BYTES >> 20} MiB")
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_RECORD_BYTES)
        elif line.strip():
            yield _line(number, line.removeprefix(BOM_UTF8) if number == 1 else line)


def _line(number: int, line: bytes) -> Record | BadRecord:
    try:
        text = line.decode()
        check_json(text, _LIMITS)
        value = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        return BadRecord(number, f"is not UTF-8: byte {error.start + 1} of the line is 0x{line[error.start]:02X}")
    except DuplicateField as error:
        return BadRecord(number, str(error))
    except (ValueError, RecursionError) as error:
        return BadRecord(number, f"is not JSON: {_explained(error)}")
    return _line_record(number, value) if is_object(value) else BadRecord(number, "must be a JSON object")


def _line_record(number: int, value: dict[str, object]) -> Record | BadRecord:
    if "kind" not in value:
        return BadRecord(number, f"has no kind; it must be one of {', '.join(BY_KEY)}")
    kind = value.pop("kind")
    if not isinstance(kind, str):
        return BadRecord(number, f"kind must be a string, one of {', '.join(BY_KEY)}")
    return Record(kind, number, value)


def _explained(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


class _Document:
    """A JSON document, read record by record."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decode = getincrementaldecoder("utf-8-sig")("strict").decode
        self._text = ""
        self._at = 0
        self._is_at_end = False
        self._lines_before = 0

    def records(self) -> Iterator[Record | BadRecord]:
        self._expect("{", "a bundle is a JSON object with projects, entities and so on, or JSON Lines")
        seen = set[str]()
        more = not self._accept("}")
        while more:
            key = self._value("a key")
            if not isinstance(key, str):
                raise self._error("a key must be a string")
            if key in seen:
                raise self._error(f"{key} is there twice")
            seen.add(key)
            self._expect(":", f"a colon must follow {key}")
            if not self._accept("["):
                raise self._error(f"{key} must be an array")
            yield from self._array(key)
            more = self._accept(",")
            if not more:
                self._expect("}", "a comma or the end of the object must be here")
        if self._next() != "":
            raise self._error("there is more after the end of the object")

    def _array(self, key: str) -> Iterator[Record | BadRecord]:
        if self._accept("]"):
            return
        number = 0
        while True:
            yield Record(key, number, self._value(f"{key}[{number}]"))
            number += 1
            if self._accept("]"):
                return
            self._expect(",", f"a comma or the end of the array must follow {key}[{number - 1}]")

    def _value(self, place: str) -> Any:
        """Return the next JSON value, reading more of the file until it is complete."""
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated string") or error.pos + CUT_OFF_CHARACTERS > len(self._text)
                if is_cut and not self._is_at_end and len(self._text) - self._at <= MAX_RECORD_BYTES:
                    self._read(max(CHUNK_BYTES, len(self._text) - self._at))
                    continue
                if is_cut and not self._is_at_end:
                    raise self._error(f"{place} is longer than {MAX_RECORD_BYTES >> 20} MiB") from error
                self._at = error.pos
                raise self._error(f"{place} is not JSON: {error.msg}") from error
            except DuplicateField as error:
                raise self._error(f"{place}: {error}") from error
            except (ValueError, RecursionError) as error:
                raise self._error(f"{place} is not JSON: {_explained(error)}") from error
            try:
                check_json(self._text[self._at : end], _LIMITS)
            except LimitExceeded as error:
                raise self._error(f"{place} is {error}") from error
            self._at = end
            return value

    def _next(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if self._is_at_end:
                return ""
            self._read(CHUNK_BYTES)

    def _accept(self, character: str) -> bool:
        if self._next() != character:
            return False
        self._at += 1
        return True

    def _expect(self, character: str, problem: str) -> None:
        if not self._accept(character):
            raise self._error("the file ends too early" if self._next() == "" else problem)

    def _read(self, size: int) -> None:
        chunk = self._file.read(size)
        self._is_at_end = not chunk
        try:
            more = self._decode(chunk, final=self._is_at_end)
        except UnicodeDecodeError as error:
            raise self._error(f"is not UTF-8: there is a byte 0x{error.object[error.start]:02X}") from error
        self._lines_before += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + more
        self._at = 0

    def _error(self, problem: str) -> UnreadableBundle:
        line = self._lines_before + self._text.count("\n", 0, self._at) + 1
        return UnreadableBundle(f"{self._name}, line {line}", problem)
