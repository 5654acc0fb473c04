"""What PHP includes, requires and uses."""

import re
from collections.abc import Iterable, Iterator

from carrel.code.dependencies import package_json
from carrel.code.dependencies.lexer import BLOCK_COMMENT, Cursor, Import, Kind, ScanResult, ScanWarning, lexer, line_at
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up, joined

_LINE = r"(?P<line>(?://|\#(?!\[))(?:[^\n?]++|\?(?!>))*+)"
_STRINGS = (
    r'(?P<double>"(?:[^"\\]++|\\.)*+")|(?P<open_raw>")',
    r"(?P<single>'(?:[^'\\]++|\\.)*+')|(?P<open_text>')",
)
_LEXER = lexer(_LINE, BLOCK_COMMENT, *_STRINGS)
_OPEN = re.compile(r"<\?(?:php\b|=)?", re.IGNORECASE)
_CLOSE = re.compile(r"\?>|//|\#|/\*|\"|'|<<<[ \t]*[\"']?(\w+)[\"']?[ \t]*\r?\n")
_LINE_END = re.compile(r"\n|\?>")
_KINDS: dict[str, Kind] = {
    "include": "include",
    "include_once": "include",
    "require": "require",
    "require_once": "require",
}
_CLASSES = frozenset(["class", "interface", "trait", "enum"])


def scan(text: str) -> ScanResult:
    """`detail` says what a path starts from: `here N` for N folders above the file's own; "" for wherever it is found.
    A target with `\\` in front is a class."""
    warnings: list[ScanWarning] = []
    cursor = Cursor(_LEXER, _code_only(text, warnings))
    imports: list[Import] = []
    depth, classes = 0, list[int]()
    while (token := cursor.take()).text:
        word = token.text.lower()
        if word in ("{", "}"):
            depth += 1 if word == "{" else -1
            if classes and depth <= classes[-1]:
                classes.pop()
        elif token.kind == "name" and word in _CLASSES and cursor.peek().kind == "name":
            _skip_head(cursor)
            classes.append(depth)
        elif token.kind == "name" and word in _KINDS:
            if found := _included(cursor, _KINDS[word]):
                imports.append(found)
        elif token.kind == "name" and word == "use" and not classes and cursor.peek().text != "(":
            imports += (Import(f"\\{name}") for name in _used(cursor))
        elif token.text in ("->", ">", ":", "$") and cursor.peek().text.lower() in {*_KINDS, "use", *_CLASSES}:
            cursor.take()
    return ScanResult(tuple(dict.fromkeys(imports)), tuple(warnings + cursor.warnings))


def _skip_head(cursor: Cursor) -> None:
    """From the name of a class to before its brace."""
    while cursor.peek().text not in ("{", ";", ""):
        cursor.take()


def _code_only(text: str, warnings: list[ScanWarning]) -> str:
    """The text with all that is not PHP blank, its heredocs too; lines stay."""
    pieces: list[str] = []
    place = 0
    while found := _OPEN.search(text, place):
        pieces.append("\n" * text.count("\n", place, found.end()))
        place = found.end()
        while True:
            stop = _CLOSE.search(text, place)
            if stop is None:
                pieces.append(text[place:])
                return "".join(pieces)
            end = _past(text, stop, warnings)
            if stop[0] == "?>":
                pieces.append(text[place : stop.start()] + ";")
                place = end
                break
            is_heredoc = stop[0].startswith("<<<")
            skipped = "''" + "\n" * text.count("\n", stop.start(), end) if is_heredoc else text[stop.start() : end]
            pieces += [text[place : stop.start()], skipped]
            place = end
    return "".join(pieces)


def _past(text: str, found: re.Match[str], warnings: list[ScanWarning]) -> int:
    """Where that which begins here ends."""
    begun, place = found[0], found.end()
    if begun == "?>":
        return place
    if begun == "/*":
        end = text.find("*/", place)
        return len(text) if end < 0 else end + 2
    if begun in ("//", "#"):
        end_of_line = _LINE_END.search(text, place)
        return end_of_line.start() if end_of_line else len(text)
    if begun in ("'", '"'):
        quoted = re.compile(rf"(?:[^{begun}\\]++|\\.)*+{begun}", re.DOTALL).match(text, place)
        return quoted.end() if quoted else len(text)
    end = re.compile(rf"^[ \t]*{re.escape(found[1])}\b", re.MULTILINE).search(text, place)
    if end is None:
        warnings.append(ScanWarning(line_at(text, found.start()), "Unterminated string"))
    return end.end() if end else len(text)


