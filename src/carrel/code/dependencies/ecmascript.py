"""Imports of TypeScript and JavaScript, and of the scripts in Vue, Svelte and Astro files."""

import re
from collections.abc import Iterator

from carrel.code.dependencies.lexer import (
    BLOCK_COMMENT,
    DOUBLE,
    LINE_COMMENT,
    SINGLE,
    Import,
    ScanResult,
    ScanWarning,
    Token,
    line_at,
)

_TOKEN = re.compile(
    "|".join(
        [
            r"(?P<blank>\s++)",
            r"(?P<name>[^\W\d][\w$]*+|\$[\w$]*+)",
            LINE_COMMENT,
            BLOCK_COMMENT,
            DOUBLE,
            SINGLE,
            r"(?P<template>`)",
            r"(?P<number>\d[\w.]*+)",
            r"(?P<mark>.)",
        ]
    ),
    re.DOTALL,
)
_CHUNK = re.compile(r"(?:[^`\\$]++|\\.|\$(?!\{))*+(`|\$\{)?", re.DOTALL)
_REGEX = re.compile(r"/(?:[^/\\\[\n]++|\\[^\n]|\[(?:[^\]\\\n]++|\\[^\n])*+\])++/\w*+")
_REFERENCE = re.compile(r"///\s*<reference\s+path\s*=\s*[\"']([^\"']+)[\"']")
_SCRIPT = re.compile(r"<script\b[^>]{0,2000}+>", re.IGNORECASE)
_SCRIPT_END = re.compile(r"</script\b", re.IGNORECASE)
_FENCE = re.compile(r"\s*---[ \t]*\n")
_FENCE_END = re.compile(r"^---", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\n)|(.))", re.DOTALL)
_MARKUP = re.compile(r"</|/>")
_BEFORE_REGEX = frozenset(
    [
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "else",
        "do",
        "yield",
        "await",
        "instanceof",
    ]
)
_VALUE = "(value)"
"""Instead of a token: a division can follow."""
_STATEMENT = "(statement)"
"""Instead of a token: one has ended, and a regular expression can follow."""
_BEFORE_BLOCK = frozenset(["", ";", "{", "}", ">", _VALUE, _STATEMENT, "else", "do"])
_WITH_HEAD = frozenset(["if", "while", "for", "with"])
_UNTERMINATED = {
    "open_comment": "Unterminated comment",
    "open_double": "Unterminated string",
    "open_single": "Unterminated string",
}
_STRINGS = frozenset(["double", "single", "template"])
_IN_CLAUSE = frozenset("{},*\\")


def scan(text: str, language: str = "typescript") -> ScanResult:
    if language in ("vue", "svelte", "astro"):
        text = _scripts_only(text, language)
    reader = _Reader(text)
    tokens = list(reader.read())
    imports = dict.fromkeys(_imports(tokens))
    references = (Import(found, "include") for found in reader.references)
    # In the text between tags a quote is just a quote.
    warnings = (
        reader.warnings if not _MARKUP.search(text) else [each for each in reader.warnings if "comment" in each.message]
    )
    return ScanResult((*imports, *references), tuple(warnings))


def _scripts_only(text: str, language: str) -> str:
    """The scripts of a component; all else blank, so that lines stay."""
    begin, end = (_FENCE, _FENCE_END) if language == "astro" else (_SCRIPT, _SCRIPT_END)
    pieces: list[str] = []
    place = 0
    found = begin.match(text) if language == "astro" else begin.search(text)
    while found:
        until = end.search(text, found.end())
        stop = until.start() if until else len(text)
        pieces += ["\n" * text.count("\n", place, found.end()), text[found.end() : stop], "\n;"]
        place = stop
        found = begin.search(text, stop) if language != "astro" else None
    return "".join(pieces)


