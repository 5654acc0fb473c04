r"""A glob over paths from the root.

`*` and `?` stay within a name, `**` as a whole name stands for any number of folders, `[a-z]` and `[!a-z]` for one
character, `{a,b}` for either, nested too; `\` takes a character as it is. A pattern without `/` is one for the file's
name, anywhere; one that ends in `/` is for all below that folder; one that begins with `!` selects what does not match.
Case counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from carrel.common import is_storable

MAX_PATTERN_CHARACTERS = 1_000
MAX_ALTERNATIVES = 256


class InvalidGlob(ValueError):
    """Its text says what is wrong with the pattern."""


class GlobToken(NamedTuple):
    """A part of a pattern that is not divided further."""

    expression: str
    literal: str = ""
    """The one character that it stands for, if it is one."""


Name = tuple[GlobToken, ...]
Alternative = tuple[Name, ...]
"""A pattern without braces, as the names between its slashes."""

STAR = GlobToken("[^/]*")
ANY_FOLDERS: Name = (STAR, STAR)
_SLASH = GlobToken("/")
_ANY = GlobToken("[^/]")


@dataclass(frozen=True, slots=True)
class Glob:
    alternatives: tuple[Alternative, ...]
    inverted: bool
    expression: re.Pattern[str]

    def matches(self, path: str) -> bool:
        return (self.expression.fullmatch(path) is None) is self.inverted


def parse_glob(pattern: str) -> Glob:
    """Raises `InvalidGlob`."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidGlob(f"must be {MAX_PATTERN_CHARACTERS} characters or less")
    if not is_storable(pattern):
        raise InvalidGlob("must be Unicode text without NUL")
    inverted = pattern.startswith("!")
    alternatives = tuple(dict.fromkeys(_names(each) for each in _alternatives(pattern[inverted:])))
    return Glob(alternatives, inverted, re.compile("|".join(map(_path_expression, alternatives)), re.DOTALL))


def _alternatives(pattern: str) -> list[tuple[GlobToken, ...]]:
    """The patterns without braces that one with braces stands for."""
    outer: list[tuple[list[tuple[GlobToken, ...]], list[tuple[GlobToken, ...]]]] = []
    found: list[tuple[GlobToken, ...]] = [()]
    run: list[GlobToken] = []
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "{" or (outer and sign in ",}"):
            found = [each + tuple(run) for each in found]
            run = []
            position += 1
            if sign == "{":
                outer.append((found, []))
                found = [()]
                continue
            outer[-1][1].extend(found)
            found = [()]
            if sign == "}":
                before, options = outer.pop()
                if len(before) * len(options) > MAX_ALTERNATIVES:
                    raise InvalidGlob(f"stands for more than {MAX_ALTERNATIVES} patterns")
                found = [each + option for each in before for option in options]
        else:
            token, position = _parse_token(pattern, position)
            run.append(token)
    if outer:
        raise InvalidGlob("has a { that is never closed")
    return [each + tuple(run) for each in found]


def _parse_token(pattern: str, position: int) -> tuple[GlobToken, int]:
    """The unit that begins here, and where it ends."""
    match pattern[position]:
        case "*":
            return STAR, position + 1
        case "?":
            return _ANY, position + 1
        case "/":
            return _SLASH, position + 1
        case "[":
            return _class(pattern, position + 1)
        case "\\":
            if position + 1 == len(pattern):
                raise InvalidGlob("ends in a lone backslash")
            return _literal(pattern[position + 1]), position + 2
        case sign:
            return _literal(sign), position + 1


def _literal(sign: str) -> GlobToken:
    return _SLASH if sign == "/" else GlobToken(re.escape(sign), sign)


def _class(pattern: str, position: int) -> tuple[GlobToken, int]:
    """`position` is that past the bracket."""
    inverted = pattern.startswith(("!", "^"), position)
    position += inverted
    signs: list[str] = []
    escaped: list[bool] = []
    while position < len(pattern) and (pattern[position] != "]" or not signs):
        escape = pattern[position] == "\\" and position + 1 < len(pattern)
        position += escape
        signs.append(pattern[position])
        escaped.append(escape)
        position += 1
    if position >= len(pattern):
        raise InvalidGlob("has a [ that is never closed")
    parts: list[str] = []
    at = 0
    while at < len(signs):
        if at + 2 < len(signs) and signs[at + 1] == "-" and not escaped[at + 1]:
            if signs[at] > signs[at + 2]:
                raise InvalidGlob(f"has the range {signs[at]}-{signs[at + 2]}, which is the wrong way round")
            parts.append(f"{re.escape(signs[at])}-{re.escape(signs[at + 2])}")
            at += 3
        else:
            parts.append(re.escape(signs[at]))
            at += 1
    return GlobToken(f"(?!/)[{'^' if inverted else ''}{''.join(parts)}]"), position + 1


