"""What a Rust file declares (`mod`), uses and includes, and which files these modules are."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from carrel.code.dependencies.lexer import DOUBLE, LINE_COMMENT, Cursor, Import, ScanResult, ScanWarning, lexer, line_at
from carrel.code.dependencies.package_json import mapping, members, strings
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up, joined
from carrel.untrusted import Unreadable, load_toml

_RAW = r'(?P<raw>b?r(?P<fence>\#{0,16})"(?:[^"]++|"(?!(?P=fence)))*+"(?P=fence))|(?P<open_raw>b?r\#{0,16}")'
_QUOTE = r"(?P<single>b?'(?:[^'\\\n]|\\(?:u\{[^}\n]{0,8}\}|x[0-9a-fA-F]{2}|.))')|(?P<lifetime>')"
_RAW_NAME = r"(?P<raw_name>r\#(?=[^\W\d]))"
_LEXER = lexer(LINE_COMMENT, _RAW, _RAW_NAME, DOUBLE, _QUOTE)
_OUTSIDE = re.compile(r"/\*|//[^\n]*+|\br(\#{0,16})\"|\"(?:[^\"\\]++|\\.)*+\"?|'(?:[^'\\\n]|\\.)'", re.DOTALL)
_INSIDE = re.compile(r"/\*|\*/")
_MAX_USE_DEPTH = 50
"""Braces within braces of one `use`."""
_INCLUDES = frozenset(["include", "include_str", "include_bytes"])


def scan(text: str) -> ScanResult:
    """`use` gives `a::b::c`, a `mod` its name after `mod `, an `include!` the path after `file `.

    `detail` is the modules of this file that it stands in, with `::`; of a `mod` with a path of its own, `=` and that.
    """
    code, flaw = _without_blocks(text)
    cursor = Cursor(_LEXER, code)
    scanner = _Scanner(cursor)
    imports = dict.fromkeys(scanner.read())
    return ScanResult(tuple(imports), (*flaw, *cursor.warnings))


class _Scanner:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._modules: list[tuple[str, int]] = []
        """The inline modules that are open, each with the depth of braces that it stands at."""
        self._depth = 0
        self._path = ""
        """Of a `#[path = "..."]` whose `mod` is still to come."""

    def read(self) -> Iterator[Import]:
        cursor = self._cursor
        while (token := cursor.take()).text:
            if token.text in ("{", "}", ";"):
                self._brace(token.text)
            elif token.text == "#":
                self._attribute()
            elif token.kind != "name":
                continue
            elif token.text == "mod" and cursor.peek().kind in ("name", "raw_name"):
                yield from self._module()
            elif token.text == "use":
                yield from (Import(each, "import", self._place()) for each in self._tree())
            elif token.text == "extern" and cursor.skip("crate"):
                yield Import(cursor.take().text, "import", self._place())
            elif token.text in _INCLUDES and cursor.skip("!") and cursor.peek(1).kind == "double":
                yield Import(f"file {cursor.peek(1).inner}", "include", self._place())

    def _place(self) -> str:
        return "::".join(name for name, _ in self._modules)

    def _brace(self, text: str) -> None:
        if text == "{":
            self._depth += 1
        elif text == "}":
            self._depth -= 1
            if self._modules and self._depth <= self._modules[-1][1]:
                self._modules.pop()
        self._path = ""

    def _attribute(self) -> None:
        if self._cursor.skip("[", "path", "=") and self._cursor.peek().kind == "double":
            self._path = self._cursor.take().inner

    def _module(self) -> Iterator[Import]:
        cursor = self._cursor
        cursor.skip("r#")
        name = cursor.take().text
        if cursor.skip("{"):
            self._modules.append((self._path or name, self._depth))
            self._depth += 1
        elif cursor.peek().text == ";":
            yield Import(f"mod {name}", "import", self._place() + (f"={self._path}" if self._path else ""))
        self._path = ""

    def _tree(self) -> Iterator[str]:
        """`a::{b, c::{self, d as e}, f::*}`, each path of it."""
        cursor = self._cursor
        heads: list[str] = []
        head = current = ""
        in_alias = False
        while (token := cursor.take()).text not in (";", ""):
            if token.text == "{":
                if len(heads) >= _MAX_USE_DEPTH:
                    return
                heads.append(head)
                head, current = head + current, ""
            elif token.text in (",", "}"):
                if current:
                    yield head + current
                current, in_alias = "", False
                if token.text == "}":
                    head = heads.pop() if heads else ""
            elif token.text == "as":
                in_alias = True
            elif not in_alias and (token.kind == "name" or token.text in (":", "*")):
                current += token.text
        if current:
            yield head + current


def _without_blocks(text: str) -> tuple[str, list[ScanWarning]]:
    """The text with its block comments, which nest, made blank."""
    if "/*" not in text:
        return text, []
    pieces: list[str] = []
    place = kept = depth = begun = 0
    while found := (_INSIDE if depth else _OUTSIDE).search(text, place):
        place = found.end()
        if found[0] == "/*":
            if not depth:
                pieces.append(text[kept : found.start()])
                begun = found.start()
            depth += 1
        elif found[0] == "*/":
            depth -= 1
            if not depth:
                kept = place
                pieces.append(" " + "\n" * text.count("\n", begun, place))
        elif found.lastindex:
            end = text.find(f'"{found[1]}', place)
            place = len(text) if end < 0 else end + 1
    if depth:
        return "".join(pieces), [ScanWarning(line_at(text, begun), "Unterminated comment")]
    return "".join([*pieces, text[kept:]]), []


_ROOT_NAMES = frozenset(["lib.rs", "main.rs", "mod.rs", "build.rs"])
_TARGETS = re.compile(r"(?:tests|examples|benches|src/bin)/(?:[^/]+\.rs|[^/]+/main\.rs)")
"""From the folder of a package: the files that crates start with, without being named in its Cargo.toml."""
_TARGET_TABLES = ("bin", "test", "bench", "example")
_CRATE_KEYWORDS = frozenset(["std", "core", "alloc", "proc_macro"])


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
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
    def __init__(self, files: RootFiles, path: str) -> None:
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


def _crates(files: RootFiles, path: str, package: str | None) -> Iterator[tuple[str, str]]:
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


def _manifest(files: RootFiles, folder: str) -> dict[str, Any]:
    return files.parsed(f"{folder}/Cargo.toml" if folder else "Cargo.toml", _toml) or {}


def _toml(text: str) -> dict[str, Any]:
    try:
        return load_toml(text)
    except Unreadable:
        return {}


def _named_roots(files: RootFiles, folder: str) -> Iterator[str]:
    """The files that the manifest of a package says its crates start with."""
    about = _manifest(files, folder)
    tables = [mapping(about.get("lib"))]
    for kind in _TARGET_TABLES:
        listed: Any = about.get(kind)
        tables += map(mapping, cast("list[Any]", listed) if isinstance(listed, list) else [])
    for path in (*(table.get("path") for table in tables), mapping(about.get("package")).get("build")):
        if isinstance(path, str) and (found := joined(folder, path)):
            yield found


def _library(files: RootFiles, folder: str) -> Iterator[tuple[str, str]]:
    about = _manifest(files, folder)
    library = mapping(about.get("lib"))
    name = library.get("name") or mapping(about.get("package")).get("name")
    root = joined(folder, str(library.get("path", "src/lib.rs")))
    if isinstance(name, str) and root and files.is_file(root):
        yield name.replace("-", "_"), root


def _members(files: RootFiles, folder: str) -> Iterator[str]:
    yield from members(files, folder, strings(mapping(_manifest(files, folder).get("workspace")).get("members")))


def _path_dependencies(files: RootFiles, folder: str) -> Iterator[tuple[str, str]]:
    about = _manifest(files, folder)
    tables = [about, mapping(about.get("workspace")), *map(mapping, mapping(about.get("target")).values())]
    for table in tables:
        for key in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, value in mapping(table.get(key)).items():
                target = mapping(value).get("path")
                if isinstance(target, str):
                    yield name, target
