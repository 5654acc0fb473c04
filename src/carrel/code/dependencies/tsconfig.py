"""Paths of tsconfig.json and jsconfig.json, with what they extend and refer to."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from carrel.code.dependencies import jsonc
from carrel.code.dependencies.files import Files, folder_of, folders_up, joined

_DEEPEST = 8
"""Settings that extend settings that extend settings."""


@dataclass(frozen=True, slots=True)
class Compiler:
    base: str | None = None
    """The folder that bare names are looked up in."""
    paths: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Patterns with at most one `*` to paths from the root."""
    root_dirs: tuple[str, ...] = ()

    def targets(self, name: str) -> Iterator[str]:
        """Where a bare name may lead: by the pattern that fits best, then below the base."""
        best: tuple[int, str] | None = None
        for pattern in self.paths:
            head, star, tail = pattern.partition("*")
            if not star:
                if pattern == name:
                    best = len(pattern) + 1, pattern
                    break
            elif name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail):
                best = max(best or (-1, ""), (len(head), pattern))
        if best:
            head, _, tail = best[1].partition("*")
            middle = name[len(head) : len(name) - len(tail)]
            yield from (target.replace("*", middle, 1) for target in self.paths[best[1]])
        if self.base is not None:
            yield f"{self.base}/{name}" if self.base else name


def compiler_of(files: Files, path: str) -> Compiler:
    """The settings that hold for a file: the nearest; where they only refer to others, the first that know of paths."""
    for folder in folders_up(path):
        configs = [f"{folder}/{name}" if folder else name for name in ("tsconfig.json", "jsconfig.json")]
        if there := [each for each in configs if files.is_file(each)]:
            nearest = _read(files, there[0], _DEEPEST)
            known = (_read(files, each, _DEEPEST) for config in there for each in (config, *_references(files, config)))
            return next((each for each in known if each.paths or each.base is not None), nearest)
    return Compiler()


def _references(files: Files, config: str) -> Iterator[str]:
    listed: Any = jsonc.mapping(files.parsed(config, jsonc.loads)).get("references")
    for each in cast("list[Any]", listed) if isinstance(listed, list) else []:
        target = joined(folder_of(config), str(jsonc.mapping(each).get("path", "")))
        if target and files.is_folder(target):
            target = f"{target}/tsconfig.json"
        if target and files.is_file(target):
            yield target


def _read(files: Files, config: str, depth: int) -> Compiler:
    value = jsonc.mapping(files.parsed(config, jsonc.loads))
    compiler = Compiler()
    if depth:
        for each in jsonc.strings(value.get("extends")):
            if (base := _extended(files, config, each)) is not None:
                inherited = _read(files, base, depth - 1)
                compiler = Compiler(
                    compiler.base if inherited.base is None else inherited.base,
                    inherited.paths or compiler.paths,
                    inherited.root_dirs or compiler.root_dirs,
                )
    options, folder = jsonc.mapping(value.get("compilerOptions")), folder_of(config)
    if isinstance(base_url := options.get("baseUrl"), str):
        compiler = replace(compiler, base=joined(folder, _plain(base_url)))
    if isinstance(options.get("paths"), dict):
        start = folder if compiler.base is None else compiler.base
        compiler = replace(compiler, paths=_paths(jsonc.mapping(options["paths"]), start))
    if roots := jsonc.strings(options.get("rootDirs")):
        found = (joined(folder, _plain(each)) for each in roots)
        compiler = replace(compiler, root_dirs=tuple(each for each in found if each is not None))
    return compiler


def _paths(given: dict[str, object], start: str) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for pattern, targets in given.items():
        found = (joined(start, _plain(target)) for target in jsonc.strings(targets))
        paths[pattern] = [each for each in found if each is not None]
    return paths


def _plain(path: str) -> str:
    return path.replace("${configDir}/", "./").replace("\\", "/")


def _extended(files: Files, config: str, name: str) -> str | None:
    """The settings that are extended; a package of others is not in the root."""
    if not name.startswith((".", "/")):
        return None
    target = joined(folder_of(config), name)
    return files.first([target, f"{target}.json", f"{target}/tsconfig.json"]) if target is not None else None