def _included(cursor: Cursor, kind: Kind) -> Import | None:
    """A string, or one after `__DIR__ .` or `dirname(...) .`; nothing else is known before it runs."""
    parts: list[str] = []
    up: int | None = None
    depth = 0
    while (word := cursor.peek().text.lower()) not in (";", "", "}") and (depth or word != ","):
        token = cursor.take()
        depth += (word == "(") - (word == ")")
        if token.kind in ("single", "double"):
            parts.append(token.inner)
        elif word == "__dir__":
            up = up or 0
        elif word == "__file__":
            up = (up or 0) - 1
        elif word == "dirname":
            up = (up or 0) + 1
        elif token.kind == "number" and up is not None and not parts:
            up += int(word) - 1 if word.isdigit() and len(word) < 3 else 0
        elif word not in ("(", ")", ".", ",", "directory_separator"):
            return None
        elif word == "directory_separator":
            parts.append("/")
    target = "".join(parts)
    if not target or "$" in target or "{" in target:
        return None
    return Import(target, kind, "" if up is None else f"here {max(up, 0)}")


def _used(cursor: Cursor) -> Iterator[str]:
    """The classes that a `use` names, also in a group."""
    head, current, in_group, in_alias = "", "", False, False
    if cursor.peek().text.lower() in ("function", "const"):
        while cursor.peek().text not in (";", ""):
            cursor.take()
        return
    while (token := cursor.take()).text not in (";", ""):
        if token.text == "{":
            head, current, in_group = current, "", True
        elif token.text in (",", "}"):
            if current:
                yield (head + current).strip("\\")
            current, in_alias = "", False
            in_group = in_group and token.text != "}"
        elif token.text.lower() == "as":
            in_alias = True
        elif (token.kind == "name" or token.text == "\\") and not in_alias:
            current += token.text
    if current:
        yield (head + current).strip("\\")


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    own = folder_of(path)
    prefixes: list[tuple[str, str, bool]] | None = None
    for each in imports:
        if each.target.startswith("\\"):
            if prefixes is None:
                prefixes = sorted(_prefixes(files, path), key=lambda known: len(known[0]), reverse=True)
            found = _class_file(files, prefixes, each.target[1:])
        elif each.detail:
            start = joined(own, "../" * int(each.detail.split()[1]))
            found = files.first([joined(start, each.target.lstrip("/"))]) if start is not None else None
        else:
            found = files.first([joined(own, each.target), joined("", each.target)])
        if found:
            yield found, each


def _class_file(files: RootFiles, prefixes: list[tuple[str, str, bool]], name: str) -> str | None:
    for prefix, folder, is_psr_0 in prefixes:
        if name.startswith(prefix):
            space, _, last = name.rpartition("\\")
            if is_psr_0:
                inner = f"{space}\\".replace("\\", "/") * bool(space) + last.replace("_", "/")
            else:
                inner = name[len(prefix) :].replace("\\", "/")
            if (target := joined(folder, f"{inner}.php")) and files.is_file(target):
                return target
    return None


def _prefixes(files: RootFiles, path: str) -> Iterator[tuple[str, str, bool]]:
    """Namespaces and their folders, by each composer.json above the file."""
    for folder in folders_up(path):
        about = package_json.mapping(
            files.parsed(f"{folder}/composer.json" if folder else "composer.json", package_json.loads)
        )
        for key in ("autoload", "autoload-dev"):
            loading = package_json.mapping(about.get(key))
            for standard in ("psr-4", "psr-0"):
                for prefix, targets in package_json.mapping(loading.get(standard)).items():
                    for target in package_json.strings(targets):
                        if (found := joined(folder, target or ".")) is not None:
                            yield prefix, found, standard == "psr-0"
