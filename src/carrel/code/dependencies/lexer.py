"""A small lexer that several languages share, and the result of a scan."""

import re
from collections.abc import Iterator
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


class ScanWarning(NamedTuple):
    """Something broken that was read over."""

    line: int
    message: str


class ScanResult(NamedTuple):
    imports: tuple[Import, ...] = ()
    warnings: tuple[ScanWarning, ...] = ()
    error_line: int | None = None
    """Where a text does not parse, in a language in which that is an error."""


def line_at(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


LINE_COMMENT = r"(?P<line>//[^\n]*+)"
BLOCK_COMMENT = r"(?P<block>/\*(?:[^*]++|\*(?!/))*+\*/)|(?P<open_comment>/\*)"
DOUBLE = r'(?P<double>"(?:[^"\\\n]++|\\.)*+")|(?P<open_double>"(?:[^"\\\n]++|\\.)*+)'
SINGLE = r"(?P<single>'(?:[^'\\\n]++|\\.)*+')|(?P<open_single>'(?:[^'\\\n]++|\\.)*+)"
NAME = r"(?P<name>[^\W\d]\w*+)"
REST = r"(?P<number>\d[\w.]*+)|(?P<blank>\s++)|(?P<mark>.)"

_SKIPPED = frozenset(["line", "block", "blank"])
_UNTERMINATED = {
    "open_comment": "Unterminated comment",
    "open_double": "Unterminated string",
    "open_single": "Unterminated string",
    "open_raw": "Unterminated string",
    "open_text": "Unterminated string",
}
_UNTERMINATED_TO_END = frozenset(["open_comment", "open_raw", "open_text"])
_MAX_WARNINGS = 20
"""A text with more of them is not what it is taken for."""


class Token(NamedTuple):
    kind: str
    """name, number, mark (one character), or a kind of string."""
    text: str
    place: int

    @property
    def inner(self) -> str:
        """Of a string in quotes, what is between them."""
        return self.text[1:-1]


def lexer(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join([*parts, NAME, REST]), re.DOTALL)


def tokens(pattern: re.Pattern[str], text: str, warnings: list[ScanWarning]) -> Iterator[Token]:
    """Yield the tokens of a text, and add a warning for what is unterminated.

    An unterminated comment or raw string extends to the end of the text, a string to the end of its line.
    """
    place = 0
    while found := pattern.match(text, place):
        kind = found.lastgroup or ""
        if message := _UNTERMINATED.get(kind):
            if len(warnings) < _MAX_WARNINGS:
                warnings.append(ScanWarning(line_at(text, found.start()), message))
            if kind in _UNTERMINATED_TO_END:
                return
        elif kind not in _SKIPPED:
            yield Token(kind, found[0], found.start())
        place = found.end()


class Cursor:
    """Tokens with a look ahead."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self.warnings: list[ScanWarning] = []
        self._tokens = tokens(pattern, text, self.warnings)
        self._ahead: list[Token] = []

    def peek(self, distance: int = 0) -> Token:
        """The token at that distance; past the end an empty one."""
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._tokens, END))
        return self._ahead[distance]

    def take(self) -> Token:
        token = self.peek()
        del self._ahead[0]
        return token

    def skip(self, *texts: str) -> bool:
        """Past the next tokens if they are these."""
        if all(self.peek(number).text == text for number, text in enumerate(texts)):
            del self._ahead[: len(texts)]
            return True
        return False


END = Token("end", "", -1)
