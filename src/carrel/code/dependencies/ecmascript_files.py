"""Which file an import of TypeScript or JavaScript is."""

from collections.abc import Iterable, Iterator

from carrel.code.dependencies import jsonc, packages
from carrel.code.dependencies.files import Files, folder_of, joined
from carrel.code.dependencies.imports import Import
from carrel.code.dependencies.tsconfig import Compiler, compiler_of

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


def resolve(files: Files, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    resolver = _Resolver(files, path)
    for each in imports:
        if found := resolver.find(each.target, is_reference=each.kind == "include"):
            yield found, each


class _Resolver:
    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._folder = folder_of(path)
        self._path = path
        self._typed = path.endswith(_TYPED)
        self._compiler: Compiler | None = None
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

    def _settings(self) -> Compiler:
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
        package = packages.manifest(self._files, folder)
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
        folder = packages.package_of(self._files, self._path)
        if folder is None:
            return None
        table = jsonc.mapping(packages.manifest(self._files, folder).get("imports"))
        return self._first_target(folder, packages.mapped(table, name))

    def _package(self, name: str) -> str | None:
        """A package of the workspace, or the file's own by its name."""
        if self._members is None:
            self._members = packages.workspaces(self._files, self._path)
            own = packages.package_of(self._files, self._path)
            own_name = packages.manifest(self._files, own).get("name") if own is not None else None
            if isinstance(own_name, str) and own is not None and "exports" in packages.manifest(self._files, own):
                self._members.setdefault(own_name, own)
        package, inner = packages.split(name)
        folder = self._members.get(package)
        if folder is None:
            return None
        about = packages.manifest(self._files, folder)
        if found := self._first_target(folder, packages.exported(about, inner)):
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
