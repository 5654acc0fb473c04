"""What a Rust file declares (`mod`), uses and includes."""

import re
from collections.abc import Iterator

from carrel.code.dependencies.imports import Flaw, Import, Scan, line_at
from carrel.code.dependencies.lexing import DOUBLE, LINE_COMMENT, Cursor, lexer

_RAW = r'(?P<raw>b?r(?P<fence>\#{0,16})"(?:[^"]++|"(?!(?P=fence)))*+"(?P=fence))|(?P<open_raw>b?r\#{0,16}")'
_QUOTE = r"(?P<single>b?'(?:[^'\\\n]|\\(?:u\{[^}\n]{0,8}\}|x[0-9a-fA-F]{2}|.))')|(?P<lifetime>')"
_RAW_NAME = r"(?P<raw_name>r\#(?=[^\W\d]))"
_LEXER = lexer(LINE_COMMENT, _RAW, _RAW_NAME, DOUBLE, _QUOTE)
_OUTSIDE = re.compile(r"/\*|//[^\n]*+|\br(\#{0,16})\"|\"(?:[^\"\\]++|\\.)*+\"?|'(?:[^'\\\n]|\\.)'", re.DOTALL)
_INSIDE = re.compile(r"/\*|\*/")
_DEEPEST = 50
"""Braces within braces of one `use`."""
_INCLUDES = frozenset(["include", "include_str", "include_bytes"])


def scan(text: str) -> Scan:
    """`use` gives `a::b::c`, a `mod` its name after `mod `, an `include!` the path after `file `.

    `detail` is the modules of this file that it stands in, with `::`; of a `mod` with a path of its own, `=` and that.
    """
    code, flaw = _without_blocks(text)
    cursor = Cursor(_LEXER, code)
    scanner = _Scanner(cursor)
    imports = dict.fromkeys(scanner.read())
    return Scan(tuple(imports), (*flaw, *cursor.flaws))


class _Scanner:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._modules: list[tuple[str, int]] = []
        """The inline modules that are open, each with the depth of braces that it stands at."""
        self._depth = 0
        self._path = ""
        """Of a `#[path = "..."]` whose `mod` is still to come."""

    def read(self) -> Iterator[Import]:
        cursor = self._cursor
        while (token := cursor.take()).text:
            if token.text in ("{", "}", ";"):
                self._brace(token.text)
            elif token.text == "#":
                self._attribute()
            elif token.kind != "name":
                continue
            elif token.text == "mod" and cursor.peek().kind in ("name", "raw_name"):
                yield from self._module()
            elif token.text == "use":
                yield from (Import(each, "import", self._place()) for each in self._tree())
            elif token.text == "extern" and cursor.skip("crate"):
                yield Import(cursor.take().text, "import", self._place())
            elif token.text in _INCLUDES and cursor.skip("!") and cursor.peek(1).kind == "double":
                yield Import(f"file {cursor.peek(1).inner}", "include", self._place())

    def _place(self) -> str:
        return "::".join(name for name, _ in self._modules)

    def _brace(self, text: str) -> None:
        if text == "{":
            self._depth += 1
        elif text == "}":
            self._depth -= 1
            if self._modules and self._depth <= self._modules[-1][1]:
                self._modules.pop()
        self._path = ""

    def _attribute(self) -> None:
        if self._cursor.skip("[", "path", "=") and self._cursor.peek().kind == "double":
            self._path = self._cursor.take().inner

    def _module(self) -> Iterator[Import]:
        cursor = self._cursor
        cursor.skip("r#")
        name = cursor.take().text
        if cursor.skip("{"):
            self._modules.append((self._path or name, self._depth))
            self._depth += 1
        elif cursor.peek().text == ";":
            yield Import(f"mod {name}", "import", self._place() + (f"={self._path}" if self._path else ""))
        self._path = ""

    def _tree(self) -> Iterator[str]:
        """`a::{b, c::{self, d as e}, f::*}`, each path of it."""
        cursor = self._cursor
        heads: list[str] = []
        head = current = ""
        in_alias = False
        while (token := cursor.take()).text not in (";", ""):
            if token.text == "{":
                if len(heads) >= _DEEPEST:
                    return
                heads.append(head)
                head, current = head + current, ""
            elif token.text in (",", "}"):
                if current:
                    yield head + current
                current, in_alias = "", False
                if token.text == "}":
                    head = heads.pop() if heads else ""
            elif token.text == "as":
                in_alias = True
            elif not in_alias and (token.kind == "name" or token.text in (":", "*")):
                current += token.text
        if current:
            yield head + current


def _without_blocks(text: str) -> tuple[str, list[Flaw]]:
    """The text with its block comments, which nest, made blank."""
    if "/*" not in text:
        return text, []
    pieces: list[str] = []
    place = kept = depth = begun = 0
    while found := (_INSIDE if depth else _OUTSIDE).search(text, place):
        place = found.end()
        if found[0] == "/*":
            if not depth:
                pieces.append(text[kept : found.start()])
                begun = found.start()
            depth += 1
        elif found[0] == "*/":
            depth -= 1
            if not depth:
                kept = place
                pieces.append(" " + "\n" * text.count("\n", begun, place))
        elif found.lastindex:
            end = text.find(f'"{found[1]}', place)
            place = len(text) if end < 0 else end + 1
    if depth:
        return "".join(pieces), [Flaw(line_at(text, begun), "Unterminated comment")]
    return "".join([*pieces, text[kept:]]), []
