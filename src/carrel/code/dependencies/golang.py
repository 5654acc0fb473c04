"""Imports of Go: a package is the files of its folder that are no tests."""

import re
from collections.abc import Iterable, Iterator

from carrel.code.dependencies.lexer import (
    BLOCK_COMMENT,
    DOUBLE,
    LINE_COMMENT,
    SINGLE,
    Cursor,
    Import,
    ScanResult,
    Token,
    lexer,
)
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up, joined

_RAW = r"(?P<raw>`[^`]*+`)|(?P<open_raw>`)"
_LEXER = lexer(LINE_COMMENT, BLOCK_COMMENT, DOUBLE, SINGLE, _RAW)
_DECLARATIONS = frozenset(["func", "var", "const", "type"])
_COMMENT = re.compile(r"//[^\n]*")
_MODULE = re.compile(r"^[ \t]*module[ \t]+(?:\(\s*)?[\"`]?([^\s\"`)]+)", re.MULTILINE)
_REPLACE = re.compile(r"^[ \t]*(?:replace[ \t]+)?(\S+)(?:[ \t]+v\S+)?[ \t]*=>[ \t]*(\.\S*)", re.MULTILINE)
_USE = re.compile(r"^[ \t]*use[ \t]+(?:\(([^)]*)\)|(\S+))", re.MULTILINE)


def scan(text: str) -> ScanResult:
    cursor = Cursor(_LEXER, text)
    imports: list[Import] = []
    while (token := cursor.take()).text and token.text not in _DECLARATIONS:
        if token.kind == "name" and token.text == "import":
            imports += (Import(each.inner) for each in _specs(cursor))
    return ScanResult(tuple(dict.fromkeys(imports)), tuple(cursor.warnings))


def _specs(cursor: Cursor) -> Iterator[Token]:
    """The strings after `import`: one, or a list in parentheses."""
    if not cursor.skip("("):
        if cursor.peek().kind == "name" or cursor.peek().text in (".", "_"):
            cursor.take()
        if cursor.peek().kind in ("double", "raw"):
            yield cursor.take()
        return
    while (token := cursor.take()).text not in (")", ""):
        if token.kind in ("double", "raw"):
            yield token


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    modules = sorted(_modules(files, path), key=lambda each: len(each[0]), reverse=True)
    for each in imports:
        for folder in _folders(files, modules, path, each.target):
            names = [name for name in files.names(folder) if _is_part(files, folder, name)]
            for name in names:
                yield f"{folder}/{name}" if folder else name, each
            if names:
                break


def _is_part(files: RootFiles, folder: str, name: str) -> bool:
    return name.endswith(".go") and not name.endswith("_test.go") and not files.names(folder)[name]


def _folders(files: RootFiles, modules: list[tuple[str, str]], path: str, target: str) -> Iterator[str]:
    if target.startswith(("./", "../")):
        if (folder := joined(folder_of(path), target)) is not None:
            yield folder
        return
    for name, folder in modules:
        is_inside = target == name or target.startswith(f"{name}/")
        if is_inside and (found := joined(folder, target[len(name) + 1 :])) is not None:
            yield found
    for folder in folders_up(path):
        vendor = f"{folder}/vendor" if folder else "vendor"
        if files.is_folder(vendor):
            yield f"{vendor}/{target}"


def _modules(files: RootFiles, path: str) -> Iterator[tuple[str, str]]:
    """Modules of the root by the path that they are imported by: the file's own, what it replaces, the workspace's."""
    has_own = False
    for folder in folders_up(path):
        inside = f"{folder}/" if folder else ""
        if not has_own and (text := files.text(f"{inside}go.mod")) is not None:
            has_own = True
            yield from _module(files, folder)
            for name, target in _REPLACE.findall(_COMMENT.sub("", text)):
                if (found := joined(folder, target)) is not None:
                    yield name, found
        if (text := files.text(f"{inside}go.work")) is not None:
            for many, one in _USE.findall(_COMMENT.sub("", text)):
                for each in (many or one).split():
                    if (found := joined(folder, each.strip('"'))) is not None:
                        yield from _module(files, found)


def _module(files: RootFiles, folder: str) -> Iterator[tuple[str, str]]:
    text = files.text(f"{folder}/go.mod" if folder else "go.mod")
    if text is not None and (found := _MODULE.search(_COMMENT.sub("", text))):
        yield found[1], folder