def _names(tokens: tuple[GlobToken, ...]) -> Alternative:
    """What is between the slashes, in the form that the module's first lines describe."""
    names: list[Name] = [()]
    for token in tokens:
        if token is _SLASH:
            names.append(())
        else:
            names[-1] += (token,)
    anywhere = len(names) == 1
    below = names[-1] == ()
    kept = [ANY_FOLDERS] if anywhere else []
    for name in names:
        if name in ((), (_literal("."),)):
            continue
        if len(name) > 1 and all(token is STAR for token in name):
            name = ANY_FOLDERS
        if not (name == ANY_FOLDERS and kept[-1:] == [ANY_FOLDERS]):
            kept.append(name)
    if (below or not kept) and kept[-1:] != [ANY_FOLDERS]:
        kept.append(ANY_FOLDERS)
    return tuple(kept)


def _path_expression(names: Alternative) -> str:
    """Each run of names between two `**` is taken as early as it comes and for good: no pattern runs away."""
    runs: list[list[Name]] = [[]]
    for name in names:
        if name == ANY_FOLDERS:
            runs.append([])
        else:
            runs[-1].append(name)
    first, *others = runs
    parts = ["/".join(map(_name_expression, first))]
    for number, run_names in enumerate(others, 1):
        here = "/".join(map(_name_expression, run_names))
        if number < len(others):
            parts.append(f"(?>(?:[^/]+/)*?{here}/)")
        else:
            parts.append(f"(?:[^/]+/)*{here}" if run_names else ".+")
    begin = f"{parts[0]}/" if first and others else parts[0]
    return f"(?:{begin}{''.join(parts[1:])})"


def _name_expression(name: Name) -> str:
    pieces = list(_between_stars(name))
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _between_stars(name: Name) -> Iterator[str]:
    piece = ""
    for token in name:
        if token is STAR:
            yield piece
            piece = ""
        else:
            piece += token.expression
    yield piece


_MAX_TYPES = 50
_MAX_FOLDER_CHARACTERS = 60
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")


def ripgrep_filters(glob: Glob) -> list[str]:
    """What `rg` can be told of a glob, so that it leaves alone much of what does not match, and nothing that does.

    Its own `--glob` cannot be given the pattern: it would bring in what .gitignore leaves out. Types, and globs that
    only exclude, do not.
    """
    if glob.inverted:
        return []
    return [*_by_name(glob), *_by_folder(glob)]


def _by_name(glob: Glob) -> Iterator[str]:
    names = {_widened(alternative[-1]) for alternative in glob.alternatives}
    if "*" not in names and len(names) <= _MAX_TYPES:
        yield from (f"--type-add=carrel:{name}" for name in sorted(names))
        yield "--type=carrel"


def _widened(name: Name) -> str:
    """A glob for no less, of nothing but plain characters and stars."""
    signs = (token.literal if _PLAIN.fullmatch(token.literal) else "*" for token in name)
    return re.sub(r"\*+", "*", "".join(signs))


def _by_folder(glob: Glob) -> Iterator[str]:
    """Excludes all but the folders that every path begins with: another first letter, another second, and so on."""
    parent = ""
    for names in zip(*(_folders(alternative) for alternative in glob.alternatives), strict=False):
        if len(set(names)) > 1 or len(names[0]) > _MAX_FOLDER_CHARACTERS:
            return
        name = names[0]
        for at, letter in enumerate(name):
            yield f"--glob=!{parent}/{name[:at]}[!{letter}]*"
            if at:
                yield f"--glob=!{parent}/{name[:at]}"
        yield f"--glob=!{parent}/{name}?*"
        parent += f"/{name}"


def _folders(alternative: Alternative) -> Iterator[str]:
    """The folders at the beginning that are named without a wildcard."""
    for name in alternative[:-1]:
        literal = "".join(token.literal for token in name)
        if name == ANY_FOLDERS or len(literal) < len(name) or not all(map(_PLAIN.fullmatch, literal)):
            return
        yield literal
