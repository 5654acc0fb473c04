"""Definitions in languages with braces, found in one tolerant pass: strings and comments are skipped, nothing parsed.

What is not closed ends with the file; what cannot be made out belongs to no definition, and becomes a block of lines.
"""

import re
from dataclasses import dataclass

from carrel.code.knowledge.definition_patterns import (
    MAX_DEPTH,
    MAX_MATCHED_CHARACTERS,
    Definition,
    DefinitionHead,
    HeadMatcher,
    head_matcher,
    qualified,
)

_TOKEN = re.compile(r"\n|//|/\*|\"\"\"|[\"'`{}();#/]")
_REST = {
    '"': re.compile(r'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?', re.DOTALL),
    "'": re.compile(r"[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?", re.DOTALL),
    "`": re.compile(r"[^`\\]*+(?:\\.[^`\\]*+)*+`", re.DOTALL),
}
_CHARACTER = re.compile(r"(?:\\[^\n]{1,10}?|[^\\'\n])'")
_REGEX = re.compile(r"(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++/")
_BEFORE_REGEX = frozenset("(,=:[!&|?{};\n")
_SINGLE_QUOTED = frozenset({"javascript", "typescript", "php"})
_SCRIPTS = frozenset({"javascript", "typescript"})
_PREPROCESSED = frozenset({"c", "cpp", "csharp"})
_COMMENTS = ("//", "*", "/*", "#", "@")


@dataclass(slots=True)
class _OpenDefinition:
    definition: Definition
    head: DefinitionHead
    parens: int
    depth: int
    """Braces around it."""
    opened_at: int = 0
    """The line of its first brace; 0 as long as none has come."""


