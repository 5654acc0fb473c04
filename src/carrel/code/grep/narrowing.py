"""What `rg` can be told of a glob, so that it leaves alone much of what does not match, and nothing that does.

Its own `--glob` cannot be given the pattern: it would bring in what .gitignore leaves out. Types, and globs that only
exclude, do not.
"""

import re
from collections.abc import Iterator

from carrel.code.grep.globs import ANY_FOLDERS, Alternative, Glob, Name

_MOST_TYPES = 50
_LONGEST_FOLDER = 60
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")


def narrowing(glob: Glob) -> list[str]:
    """Options for `rg`."""
    if glob.inverted:
        return []
    return [*_by_name(glob), *_by_folder(glob)]


def _by_name(glob: Glob) -> Iterator[str]:
    names = {_loosened(alternative[-1]) for alternative in glob.alternatives}
    if "*" not in names and len(names) <= _MOST_TYPES:
        yield from (f"--type-add=carrel:{name}" for name in sorted(names))
        yield "--type=carrel"


def _loosened(name: Name) -> str:
    """A glob for no less, of nothing but plain characters and stars."""
    signs = (unit.literal if _PLAIN.fullmatch(unit.literal) else "*" for unit in name)
    return re.sub(r"\*+", "*", "".join(signs))


def _by_folder(glob: Glob) -> Iterator[str]:
    """Excludes all but the folders that every path begins with: another first letter, another second, and so on."""
    parent = ""
    for names in zip(*(_folders(alternative) for alternative in glob.alternatives), strict=False):
        if len(set(names)) > 1 or len(names[0]) > _LONGEST_FOLDER:
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
        literal = "".join(unit.literal for unit in name)
        if name == ANY_FOLDERS or len(literal) < len(name) or not all(map(_PLAIN.fullmatch, literal)):
            return
        yield literal
