"""Resolution of TypeScript and JavaScript imports: tsconfig.json and jsconfig.json, packages, and files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from carrel.code.dependencies import package_json
from carrel.code.dependencies.lexer import Import
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up, joined

_MAX_EXTENDS_DEPTH = 8
"""Settings that extend settings that extend settings."""


@dataclass(frozen=True, slots=True)
class CompilerOptions:
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


def compiler_of(files: RootFiles, path: str) -> CompilerOptions:
    """The settings that hold for a file: the nearest; where they only refer to others, the first that know of paths."""
    for folder in folders_up(path):
        configs = [f"{folder}/{name}" if folder else name for name in ("tsconfig.json", "jsconfig.json")]
        if there := [each for each in configs if files.is_file(each)]:
            nearest = _read(files, there[0], _MAX_EXTENDS_DEPTH)
            known = (
                _read(files, each, _MAX_EXTENDS_DEPTH)
                for config in there
                for each in (config, *_references(files, config))
            )
            return next((each for each in known if each.paths or each.base is not None), nearest)
    return CompilerOptions()


def _references(files: RootFiles, config: str) -> Iterator[str]:
    listed: Any = package_json.mapping(files.parsed(config, package_json.loads)).get("references")
    for each in cast("list[Any]", listed) if isinstance(listed, list) else []:
        target = joined(folder_of(config), str(package_json.mapping(each).get("path", "")))
        if target and files.is_folder(target):
            target = f"{target}/tsconfig.json"
        if target and files.is_file(target):
            yield target


def _read(files: RootFiles, config: str, depth: int) -> CompilerOptions:
    value = package_json.mapping(files.parsed(config, package_json.loads))
    compiler = CompilerOptions()
    if depth:
        for each in package_json.strings(value.get("extends")):
            if (base := _extended(files, config, each)) is not None:
                inherited = _read(files, base, depth - 1)
                compiler = CompilerOptions(
                    compiler.base if inherited.base is None else inherited.base,
                    inherited.paths or compiler.paths,
                    inherited.root_dirs or compiler.root_dirs,
                )
    options, folder = package_json.mapping(value.get("compilerOptions")), folder_of(config)
    if isinstance(base_url := options.get("baseUrl"), str):
        compiler = replace(compiler, base=joined(folder, _plain(base_url)))
    if isinstance(options.get("paths"), dict):
        start = folder if compiler.base is None else compiler.base
        compiler = replace(compiler, paths=_paths(package_json.mapping(options["paths"]), start))
    if roots := package_json.strings(options.get("rootDirs")):
        found = (joined(folder, _plain(each)) for each in roots)
        compiler = replace(compiler, root_dirs=tuple(each for each in found if each is not None))
    return compiler


def _paths(given: dict[str, object], start: str) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for pattern, targets in given.items():
        found = (joined(start, _plain(target)) for target in package_json.strings(targets))
        paths[pattern] = [each for each in found if each is not None]
    return paths


def _plain(path: str) -> str:
    return path.replace("${configDir}/", "./").replace("\\", "/")


def _extended(files: RootFiles, config: str, name: str) -> str | None:
    """The settings that are extended; a package of others is not in the root."""
    if not name.startswith((".", "/")):
        return None
    target = joined(folder_of(config), name)
    return files.first([target, f"{target}.json", f"{target}/tsconfig.json"]) if target is not None else None


_TYPED = (".ts", ".tsx", ".d.ts", ".mts", ".d.mts", ".cts", ".d.cts")
_PLAIN = (".js", ".jsx", ".mjs", ".cjs")
_OTHER = (".json", ".vue", ".svelte", ".astro")
_SUBSTITUTES = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx", ".d.ts"),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}
_BUILT = ("dist/esm", "dist/cjs", "dist/src", "dist/types", "dist", "build", "lib", "out", "esm", "cjs", "types")
"""Folders of what a compiler makes of `src`."""


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    resolver = _Resolver(files, path)
    for each in imports:
        if found := resolver.find(each.target, is_reference=each.kind == "include"):
            yield found, each


class _Resolver:
    def __init__(self, files: RootFiles, path: str) -> None:
        self._files = files
        self._folder = folder_of(path)
        self._path = path
        self._typed = path.endswith(_TYPED)
        self._compiler: CompilerOptions | None = None
        self._members: dict[str, str] | None = None

    def find(self, name: str, *, is_reference: bool = False) -> str | None:
        bare = name.partition("?")[0]  # a bundler's wishes
        if not bare.startswith("#"):
            bare = bare.partition("#")[0]
        if not bare or "\\" in bare or ":" in bare or bare.startswith("/"):
            return None
        if is_reference or bare in (".", "..") or bare.startswith(("./", "../")):
            return self._relative(bare)
        compiler = self._settings()
        for target in compiler.targets(bare):
            if found := self._at(target):
                return found
        if bare.startswith("#"):
            return self._own_import(bare)
        return self._package(bare)

    def _settings(self) -> CompilerOptions:
        if self._compiler is None:
            self._compiler = compiler_of(self._files, self._path)
        return self._compiler

    def _relative(self, name: str) -> str | None:
        target = joined(self._folder, name)
        if target is None:
            return None
        folders_only = name.endswith(("/", "/.", "/..")) or name in (".", "..")
        found = self._in_folder(target) if folders_only else self._at(target)
        return found or self._in_other_roots(target)

    def _in_other_roots(self, target: str) -> str | None:
        roots = self._settings().root_dirs
        for root in sorted(roots, key=len, reverse=True):
            if target.startswith(f"{root}/"):
                others = (f"{other}/{target[len(root) + 1 :]}" for other in roots if other != root)
                return next((found for other in others if (found := self._at(other))), None)
        return None

    def _at(self, target: str) -> str | None:
        """A file of this name, with an extension, or a folder's."""
        return self._files.first(self._names(target)) or self._in_folder(target)

    def _names(self, target: str) -> Iterator[str]:
        stem, dot, extension = target.rpartition(".")
        substitutes = [stem + each for each in _SUBSTITUTES.get(dot + extension, ())] if "/" not in extension else []
        yield from [*substitutes, target] if self._typed else [target, *substitutes]
        order = (*_TYPED, *_PLAIN, *_OTHER) if self._typed else (*_PLAIN, *_TYPED, *_OTHER)
        for each in order:
            yield target + each
        if dot and "/" not in extension:
            yield f"{stem}.d.{extension}.ts"

    def _in_folder(self, folder: str) -> str | None:
        if not self._files.is_folder(folder):
            return None
        package = package_json.manifest(self._files, folder)
        for key in ("types", "typings", "main", "module") if self._typed else ("main", "module", "types", "typings"):
            if isinstance(inner := package.get(key), str) and (target := joined(folder, inner)) is not None:
                if found := self._files.first(self._names(target)):
                    return found
                if target != folder and (found := self._index(target)):
                    return found
        return self._index(folder)

    def _index(self, folder: str) -> str | None:
        order = (*_TYPED, *_PLAIN, *_OTHER) if self._typed else (*_PLAIN, *_TYPED, *_OTHER)
        return self._files.first((f"{folder}/index{each}" if folder else f"index{each}") for each in order)

    def _own_import(self, name: str) -> str | None:
        """`#name`, by the `imports` of the package that the file is in."""
        folder = package_json.package_of(self._files, self._path)
        if folder is None:
            return None
        table = package_json.mapping(package_json.manifest(self._files, folder).get("imports"))
        return self._first_target(folder, package_json.mapped(table, name))

    def _package(self, name: str) -> str | None:
        """A package of the workspace, or the file's own by its name."""
        if self._members is None:
            self._members = package_json.workspaces(self._files, self._path)
            own = package_json.package_of(self._files, self._path)
            own_name = package_json.manifest(self._files, own).get("name") if own is not None else None
            if isinstance(own_name, str) and own is not None and "exports" in package_json.manifest(self._files, own):
                self._members.setdefault(own_name, own)
        package, inner = package_json.split(name)
        folder = self._members.get(package)
        if folder is None:
            return None
        about = package_json.manifest(self._files, folder)
        if found := self._first_target(folder, package_json.exported(about, inner)):
            return found
        if inner:
            target = joined(folder, inner)
            return self._at(target) if target is not None and "exports" not in about else None
        mains = (about.get(key) for key in ("source", "types", "typings", "module", "main"))
        if found := self._first_target(folder, [each for each in mains if isinstance(each, str)]):
            return found
        return self._in_folder(folder) or self._index(f"{folder}/src" if folder else "src")

    def _first_target(self, folder: str, targets: Iterable[str]) -> str | None:
        """The first target that is there; else what one of them would be made of."""
        known = [target for each in targets if (target := joined(folder, each)) is not None]
        for target in known:
            if found := self._files.first(self._names(target)):
                return found
        for target in known:
            inner = target[len(folder) + 1 if folder else 0 :]
            for built in _BUILT:
                if inner.startswith(f"{built}/"):
                    source = f"src/{inner[len(built) + 1 :]}"
                    if found := self._files.first(self._sources(f"{folder}/{source}" if folder else source)):
                        return found
        return None

    def _sources(self, target: str) -> Iterator[str]:
        for ending in (".d.ts", ".d.mts", ".d.cts"):
            if target.endswith(ending):
                stem = target.removesuffix(ending)
                yield from (stem + each for each in (*_TYPED, *_PLAIN))
        yield from self._names(target)