class _Scan:
    def __init__(self, text: str, language: str) -> None:
        self._text = text
        self._language = language
        self._match_head: HeadMatcher = head_matcher(language)
        self._depth = self._parens = 0
        self._line = 1
        self._open: list[_OpenDefinition] = []
        self.found: list[Definition] = []
        self._unclosed: set[str] = set()

    def run(self) -> list[Definition]:
        place = self._begin_line(0)
        while (token := _TOKEN.search(self._text, place)) is not None:
            place = self._consume(token[0], token.start(), token.end())
        while self._open:
            self._close(self._line)
        return self.found

    def _consume(self, token: str, start: int, end: int) -> int:
        """Where to go on."""
        match token:
            case "\n":
                self._line += 1
                return self._begin_line(end)
            case "{":
                self._brace()
            case "}":
                self._unbrace(end)
            case "(":
                self._parens += 1
            case ")":
                self._parens = max(0, self._parens - 1)
            case ";":
                self._semicolon()
            case _:
                return self._skip(token, start, end)
        return end

    # --- lines and definitions

    def _begin_line(self, start: int) -> int:
        """Look whether a definition begins with this line; where to go on in it."""
        end = self._text.find("\n", start, start + MAX_MATCHED_CHARACTERS)
        raw = self._text[start : start + MAX_MATCHED_CHARACTERS if end < 0 else end]
        line = raw.lstrip()
        top = self._open[-1] if self._open else None
        if not line:
            if top and not top.opened_at and self._parens <= top.parens:
                self._close(self._line - 1)  # something without braces and semicolons
            return start
        if self._language in _PREPROCESSED and line[0] == "#":
            return self._to_line_end(start, continued=True)
        if not line.startswith(_COMMENTS):
            self._match_definition(line, top)
        return start

    def _match_definition(self, line: str, top: _OpenDefinition | None) -> None:
        waiting = top is not None and not top.opened_at
        outer = self._open[-2] if waiting and len(self._open) > 1 else None if waiting else top
        if len(self._open) >= MAX_DEPTH or (outer and not outer.head.is_container):
            return
        if self._depth != (outer.depth + 1 if outer else 0) or self._parens > (outer.parens if outer else 0):
            return
        head = self._match_head(line, outer.head.kind if outer else "")
        if head is None:
            return
        if waiting:
            self._close(self._line - 1)
        name = qualified(outer.definition.name, head.name) if outer and outer.head.kind != "namespace" else head.name
        self._open.append(_OpenDefinition(Definition(name, head.kind, self._line), head, self._parens, self._depth))

    def _brace(self) -> None:
        top = self._open[-1] if self._open else None
        if top and not top.opened_at and self._parens <= top.parens:
            top.opened_at = self._line
            top.depth = self._depth
        self._depth += 1

    def _semicolon(self) -> None:
        top = self._open[-1] if self._open else None
        if top and not top.opened_at and self._parens <= top.parens:
            self._close(self._line)

    def _unbrace(self, end: int) -> None:
        self._depth = max(0, self._depth - 1)
        top = self._open[-1] if self._open else None
        if top is None or not top.opened_at or self._depth > top.depth:
            return
        self._parens = top.parens
        line_end = self._text.find("\n", end, end + MAX_MATCHED_CHARACTERS)
        rest = self._text[end : end + MAX_MATCHED_CHARACTERS if line_end < 0 else line_end]
        if top.opened_at == self._line and rest.rstrip().endswith("{") and not rest.lstrip().startswith(";"):
            top.opened_at = 0  # that was the type of what it returns; the body follows
        else:
            self._close(self._line)

    def _close(self, last: int) -> None:
        done = self._open.pop()
        if done.head.needs_body and not done.opened_at:
            return
        done.definition.last = max(last, done.definition.first)
        (self._open[-1].definition.children if self._open else self.found).append(done.definition)

    # --- what is skipped

    def _skip(self, token: str, start: int, end: int) -> int:
        match token:
            case "//":
                return self._to_line_end(end)
            case "/*":
                return self._skip_to("*/", end, or_end=True)
            case '"""':
                return self._skip_to(token, end, or_end=False)
            case "#":
                return self._skip_hash(start, end)
            case "/":
                found = (
                    _REGEX.match(self._text, end, end + MAX_MATCHED_CHARACTERS) if self._begins_regex(start) else None
                )
                return found.end() if found else end
            case _:
                return self._skip_string(token, end)

    def _skip_hash(self, start: int, end: int) -> int:
        following = self._text[end : end + 1]
        if self._language == "php" and following != "[":
            return self._to_line_end(end)
        if self._language == "rust" and self._text[start - 1 : start] == "r" and following == '"':
            return self._skip_to('"#', end + 1, or_end=False)
        return end

    def _to_line_end(self, start: int, *, continued: bool = False) -> int:
        end = self._text.find("\n", start)
        while continued and end > 0 and self._text[end - 1] == "\\":
            self._line += 1
            end = self._text.find("\n", end + 1)
        return len(self._text) if end < 0 else end

    def _skip_to(self, closing: str, start: int, *, or_end: bool) -> int:
        end = -1 if closing in self._unclosed else self._text.find(closing, start)
        if end < 0:
            self._unclosed.add(closing)  # looked for once and never again: the time stays linear
            return len(self._text) if or_end else start
        self._line += self._text.count("\n", start, end)
        return end + len(closing)

    def _skip_string(self, quote: str, start: int) -> int:
        if quote == "'" and self._language not in _SINGLE_QUOTED:
            found = _CHARACTER.match(self._text, start)  # else a lifetime, or a digit separator
        elif quote == "`" and (self._language not in (*_SCRIPTS, "go") or quote in self._unclosed):
            found = None
        else:
            found = _REST[quote].match(self._text, start)
            if found is None:
                self._unclosed.add(quote)
        if found is None:
            return start
        self._line += self._text.count("\n", start, found.end())
        return found.end()

    def _begins_regex(self, start: int) -> bool:
        if self._language not in _SCRIPTS:
            return False
        before = self._text[max(0, start - 20) : start].rstrip(" \t")
        return not before or before[-1] in _BEFORE_REGEX or before.endswith("return")


def scan(text: str, language: str) -> list[Definition]:
    """The definitions that stand in no other, each with those within it."""
    return _Scan(text, language).run()