class _Reader:
    """Tokens that matter: names, strings, marks. Knows a regular expression from a division by what stands before."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.warnings: list[ScanWarning] = []
        self.references: list[str] = []
        self._before = ""
        """The last token, or what it amounts to."""
        self._stack: list[str] = []
        self._with_templates = True

    def read(self) -> Iterator[Token]:
        place = 0
        while found := _TOKEN.match(self.text, place):
            kind, start, place = found.lastgroup or "", place, found.end()
            if kind == "blank" or kind == "block":
                continue
            if kind == "line":
                self._comment(found[0])
            elif kind == "template":
                whole, place = self._template(place)
                if whole is not None:
                    yield Token("template", f"`{whole}`", start)
            elif kind == "mark":
                place = self._mark(found[0], start, place)
                yield Token("mark", found[0], start)
            elif kind in _UNTERMINATED:
                self._warn(start, _UNTERMINATED[kind])
                self._before = _VALUE
                if kind == "open_comment":
                    return
            else:
                self._before = found[0] if kind == "name" else _VALUE
                yield Token(kind, found[0], start)

    def _comment(self, line: str) -> None:
        if line.startswith("///") and (found := _REFERENCE.match(line)):
            self.references.append(found[1])

    def _warn(self, place: int, message: str) -> None:
        if len(self.warnings) < 20:
            self.warnings.append(ScanWarning(line_at(self.text, place), message))

    def _template(self, place: int) -> tuple[str | None, int]:
        """Past a part of a template: its text if that is all of it, and where to go on."""
        if not self._with_templates:
            return None, place
        found = _CHUNK.match(self.text, place)
        if found is None or found[1] is None:
            self._warn(place - 1, "Unterminated template")
            self._with_templates = False
            return None, place
        if found[1] == "`":
            self._before = _VALUE
            return self.text[place : found.end() - 1], found.end()
        self._stack.append("${")
        self._before = "("
        return None, found.end()

    def _mark(self, mark: str, start: int, place: int) -> int:
        """Where to go on after a mark, past a regular expression, or the template that goes on after it."""
        if mark == "/":
            if self._may_begin_regex() and (found := _REGEX.match(self.text, start)):
                self._before = _VALUE
                return found.end()
        elif mark in "({[":
            self._stack.append(self._opened(mark))
        elif mark in ")}]":
            opened = self._stack.pop() if self._stack else ""
            if opened == "${":
                return self._template(place)[1]
            self._before = _STATEMENT if opened in ("head", "block") else _VALUE
            return place
        self._before = mark if mark not in "'\"" else _VALUE
        return place

    def _opened(self, mark: str) -> str:
        if mark == "(" and self._before in _WITH_HEAD:
            return "head"
        if mark == "{" and (self._before in _BEFORE_BLOCK or (self._is_name() and self._before not in _BEFORE_REGEX)):
            return "block"
        return mark

    def _is_name(self) -> bool:
        return self._before[:1].isidentifier() or self._before[:1] == "$"

    def _may_begin_regex(self) -> bool:
        if self._before in (_VALUE, "<"):  # the latter is the end of a tag
            return False
        return self._before in _BEFORE_REGEX or not self._is_name()


def _imports(tokens: list[Token]) -> Iterator[Import]:
    number = -1
    while (number := number + 1) < len(tokens):
        token = tokens[number]
        if token.kind != "name" or token.text not in ("import", "export", "require"):
            continue
        before = tokens[number - 1].text if number else ""
        if before == "." and tokens[max(number - 2, 0)].text not in (".", "module"):
            continue
        target: str | None
        if (target := _argument(tokens, number + 1)) is not None:
            if token.text != "export" and before != "function":
                yield Import(target, "require" if token.text == "require" else "dynamic")
        elif token.text != "require":
            target, number = _source(tokens, number + 1, is_export=token.text == "export")
            if target is not None:
                yield Import(target)


def _argument(tokens: list[Token], number: int) -> str | None:
    """The only or first argument of a call, if it is a string: `("x")`, `("x", ...)`."""
    if number + 2 >= len(tokens) or tokens[number].text != "(" or tokens[number + 1].kind not in _STRINGS:
        return None
    return _unescaped(tokens[number + 1].inner) if tokens[number + 2].text in (")", ",") else None


def _source(tokens: list[Token], number: int, *, is_export: bool) -> tuple[str | None, int]:
    """The string after `from`, past a clause of names and braces, or after `import`; and the last token read."""
    if number >= len(tokens) or (is_export and tokens[number].text not in ("{", "*", "type")):
        return None, number - 1
    for place in range(number, len(tokens)):
        token, before = tokens[place], tokens[place - 1].text
        if token.kind in ("double", "single"):
            if before == "from" or (before == "import" and place == number):
                return _unescaped(token.inner), place
        elif (token.kind != "name" and token.text not in _IN_CLAUSE) or (
            token.text in ("import", "export") and before not in (",", "{", "as")
        ):
            return None, place - 1
    return None, len(tokens)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    if code := found[1] or found[2] or found[3]:
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else ""
    return "" if found[4] else found[5]
