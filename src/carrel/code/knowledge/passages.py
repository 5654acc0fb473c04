"""Splitting code into passages that can each answer by themselves: functions, classes, and blocks of lines."""

import ast
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from carrel.code.knowledge.brace_scanner import scan
from carrel.code.knowledge.definition_patterns import (
    BY_INDENT,
    MAX_DEPTH,
    MAX_MATCHED_CHARACTERS,
    PATTERNS,
    Definition,
    head_matcher,
    qualified,
)

MAX_PARSED_CHARACTERS = 40_000
"""Characters: parsing holds Python's lock, for 60 ms at the most, and a server may be answering meanwhile."""

_warnings_lock = threading.Lock()


def python_definitions(text: str) -> list[Definition] | None:
    """None where it cannot be parsed."""
    if len(text) > MAX_PARSED_CHARACTERS:
        return None
    try:
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the file's own escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _in_body(tree.body, "", 0)


def _in_body(body: Sequence[ast.stmt], outer: str, level: int) -> list[Definition]:
    definitions: list[Definition] = []
    for each in body:
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
        kind = "class" if isinstance(each, ast.ClassDef) else "method" if outer else "function"
        definition = Definition(qualified(outer, each.name), kind, first, each.end_lineno or first)
        if isinstance(each, ast.ClassDef) and level < MAX_DEPTH:
            definition.children = _in_body(each.body, definition.name, level + 1)
        definitions.append(definition)
    return definitions


def indented_definitions(lines: Sequence[str], language: str) -> list[Definition]:
    """By how far each line is indented, whatever it says."""
    match_head = head_matcher(language)
    found: list[Definition] = []
    open_: list[tuple[int, Definition]] = []
    last = 0
    for number, line in enumerate(lines, start=1):
        body = line[:MAX_MATCHED_CHARACTERS].lstrip()
        if not body or body.startswith(("#", ")", "]", "}")):
            continue
        indent = len(line) - len(line.lstrip())
        while open_ and indent <= open_[-1][0]:
            level, definition = open_.pop()
            definition.last = number if level == indent and body.split()[0] == "end" else last
        last = number
        if len(open_) >= MAX_DEPTH or (open_ and open_[-1][1].kind == "function"):
            continue
        if (head := match_head(body, "")) is not None:
            definition = Definition(qualified(open_[-1][1].name if open_ else "", head.name), head.kind, number)
            (open_[-1][1].children if open_ else found).append(definition)
            open_.append((indent, definition))
    for _, definition in open_:
        definition.last = last
    return found


MAX_PASSAGE_LINES = 60
"""Of a passage: what is longer is taken apart."""
BLOCK_LINES = 40
"""That lines between definitions are put together to."""
MAX_LINE_CHARACTERS = 400
"""Characters of a line that are kept: what is longer was written by a program."""

MAX_HEADING_LINES = 6
"""Lines between definitions that are no passage by themselves where they are comments: headings."""
MAX_DEFINITIONS = 2000
"""Definitions of a file that are told apart: with more it was written by a program, and is taken as lines."""

BLOCK = "block"
_LEADING_MARKS = ("//", "/*", "*", "#", "@", "--", "template", "[[")
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
    definitions = _definitions(lines, language)
    return list(
        _between(lines, definitions if _count(definitions) <= MAX_DEFINITIONS else [], 1, len(lines), "", BLOCK)
    )


def _definitions(lines: Sequence[str], language: str) -> list[Definition]:
    if language not in PATTERNS:
        return []
    if language not in BY_INDENT:
        return scan("\n".join(lines), language)
    definitions = python_definitions("\n".join(lines)) if language == "python" else None
    return indented_definitions(lines, language) if definitions is None else definitions


def _count(definitions: Sequence[Definition]) -> int:
    return len(definitions) + sum(_count(definition.children) for definition in definitions)


def _between(
    lines: Sequence[str], definitions: Sequence[Definition], first: int, last: int, name: str, kind: str
) -> Iterator[CodePassage]:
    """The units and, between them, blocks of what they are in."""
    place = first
    for definition in definitions:
        if definition.first < place:  # begins on the line on which the one before ends
            continue
        start = _with_comments(lines, definition.first, place)
        yield from _blocks(lines, place, start - 1, name, kind)
        end = min(definition.last, last)
        if definition.children and end - start >= MAX_PASSAGE_LINES:
            yield from _between(lines, definition.children, start, end, definition.name, definition.kind)
        else:
            yield from _pieces(lines, start, end, definition.name, definition.kind)
        place = end + 1
    yield from _blocks(lines, place, last, name, kind)


def _with_comments(lines: Sequence[str], first: int, least: int) -> int:
    """Where the comments begin that stand right above a definition, or are all that is between it and the last one."""
    if first - least <= MAX_HEADING_LINES and all(
        _leads(line) or not line.strip() for line in lines[least - 1 : first - 1]
    ):
        return least
    while first > least and _leads(lines[first - 2]):
        first -= 1
    return first


def _leads(line: str) -> bool:
    return line.lstrip().startswith(_LEADING_MARKS)


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
        end = last if last - first < MAX_PASSAGE_LINES else _split_line(lines, first, first + MAX_PASSAGE_LINES - 1)
        piece = _passage(lines, first, end, name, kind)
        if piece is not None:
            yield piece
        first = end + 1


def _split_line(lines: Sequence[str], first: int, latest: int) -> int:
    """The last blank line in the second half, where there is one."""
    half = (first + latest) // 2
    return next((number for number in range(latest, half, -1) if not lines[number - 1].strip()), latest)


def _passage(lines: Sequence[str], first: int, last: int, name: str, kind: str) -> CodePassage | None:
    """Without blank lines around it; nothing where there are only brackets."""
    while first <= last and not lines[first - 1].strip():
        first += 1
    while last >= first and not lines[last - 1].strip():
        last -= 1
    text = "\n".join(line[:MAX_LINE_CHARACTERS] for line in lines[first - 1 : last])
    if not any(character.isalnum() for character in text):
        return None
    return CodePassage(name, kind, first, last, text)
