"""Definitions in a file, and the patterns by which each language begins one."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_DEPTH = 32
"""Definitions within definitions that are told apart; what is deeper belongs to the one around it."""


class DefinitionHead(NamedTuple):
    """How a definition begins."""

    kind: str
    name: str
    needs_body: bool = False
    """Whether it is none where no body follows: a declaration, a call."""

    @property
    def is_container(self) -> bool:
        return self.kind not in ("function", "method", "type")


@dataclass(slots=True)
class Definition:
    """Lines count from 1, and the last is part of it."""

    name: str
    kind: str
    first: int
    last: int = 0
    children: "list[Definition]" = field(default_factory=list["Definition"])


def qualified(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


MAX_MATCHED_CHARACTERS = 200
"""Characters of a line that are looked at."""

_JS = r"(?:export\s+)?(?:default\s+)?(?:declare\s+)?"
_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|readonly|partial|open|data|inner|override"
    r"|virtual|async|extern|unsafe|fileprivate|mutating|suspend|inline|strictfp|indirect|non-sealed)\s+)*+"
)
_PUB = r"(?:pub(?:\([^)]*\))?\s+)?"
_FUNCTION, _TYPES = "function", "class|interface|enum|record|struct|trait|union|namespace|module|object|protocol"


def _patterns(*pairs: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern)) for kind, pattern in pairs)


_SCRIPT = _patterns(
    (_FUNCTION, rf"{_JS}(?:async\s+)?function\s*\*?\s*(?P<name>[\w$]+)"),
    ("", rf"{_JS}(?:abstract\s+)?(?:const\s+)?(?P<kind>class|interface|enum|namespace|module)\s+(?P<name>[\w$.]+)"),
    ("type", rf"{_JS}type\s+(?P<name>[\w$]+)\s*[=<]"),
    (
        _FUNCTION,
        rf"{_JS}(?:const|let|var)\s+(?P<name>[\w$]+)\s*(?::[^=]*+)?=\s*(?:async\b|function\b|\(|<|[\w$]+\s*=>)",
    ),
)
PATTERNS: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "go": _patterns(
        (_FUNCTION, r"func\s+(?:\([^)]*?(?P<outer>\w+)(?:\[[^\]]*\])?\)\s*)?(?P<name>\w+)"),
        ("type", r"type\s+(?P<name>\w+)"),
    ),
    "rust": _patterns(
        (_FUNCTION, rf'{_PUB}(?:(?:async|const|unsafe|default|extern(?:\s+"[^"]*")?)\s+)*fn\s+(?P<name>\w+)'),
        ("", rf"{_PUB}(?:unsafe\s+)?(?P<kind>struct|enum|trait|union)\s+(?P<name>\w+)"),
        ("module", rf"{_PUB}mod\s+(?P<name>\w+)\s*(?:\{{|$)"),
        ("impl", r"(?:unsafe\s+)?impl\b(?:<[^>]*>)?\s*(?P<name>[^{]*?)\s*(?:\{|\bwhere\b|$)"),
        ("macro", r"macro_rules!\s*(?P<name>\w+)"),
    ),
    "java": _patterns(("", rf"{_MODIFIERS}@?(?P<kind>class|interface|enum|record)\s+(?P<name>\w+)")),
    "csharp": _patterns(("", rf"{_MODIFIERS}(?P<kind>{_TYPES})\s+(?P<name>[\w.]+)")),
    "kotlin": _patterns(
        (_FUNCTION, rf"{_MODIFIERS}fun\s+(?:<[^>]*>\s*)?(?P<name>[\w.]+)"),
        ("", rf"{_MODIFIERS}(?:enum\s+)?(?P<kind>{_TYPES})\s+(?P<name>\w+)"),
    ),
    "swift": _patterns(
        (_FUNCTION, rf"{_MODIFIERS}(?:func\s+(?P<name>\w+))"),
        ("", rf"{_MODIFIERS}(?P<kind>{_TYPES}|extension|actor)\s+(?P<name>[\w.]+)"),
    ),
    "c": _patterns(("", r"(?:typedef\s+)?(?:static\s+)?(?P<kind>struct|enum|union)\s+(?P<name>\w+)\s*(?:\{|$)")),
    "cpp": _patterns(
        ("namespace", r"(?:inline\s+)?namespace\s+(?P<name>[\w:]+)\s*(?:\{|$)"),
        (
            "",
            r"(?:template\s*<[^;{]*>\s*)?(?:typedef\s+)?(?P<kind>class|struct|enum(?:\s+class)?|union)\s+"
            r"(?:\[\[[^\]]*\]\]\s*)?(?P<name>\w+)\s*(?:final\s*)?(?:[:{]|$)",
        ),
    ),
    "php": _patterns(
        (_FUNCTION, rf"{_MODIFIERS}function\s+&?(?P<name>\w+)"),
        ("", rf"{_MODIFIERS}(?P<kind>class|interface|trait|enum)\s+(?P<name>\w+)"),
    ),
    "python": _patterns((_FUNCTION, r"(?:async\s+)?def\s+(?P<name>\w+)"), ("class", r"class\s+(?P<name>\w+)")),
    "ruby": _patterns(
        (_FUNCTION, r"(?:private\s+)?def\s+(?P<name>(?:self\.)?[\w?!=]+)"),
        ("", r"(?P<kind>class|module)\s+(?P<name>[\w:]+)"),
    ),
}
BY_INDENT = frozenset({"python", "ruby"})

_NEVER_NAMES = frozenset(
    (
        *(
            "alignof",
            "assert",
            "await",
            "case",
            "catch",
            "decltype",
            "defined",
            "delete",
            "do",
            "else",
            "for",
            "foreach",
        ),
        *("function", "if", "lock", "new", "not", "return", "sizeof", "static_assert", "super", "switch"),
        *("synchronized", "this", "throw", "typeof", "using", "when", "while", "with", "yield"),
    )
)
_SCRIPT_WORDS = frozenset(
    ("static", "async", "get", "set", "public", "private", "protected", "readonly", "override", "abstract", "*")
)


class SignatureRule(NamedTuple):
    """Where a name and a parenthesis, with a body after them, are a definition."""

    at_top: bool
    in_classes: bool
    only_with: frozenset[str] = frozenset()
    """The words that may stand before the name; where there are none, any."""


_SIGNATURE_RULES: Mapping[str, SignatureRule] = {
    "javascript": SignatureRule(False, True, _SCRIPT_WORDS),
    "typescript": SignatureRule(False, True, _SCRIPT_WORDS),
    "java": SignatureRule(False, True),
    "csharp": SignatureRule(False, True),
    "c": SignatureRule(True, False),
    "cpp": SignatureRule(True, True),
}
HeadMatcher = Callable[[str, str], DefinitionHead | None]


def head_matcher(language: str) -> HeadMatcher:
    """What tells from a line, and the kind of what is around it, whether a definition begins there."""
    patterns, rule = PATTERNS[language], _SIGNATURE_RULES.get(language)

    def match_head(line: str, around: str) -> DefinitionHead | None:
        for kind, pattern in patterns:
            if (found := pattern.match(line)) is not None:
                named = found.groupdict()
                name = ".".join(part for part in (named.get("outer"), named["name"]) if part)
                if kind == _FUNCTION and pattern is _SCRIPT[3][1] and not _is_function(line):
                    return None
                return DefinitionHead(named.get("kind") or kind, name.strip() or "impl", needs_body=kind == "module")
        return _match_signature(line, around, rule) if rule else None

    return match_head


def _is_function(line: str) -> bool:
    """Whether what a variable is set to looks like one: it may also be a sum in parentheses."""
    return "=>" in line or "function" in line or line.rstrip().endswith("(")


def _match_signature(line: str, around: str, rule: SignatureRule) -> DefinitionHead | None:
    in_class = around in ("class", "interface", "enum", "enum class", "record", "struct", "union", "object")
    if not (rule.in_classes if in_class else rule.at_top):
        return None
    before, parenthesis, _ = line.partition("(")
    before = before.rstrip()
    start = len(before)
    while start and (before[start - 1].isalnum() or before[start - 1] in "_$~:#"):
        start -= 1
    name, rest = before[start:].lstrip(":"), before[:start].strip()
    if not parenthesis or not name or name[0].isdigit() or name in _NEVER_NAMES or not _may_precede(rest, rule):
        return None
    if not rest and not in_class and "::" not in name:
        return None
    return DefinitionHead("method" if in_class else "function", name.replace("::", "."), needs_body=True)


def _may_precede(rest: str, rule: SignatureRule) -> bool:
    words = rest.split()
    if rule.only_with:
        return all(word in rule.only_with for word in words)
    return not (words and words[0] in _NEVER_NAMES) and not set(rest) & set("=.;(){}\"'!?+/%|")
