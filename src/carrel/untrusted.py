"""JSON, TOML and YAML from files that anybody may have written, read within limits.

The limits are checked before parsing, because parsing is what hostile text attacks: libyaml and `tomllib` recurse,
`tomllib` takes a time for a dotted key that is quadratic in its parts, and merge keys of aliases multiply. Whatever is
wrong with a text, within the limits or beyond them, raises `Unreadable`.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast


class Unreadable(ValueError):
    """The text is malformed, or exceeds a limit; the message says which, and where."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that a text must stay within to be parsed."""

    characters: int = 4 * 1024 * 1024
    depth: int = 64
    """Arrays, mappings and tables within each other."""
    aliases: int = 256
    """YAML nodes that stand for an earlier one. They are never expanded, see `load_yaml`."""
    brackets: int = 4096
    """In YAML, where libyaml takes a time for each that grows with those that are open."""


JSON = Limits()
TOML = Limits(characters=256 * 1024)
YAML = Limits(characters=256 * 1024)

MAX_KEY_PARTS = 64
"""Of a dotted key in TOML."""
MAX_DIRECTIVES = 16
"""Of a YAML document; libyaml compares each with all before it."""
MAX_NUMBER_LENGTH = 64
"""Characters of a YAML scalar that is read as a number: of base 60, they take quadratic time."""

_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
# Strings, also without their end, and comments; then what counts.
_TOML_TOKEN = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5}|\Z)|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5}|\Z)|'[^'\n]*+'?|#[^\n]*+|[\[{]|[\]}]|[=,\n]|\.",
    re.DOTALL,
)


