"""Definitions in languages where indentation shows what belongs together: Python by its own parser, and by eye."""

import ast
import threading
import warnings
from collections.abc import Sequence

from carrel.code.knowledge.heads import LONGEST, head_of
from carrel.code.knowledge.units import DEEPEST, Unit, qualified

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
