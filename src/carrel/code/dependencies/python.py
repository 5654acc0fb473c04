"""Imports of Python, read with its own parser."""

import ast
import sys
import warnings
from collections.abc import Iterable, Iterator

from carrel.code.dependencies.lexer import Import, ScanResult
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up

_NAME = "<imports>"


def scan(text: str) -> ScanResult:
    """A target has a dot in front for each level up. `detail` is what else will do: of `from a import b` it is `a`."""
    warnings.filterwarnings("ignore", module=_NAME)  # the parser's own, about the text
    try:
        tree = ast.parse(text, _NAME)
    except SyntaxError as error:
        return ScanResult(error_line=error.lineno or 1)
    except (MemoryError, RecursionError, ValueError):
        return ScanResult(error_line=_deepest_line(text))
    return ScanResult(tuple(dict.fromkeys(_imports(tree))))


def _deepest_line(text: str) -> int:
    """Of a text that the parser gives up on, its longest line: there it nests."""
    lines = text.split("\n")
    return max(range(len(lines)), key=lambda number: len(lines[number])) + 1


def _imports(tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name)
        elif isinstance(node, ast.ImportFrom):
            whole = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = whole if whole.endswith(".") else f"{whole}."
                yield Import(whole if alias.name == "*" else inner + alias.name, "import", whole)
        elif isinstance(node, ast.Call):
            yield from _dynamic(node)


def _dynamic(call: ast.Call) -> Iterator[Import]:
    match call:
        case ast.Call(
            func=ast.Name("__import__" | "import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(target)), *more],
        ):
            given = [*more, *(each.value for each in call.keywords if each.arg == "package")]
            if not target.startswith("."):
                yield Import(target, "dynamic")
            elif given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
                up = len(target) - len(target.lstrip("."))
                package = given[0].value.split(".")
                if up <= len(package):
                    yield Import(".".join([*package[: len(package) - up + 1], target[up:]]), "dynamic")
            else:
                yield Import(target, "dynamic")  # from its own package, as it is nearly always
        case _:
            pass


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    own = folder_of(path)
    roots = list(dict.fromkeys(_roots(files, path)))
    sure = {"", "src", *files.source_roots}
    if (top := _top(files, own)) != own:
        sure.add(top)
    for each in imports:
        for target in dict.fromkeys([each.target, each.detail]):
            if target and (found := _found(files, own, target, roots, sure)):
                yield found, each
                break


def _found(files: RootFiles, own: str, target: str, roots: list[str], sure: set[str]) -> str | None:
    level = len(target) - len(target.lstrip("."))
    names = [name for name in target[level:].split(".") if name]
    if level:
        parts = own.split("/") if own else []
        if level - 1 > len(parts):
            return None
        return module_file(files, "/".join(parts[: len(parts) - level + 1]), names)
    for root in roots:
        # A folder that is only perhaps on the path does not hide the standard library.
        if root not in sure and len(names) == 1 and names[0] in sys.stdlib_module_names:
            continue
        if found := module_file(files, root, names):
            return found
    return None


def module_file(files: RootFiles, folder: str, names: list[str]) -> str | None:
    """The file of a module or package below a folder."""
    path = "/".join([folder, *names] if folder else names)
    inside = f"{path}/" if path else ""
    return files.first(
        [
            f"{inside}__init__.py",
            *([f"{path}.py"] if names else []),
            f"{inside}__init__.pyi",
            *([f"{path}.pyi"] if names else []),
        ]
    )


def _top(files: RootFiles, folder: str) -> str:
    """The folder that the outermost package of a folder is in."""
    while folder and (files.is_file(f"{folder}/__init__.py") or files.is_file(f"{folder}/__init__.pyi")):
        folder = folder_of(folder)
    return folder


def _roots(files: RootFiles, path: str) -> Iterator[str]:
    """Where absolute imports may start from: the nearest first, after what is known."""
    yield _top(files, folder_of(path))
    yield from files.source_roots
    for folder in folders_up(path):
        if not files.is_file(f"{folder}/__init__.py" if folder else "__init__.py"):
            yield folder
        for name in ("src", "lib", "python"):
            inner = f"{folder}/{name}" if folder else name
            if files.is_folder(inner) and not files.is_file(f"{inner}/__init__.py"):
                yield inner
