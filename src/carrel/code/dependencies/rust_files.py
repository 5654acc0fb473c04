"""Which files the modules of Rust are."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from carrel.code.dependencies.files import Files, folder_of, folders_up, joined
from carrel.code.dependencies.imports import Import
from carrel.code.dependencies.jsonc import mapping, strings
from carrel.code.dependencies.packages import members
from carrel.untrusted import Unreadable, load_toml

_ROOT_NAMES = frozenset(["lib.rs", "main.rs", "mod.rs", "build.rs"])
_TARGETS = re.compile(r"(?:tests|examples|benches|src/bin)/(?:[^/]+\.rs|[^/]+/main\.rs)")
"""From the folder of a package: the files that crates start with, without being named in its Cargo.toml."""
_TARGET_TABLES = ("bin", "test", "bench", "example")
_CRATE_KEYWORDS = frozenset(["std", "core", "alloc", "proc_macro"])


def resolve(files: Files, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    crate = _Crate(files, path)
    known = list(imports)
    declared = {each.target.removeprefix("mod ") for each in known if each.target.startswith("mod ")}
    for each in known:
        if each.target.startswith("mod "):
            found = crate.module(each.target.removeprefix("mod "), each.detail)
        elif each.target.startswith("file "):
            found = files.first([joined(folder_of(path), each.target.removeprefix("file "))])
        else:
            found = crate.used(each.target, each.detail, declared)
        if found:
            yield found, each


class _Crate:
    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._package = next((each for each in folders_up(path) if self._has(each, "Cargo.toml")), None)
        self._root = self._root_file()
        self._others: dict[str, str] | None = None

    def _has(self, folder: str, name: str) -> bool:
        return self._files.is_file(f"{folder}/{name}" if folder else name)

    def _root_file(self) -> str:
        """The file that the crate of this one starts with."""
        start = f"{self._package}/" if self._package else ""
        named = [] if self._package is None else list(_named_roots(self._files, self._package))
        if self._path in named or _TARGETS.fullmatch(self._path[len(start) :]):
            return self._path
        name = self._path.rpartition("/")[2]
        if name in ("lib.rs", "main.rs", "build.rs") and folder_of(self._path) in (f"{start}src", start.rstrip("/")):
            return self._path
        for folder in folders_up(self._path):
            for each in ("lib.rs", "main.rs"):
                if self._has(folder, each):
                    return f"{folder}/{each}" if folder else each
            if found := self._files.first(each for each in named if folder_of(each) == folder):
                return found
            if folder == self._package:
                break
        return self._path

    def _inner_folder(self, file: str) -> str:
        """Where the modules that a file declares are."""
        name = file.rpartition("/")[2]
        return folder_of(file) if name in _ROOT_NAMES or file == self._root else file.removesuffix(".rs")

    def _child(self, folder: str, name: str) -> str | None:
        start = f"{folder}/" if folder else ""
        return self._files.first([f"{start}{name}.rs", f"{start}{name}/mod.rs"])

    def module(self, name: str, detail: str) -> str | None:
        place, _, own_path = detail.partition("=")
        inner = place.replace("::", "/")
        if own_path:
            base = self._inner_folder(self._path) if inner else folder_of(self._path)
            return self._files.first([joined("/".join(part for part in (base, inner) if part), own_path)])
        folder = self._inner_folder(self._path)
        return self._child("/".join(part for part in (folder, inner) if part), name)

    def used(self, target: str, place: str, declared: set[str]) -> str | None:
        names = [name for name in target.split("::") if name and name != "*"]
        if names and names[-1] == "self" and len(names) > 1:
            names.pop()
        if not names:
            return None
        modules = place.split("::") if place else []
        if names[0] == "crate":
            return self.descend(self._root, names[1:])
        if names[0] in ("self", "super"):
            return self._from_here(names, modules)
        if target.startswith("::") or names[0] in _CRATE_KEYWORDS:
            return self._other(names) if names[0] not in _CRATE_KEYWORDS else None
        if names[0] in declared and not modules:
            return self.descend(self._path, names)
        return self._other(names)

    def _from_here(self, names: list[str], modules: list[str]) -> str | None:
        """`self` and `super`, which first leave the modules within the file."""
        file: str | None = self._path
        modules = list(modules)
        rest = list(names)
        while rest and rest[0] in ("self", "super"):
            if rest.pop(0) == "super":
                if modules:
                    modules.pop()
                else:
                    file = self._parent(file)
                    if file is None:
                        return None
        return file if modules else self.descend(file, rest)

    def _parent(self, file: str) -> str | None:
        """The file of the module that a file's module is in."""
        if file == self._root:
            return None
        folder = folder_of(file)
        if file.endswith("/mod.rs"):
            folder = folder_of(folder)
        if folder == self._inner_folder(self._root):
            return self._root
        return self._files.first([f"{folder}/mod.rs", f"{folder}.rs"]) or self._root

    def descend(self, file: str, names: list[str]) -> str:
        """As far as the names are modules with files of their own."""
        for name in names:
            found = self._child(self._inner_folder(file), name)
            if found is None:
                break
            file = found
        return file

    def _other(self, names: list[str]) -> str | None:
        """A crate of the root: the package's own library, one that it depends on by path, or one of its workspace."""
        if self._others is None:
            self._others = dict(_crates(self._files, self._path, self._package))
        root = self._others.get(names[0])
        if root is None or root == self._path:
            return None
        return _Crate(self._files, root).descend(root, names[1:])


def _crates(files: Files, path: str, package: str | None) -> Iterator[tuple[str, str]]:
    """Names of crates and the files that they start with; a later one of the same name wins."""
    for folder in reversed(list(folders_up(path))):
        for member in _members(files, folder):
            yield from _library(files, member)
        for name, target in _path_dependencies(files, folder):
            if (found := joined(folder, target)) is not None:
                for _, root in _library(files, found):
                    yield name.replace("-", "_"), root
    if package is not None:
        yield from _library(files, package)


def _manifest(files: Files, folder: str) -> dict[str, Any]:
    return files.parsed(f"{folder}/Cargo.toml" if folder else "Cargo.toml", _toml) or {}


def _toml(text: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except Unreadable:
        return {}


def _named_roots(files: Files, folder: str) -> Iterator[str]:
    """The files that the manifest of a package says its crates start with."""
    about = _manifest(files, folder)
    tables = [mapping(about.get("lib"))]
    for kind in _TARGET_TABLES:
        listed: Any = about.get(kind)
        tables += map(mapping, cast("list[Any]", listed) if isinstance(listed, list) else [])
    for path in (*(table.get("path") for table in tables), mapping(about.get("package")).get("build")):
        if isinstance(path, str) and (found := joined(folder, path)):
            yield found


def _library(files: Files, folder: str) -> Iterator[tuple[str, str]]:
    about = _manifest(files, folder)
    library = mapping(about.get("lib"))
    name = library.get("name") or mapping(about.get("package")).get("name")
    root = joined(folder, str(library.get("path", "src/lib.rs")))
    if isinstance(name, str) and root and files.is_file(root):
        yield name.replace("-", "_"), root


def _members(files: Files, folder: str) -> Iterator[str]:
    yield from members(files, folder, strings(mapping(_manifest(files, folder).get("workspace")).get("members")))


def _path_dependencies(files: Files, folder: str) -> Iterator[tuple[str, str]]:
    about = _manifest(files, folder)
    tables = [about, mapping(about.get("workspace")), *map(mapping, mapping(about.get("target")).values())]
    for table in tables:
        for key in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, value in mapping(table.get(key)).items():
                target = mapping(value).get("path")
                if isinstance(target, str):
                    yield name, target
