"""package.json: what a package exports, and which packages a workspace holds; and JSON with comments."""

import fnmatch
import re
from collections.abc import Iterator
from typing import Any, cast

from carrel.code.dependencies.root_files import RootFiles, folders_up, joined
from carrel.untrusted import Unreadable, load_json, load_yaml

_PART = re.compile(r'("(?:[^"\\\n]++|\\.)*+"?)|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|,(?=\s*+[}\]])')


def loads(text: str) -> dict[str, Any]:
    """An object; an empty one for what is none."""
    for _ in range(2):  # a comma may stand before a comment before the end
        text = _PART.sub(lambda found: found[1] or "", text)
    try:
        return mapping(load_json(text))
    except Unreadable:
        return {}


def mapping(value: Any) -> dict[str, Any]:
    """What should be an object, as one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def strings(value: Any) -> list[str]:
    """What should be a list of strings, or one string, as a list."""
    if isinstance(value, str):
        return [value]
    return [each for each in cast("list[Any]", value) if isinstance(each, str)] if isinstance(value, list) else []


_MAX_FOLDERS = 5000
_MAX_PATTERNS = 100


def manifest(files: RootFiles, folder: str) -> dict[str, Any]:
    return files.parsed(f"{folder}/package.json" if folder else "package.json", loads) or {}


def package_of(files: RootFiles, path: str) -> str | None:
    """The folder of the package that a file belongs to."""
    for folder in folders_up(path):
        if files.is_file(f"{folder}/package.json" if folder else "package.json"):
            return folder
    return None


def split(name: str) -> tuple[str, str]:
    """The package and the rest of a bare name: `@a/b/c/d` is `@a/b` and `c/d`."""
    parts = name.split("/")
    count = 2 if name.startswith("@") else 1
    return "/".join(parts[:count]), "/".join(parts[count:])


def exported(package: dict[str, Any], inner: str) -> Iterator[str]:
    """Where `exports` sends a path within the package ("" for itself), under every condition in turn."""
    exports = mapping(package.get("exports"))
    if any(key.startswith(".") for key in exports):
        yield from mapped(exports, f"./{inner}" if inner else ".")
    elif not inner:
        yield from _leaves(package.get("exports"))


def mapped(table: dict[str, Any], key: str) -> Iterator[str]:
    """The targets of a key in `exports` or `imports`: its own, or those of the pattern with the longest head."""
    if key in table and "*" not in key:
        yield from _leaves(table[key])
        return
    best: tuple[int, str] | None = None
    for pattern in table:
        head, star, tail = pattern.partition("*")
        if star and key.startswith(head) and key.endswith(tail) and len(key) >= len(head) + len(tail):
            best = max(best or (-1, ""), (len(head), pattern))
        elif not star and pattern.endswith("/") and key.startswith(pattern):
            best = max(best or (-1, ""), (len(pattern), pattern))
    if best is None:
        return
    head, star, tail = best[1].partition("*")
    middle = key[len(head) : len(key) - len(tail)]
    for target in _leaves(table[best[1]]):
        yield target.replace("*", middle) if star else target + middle


def _leaves(value: Any, depth: int = 8) -> Iterator[str]:
    """The strings of conditions within conditions, in order."""
    if isinstance(value, str):
        yield value
    elif depth:
        listed = cast("list[Any]", value) if isinstance(value, list) else []
        for each in [*listed, *mapping(value).values()]:
            yield from _leaves(each, depth - 1)


def workspaces(files: RootFiles, path: str) -> dict[str, str]:
    """The packages of the workspaces that a file is in: name to folder. The outermost loses."""
    found: dict[str, str] = {}
    for folder in folders_up(path):
        package = manifest(files, folder)
        listed = package.get("workspaces")
        patterns = strings(mapping(listed).get("packages") if isinstance(listed, dict) else listed)
        pnpm = files.parsed(f"{folder}/pnpm-workspace.yaml" if folder else "pnpm-workspace.yaml", _yaml)
        patterns += strings(mapping(pnpm).get("packages"))
        if not patterns:
            continue
        for member in [*members(files, folder, patterns), folder]:
            name = manifest(files, member).get("name")
            if isinstance(name, str):
                found.setdefault(name, member)
    return found


def _yaml(text: str) -> Any:
    try:
        return load_yaml(text)
    except Unreadable:
        return None


def members(files: RootFiles, start: str, patterns: list[str]) -> list[str]:
    """The folders that the patterns name; one with `!` takes away."""
    patterns = patterns[:_MAX_PATTERNS]
    kept: dict[str, None] = {}
    budget = [_MAX_FOLDERS]
    for pattern in patterns:
        if not pattern.startswith("!"):
            kept.update(dict.fromkeys(_expanded(files, start, [part for part in pattern.split("/") if part], budget)))
    gone = [joined(start, pattern[1:]) for pattern in patterns if pattern.startswith("!")]
    return [each for each in kept if not any(_fits(each, pattern) for pattern in gone if pattern is not None)]


def _fits(folder: str, pattern: str) -> bool:
    return any(
        fnmatch.fnmatchcase(folder, each)
        for each in (pattern, pattern.removesuffix("/**"), pattern.removeprefix("**/"))
    )


def _expanded(files: RootFiles, folder: str, parts: list[str], budget: list[int]) -> Iterator[str]:
    budget[0] -= 1
    if budget[0] < 0:
        return
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part in (".", ".."):
        inner = joined(folder, part)
        if inner is not None:
            yield from _expanded(files, inner, rest, budget)
        return
    if part == "**":
        yield from _expanded(files, folder, rest, budget)
    for name, is_folder in files.names(folder).items():
        if is_folder and name != "node_modules" and not name.startswith("."):
            inner = f"{folder}/{name}" if folder else name
            if part == "**":
                yield from _expanded(files, inner, parts, budget)
            elif fnmatch.fnmatchcase(name, part):
                yield from _expanded(files, inner, rest, budget)