def load_json(text: str | bytes, limits: Limits = JSON, *, load: Callable[[str], Any] = json.loads) -> Any:
    """Parse JSON within limits. `load` is the parser; it may raise `ValueError` and `RecursionError`."""
    decoded = _decoded(text, limits, "JSON")
    check_json(decoded, limits)
    try:
        return load(decoded)
    except json.JSONDecodeError as error:
        raise Unreadable(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(_one_line(error)) from error


def check_json(text: str, limits: Limits = JSON) -> None:
    """Raise `Unreadable` for a text that `load_json` would not even parse."""
    _check_length(text, limits, "JSON")
    if text.count("[") + text.count("{") > limits.depth:
        _check_depth(_JSON_TOKEN.finditer(text), limits.depth)


def load_toml(text: str | bytes, limits: Limits = TOML) -> dict[str, Any]:
    """Parse TOML within limits."""
    import tomllib  # late: most starts read none

    decoded = _decoded(text, limits, "TOML")
    _check_depth(_TOML_TOKEN.finditer(decoded), limits.depth, key_parts=MAX_KEY_PARTS)
    try:
        return tomllib.loads(decoded)
    except (ValueError, RecursionError) as error:
        raise Unreadable(_one_line(error)) from error


def load_yaml(text: str | bytes, limits: Limits = YAML) -> Any:
    """Parse YAML into plain values: mappings with string keys, lists, text, numbers, booleans and None.

    A merge key is a key like any other, and what is neither text, number nor boolean (a date, say) is its text. A value
    that contains itself, or has over 100,000 values once aliases are followed, is `Unreadable`.
    """
    root = compose_yaml(_decoded(text, limits, "YAML"), limits)
    try:
        return None if root is None else _Plain().value(root)
    except RecursionError as error:  # aliases of what is nested, nested
        raise Unreadable(_one_line(error)) from error


def compose_yaml(text: str, limits: Limits = YAML) -> Any:
    """Return the root node as PyYAML composes it; None for an empty document. Aliases are the nodes that they stand
    for."""
    module = yaml_module()
    # libyaml takes a tenth of the time; without it the same is done in Python.
    loader = getattr(module, "CSafeLoader", module.SafeLoader)
    _check_length(text, limits, "YAML")
    try:
        _check_yaml(text, limits, module, loader)
        return module.compose(text, Loader=loader)
    except Unreadable:
        raise
    except (module.YAMLError, ValueError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        if mark and problem:
            raise UnreadableLine(mark.line + 1, problem) from error
        raise Unreadable(_one_line(error)) from error


class UnreadableLine(Unreadable):
    """A fault whose line is known."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


@cache
def yaml_module() -> Any:
    """Import PyYAML late; its types are of little use."""
    return import_module("yaml")  # late, and its types are of little use


def _decoded(text: str | bytes, limits: Limits, kind: str) -> str:
    if isinstance(text, bytes):
        if len(text) > 4 * limits.characters:
            raise _length_error(limits, kind)
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Unreadable(f"byte {error.start + 1} is not UTF-8") from error
    _check_length(text, limits, kind)
    return text


def _check_length(text: str, limits: Limits, kind: str) -> None:
    if len(text) > limits.characters:
        raise _length_error(limits, kind)


def _length_error(limits: Limits, kind: str) -> Unreadable:
    return Unreadable(f"{kind} of over {limits.characters:,} characters is not read")


def _check_depth(tokens: "Iterator[re.Match[str]]", most: int, *, key_parts: int = 0) -> None:
    """Refuse deep nesting and, with `key_parts`, long dotted keys."""
    depth = dots = 0
    for token in tokens:
        kind = token[0]
        if kind in ("[", "{"):
            depth += 1
            dots = 0
            if depth > most:
                raise Unreadable(f"nested deeper than {most} levels")
        elif kind in ("]", "}"):
            depth -= 1
            dots = 0
        elif kind == ".":
            dots += 1
            if key_parts and dots > key_parts:
                raise Unreadable(f"a key has more than {key_parts} parts")
        elif kind in ("=", ",", "\n"):
            dots = 0


def _check_yaml(text: str, limits: Limits, module: Any, loader: Any) -> None:
    """Events come without recursion, nodes do not: libyaml overflows the stack at some 20,000 levels."""
    if text.count("[") + text.count("{") > limits.brackets:
        raise Unreadable(f"YAML with over {limits.brackets:,} brackets is not read")
    if text.startswith("%") + text.count("\n%") > MAX_DIRECTIVES:
        raise Unreadable(f"YAML with over {MAX_DIRECTIVES} directives is not read")
    depth = aliases = 0
    for event in module.parse(text, Loader=loader):
        if isinstance(event, module.CollectionStartEvent):
            depth += 1
            if depth > limits.depth:
                raise UnreadableLine(event.start_mark.line + 1, f"nested deeper than {limits.depth} levels")
        elif isinstance(event, module.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, module.AliasEvent):
            aliases += 1
            if aliases > limits.aliases:
                raise UnreadableLine(event.start_mark.line + 1, f"has over {limits.aliases} aliases")


class _Plain:
    """Nodes as plain values. Each is made anew, so that none is shared; hence the budget."""

    def __init__(self) -> None:
        self._budget = 100_000
        self._open: set[int] = set()

    def value(self, node: Any) -> Any:
        self._budget -= 1
        if self._budget < 0:
            raise Unreadable("aliases stand for too much")
        if node.id == "scalar":
            return _scalar(node)
        if id(node) in self._open:
            raise UnreadableLine(node.start_mark.line + 1, "a value holds itself")
        self._open.add(id(node))
        try:
            if node.id == "sequence":
                return [self.value(each) for each in node.value]
            pairs = cast("list[tuple[Any, Any]]", node.value)
            return {key.value: self.value(value) for key, value in pairs if key.id == "scalar"}
        finally:
            self._open.discard(id(node))


def _scalar(node: Any) -> Any:
    kind, text = node.tag.removeprefix("tag:yaml.org,2002:"), node.value
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    if kind in ("int", "float"):
        if len(text) > MAX_NUMBER_LENGTH:
            raise UnreadableLine(node.start_mark.line + 1, f"a number has over {MAX_NUMBER_LENGTH} characters")
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:  # YAML writes some in ways of its own, such as 0o7 and .inf
            return text
    return text


def _one_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return " ".join(str(error).split())
