"""Imports of Java. The classes of the file's own package need none and are not counted."""

from collections.abc import Iterable, Iterator

from carrel.code.dependencies.lexer import (
    BLOCK_COMMENT,
    DOUBLE,
    LINE_COMMENT,
    SINGLE,
    Cursor,
    Import,
    ScanResult,
    lexer,
)
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up

_BLOCK_TEXT = r'(?P<raw>"""(?:[^"\\]++|\\.|"(?!""))*+""")|(?P<open_raw>""")'
_LEXER = lexer(LINE_COMMENT, BLOCK_COMMENT, _BLOCK_TEXT, DOUBLE, SINGLE)
_DECLARATIONS = frozenset(["class", "interface", "enum", "record", "module"])
_ROOTS = ("src/main/java", "src/test/java", "src", "java", "app/src/main/java", "")
_MAX_FOLDERS = 200
_MAX_NAMES = 200


def scan(text: str) -> ScanResult:
    """`detail` is the file's own package."""
    cursor = Cursor(_LEXER, text)
    package = ""
    imports: list[Import] = []
    while (token := cursor.take()).text and not (token.kind == "name" and token.text in _DECLARATIONS):
        if token.kind == "name" and token.text == "package":
            package = _name(cursor)
        elif token.kind == "name" and token.text == "import":
            if cursor.peek(1).kind == "name":
                cursor.skip("static")
            if name := _name(cursor):
                imports.append(Import(name, "import", package))
    return ScanResult(tuple(dict.fromkeys(imports)), tuple(cursor.warnings))


def _name(cursor: Cursor) -> str:
    """Names and dots up to what is neither; a `*` at the end belongs to it."""
    parts: list[str] = []
    while cursor.peek().kind == "name" or cursor.peek().text in (".", "*"):
        parts.append(cursor.take().text)
    return "".join(parts).strip(".")


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    roots: list[str] | None = None
    for each in imports:
        if roots is None:
            roots = list(dict.fromkeys(_roots(files, path, each.detail)))
        names = each.target.split(".", _MAX_NAMES)
        for root in roots:
            if found := list(_found(files, root, names)):
                yield from ((target, each) for target in found)
                break


def _found(files: RootFiles, root: str, names: list[str]) -> Iterator[str]:
    """`a.b.*` is the files of a folder, or a class and what is in it; else a class, or what is in a class."""
    inside = f"{root}/" if root else ""
    if names[-1] == "*":
        names = names[:-1]
        folder = inside + "/".join(names)
        found = [name for name, is_folder in files.names(folder).items() if name.endswith(".java") and not is_folder]
        if found:
            yield from (f"{folder}/{name}" for name in found if name not in ("package-info.java", "module-info.java"))
            return
    for count in range(len(names), 0, -1):
        target = f"{inside}{'/'.join(names[:count])}.java"
        if files.is_file(target):
            yield target
            return


def _roots(files: RootFiles, path: str, package: str) -> Iterator[str]:
    """Folders that packages start from: the file's own, then those of the same project and of its neighbours."""
    folder = folder_of(path)
    inner = package.replace(".", "/")
    if not inner:
        yield folder
    elif folder == inner or folder.endswith(f"/{inner}"):
        yield folder[: len(folder) - len(inner)].rstrip("/")
    yield from files.source_roots
    for each in folders_up(path):
        yield from _below(files, each)
    for name, is_folder in list(files.names("").items())[:_MAX_FOLDERS]:
        if is_folder and not name.startswith("."):
            yield from _below(files, name)
            for deeper, is_deeper_folder in list(files.names(name).items())[:_MAX_FOLDERS]:
                if is_deeper_folder and files.is_folder(f"{name}/{deeper}/src"):
                    yield from _below(files, f"{name}/{deeper}")


def _below(files: RootFiles, folder: str) -> Iterator[str]:
    for inner in _ROOTS:
        root = "/".join(part for part in (folder, inner) if part)
        if files.is_folder(root):
            yield root
