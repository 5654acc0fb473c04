"""Splitting code into passages that can each answer by themselves: functions, classes, and blocks of lines."""

import ast
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from carrel.code.knowledge.brace_scanner import scan
from carrel.code.knowledge.definition_patterns import BY_INDENT, DEEPEST, LONGEST, PATTERNS, Unit, head_of, qualified

LONGEST_PARSED = 40_000
"""Characters: parsing holds Python's lock, for 60 ms at the most, and a server may be answering meanwhile."""

_quiet = threading.Lock()


def python_units(text: str) -> list[Unit] | None:
    """None where it cannot be parsed."""
    if len(text) > LONGEST_PARSED:
        return None
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the file's own escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _in_body(tree.body, "", 0)


def _in_body(body: Sequence[ast.stmt], outer: str, level: int) -> list[Unit]:
    units: list[Unit] = []
    for each in body:
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
        kind = "class" if isinstance(each, ast.ClassDef) else "method" if outer else "function"
        unit = Unit(qualified(outer, each.name), kind, first, each.end_lineno or first)
        if isinstance(each, ast.ClassDef) and level < DEEPEST:
            unit.children = _in_body(each.body, unit.name, level + 1)
        units.append(unit)
    return units


def indented_units(lines: Sequence[str], language: str) -> list[Unit]:
    """By how far each line is indented, whatever it says."""
    look = head_of(language)
    found: list[Unit] = []
    open_: list[tuple[int, Unit]] = []
    last = 0
    for number, line in enumerate(lines, start=1):
        body = line[:LONGEST].lstrip()
        if not body or body.startswith(("#", ")", "]", "}")):
            continue
        indent = len(line) - len(line.lstrip())
        while open_ and indent <= open_[-1][0]:
            level, unit = open_.pop()
            unit.last = number if level == indent and body.split()[0] == "end" else last
        last = number
        if len(open_) >= DEEPEST or (open_ and open_[-1][1].kind == "function"):
            continue
        if (head := look(body, "")) is not None:
            unit = Unit(qualified(open_[-1][1].name if open_ else "", head.name), head.kind, number)
            (open_[-1][1].children if open_ else found).append(unit)
            open_.append((indent, unit))
    for _, unit in open_:
        unit.last = last
    return found


MOST_LINES = 60
"""Of a passage: what is longer is taken apart."""
BLOCK_LINES = 40
"""That lines between definitions are put together to."""
LONGEST_LINE = 400
"""Characters of a line that are kept: what is longer was written by a program."""

SMALL_GAP = 6
"""Lines between definitions that are no passage by themselves where they are comments: headings."""
MOST_UNITS = 2000
"""Definitions of a file that are told apart: with more it was written by a program, and is taken as lines."""

BLOCK = "block"
_LEADING = ("//", "/*", "*", "#", "@", "--", "template", "[[")
"""What a definition's own comments and annotations begin with."""


class CodePassage(NamedTuple):
    name: str
    """As `Class.method`; empty for lines between definitions."""
    kind: str
    """`function`, `method`, `class` ..., and `block` for other lines."""
    first: int
    last: int
    """Lines, from 1, both within."""
    text: str


def code_passages(path: str, text: str, language: str) -> list[CodePassage]:
    """In the order of their lines, no line in two of them. The time it takes grows with the text's length alone."""
    lines = text.replace("\r\n", "\n").replace("\r", " ").split("\n")  # a line ends with a line feed, as in read_file
    units = _units(lines, language)
    return list(_between(lines, units if _count(units) <= MOST_UNITS else [], 1, len(lines), "", BLOCK))


def _units(lines: Sequence[str], language: str) -> list[Unit]:
    if language not in PATTERNS:
        return []
    if language not in BY_INDENT:
        return scan("\n".join(lines), language)
    units = python_units("\n".join(lines)) if language == "python" else None
    return indented_units(lines, language) if units is None else units


def _count(units: Sequence[Unit]) -> int:
    return len(units) + sum(_count(unit.children) for unit in units)


def _between(
    lines: Sequence[str], units: Sequence[Unit], first: int, last: int, name: str, kind: str
) -> Iterator[CodePassage]:
    """The units and, between them, blocks of what they are in."""
    place = first
    for unit in units:
        if unit.first < place:  # begins on the line on which the one before ends
            continue
        start = _with_comments(lines, unit.first, place)
        yield from _blocks(lines, place, start - 1, name, kind)
        end = min(unit.last, last)
        if unit.children and end - start >= MOST_LINES:
            yield from _between(lines, unit.children, start, end, unit.name, unit.kind)
        else:
            yield from _pieces(lines, start, end, unit.name, unit.kind)
        place = end + 1
    yield from _blocks(lines, place, last, name, kind)


def _with_comments(lines: Sequence[str], first: int, least: int) -> int:
    """Where the comments begin that stand right above a definition, or are all that is between it and the last one."""
    if first - least <= SMALL_GAP and all(_leads(line) or not line.strip() for line in lines[least - 1 : first - 1]):
        return least
    while first > least and _leads(lines[first - 2]):
        first -= 1
    return first


def _leads(line: str) -> bool:
    return line.lstrip().startswith(_LEADING)


def _blocks(lines: Sequence[str], first: int, last: int, name: str, kind: str) -> Iterator[CodePassage]:
    """Lines between definitions, parted at blank lines once they are enough."""
    start = first
    for number in range(first, last + 1):
        if number - start >= BLOCK_LINES and not lines[number - 1].strip():
            yield from _pieces(lines, start, number - 1, name, kind)
            start = number + 1
    yield from _pieces(lines, start, last, name, kind)


def _pieces(lines: Sequence[str], first: int, last: int, name: str, kind: str) -> Iterator[CodePassage]:
    """The lines as one passage or, where they are many, as several."""
    while first <= last:
        end = last if last - first < MOST_LINES else _parting(lines, first, first + MOST_LINES - 1)
        piece = _passage(lines, first, end, name, kind)
        if piece is not None:
            yield piece
        first = end + 1


def _parting(lines: Sequence[str], first: int, latest: int) -> int:
    """The last blank line in the second half, where there is one."""
    half = (first + latest) // 2
    return next((number for number in range(latest, half, -1) if not lines[number - 1].strip()), latest)


def _passage(lines: Sequence[str], first: int, last: int, name: str, kind: str) -> CodePassage | None:
    """Without blank lines around it; nothing where there are only brackets."""
    while first <= last and not lines[first - 1].strip():
        first += 1
    while last >= first and not lines[last - 1].strip():
        last -= 1
    text = "\n".join(line[:LONGEST_LINE] for line in lines[first - 1 : last])
    if not any(character.isalnum() for character in text):
        return None
    return CodePassage(name, kind, first, last, text)
