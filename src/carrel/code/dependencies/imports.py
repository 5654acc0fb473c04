"""What a text imports, before anybody looks for files."""

from typing import Literal, NamedTuple

Kind = Literal["import", "require", "include", "dynamic"]
KINDS: tuple[Kind, ...] = ("import", "require", "include", "dynamic")
"""Where a file is imported in several ways, the first of these is told."""


class Import(NamedTuple):
    target: str
    """As the language writes it."""
    kind: Kind = "import"
    detail: str = ""
    """What else the language's resolver wants to know."""


class Flaw(NamedTuple):
    """Something broken that was read over."""

    line: int
    message: str


class Scan(NamedTuple):
    imports: tuple[Import, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    error_line: int | None = None
    """Where a text does not parse, in a language in which that is an error."""


def line_at(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
