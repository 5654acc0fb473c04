"""Includes of C and C++."""

import re
from collections.abc import Iterable, Iterator

from carrel.code.dependencies.lexer import BLOCK_COMMENT, Import, ScanResult, ScanWarning, line_at
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up, joined

_TOKEN = re.compile(
    "|".join(
        [
            r"(?P<line>//[^\n]*+)",
            BLOCK_COMMENT,
            r'(?P<raw>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\()',
            r'(?P<string>"(?:[^"\\\n]++|\\.)*+(?P<closed>")?)',
            r"(?P<character>'(?:[^'\\\n]++|\\.)*+'?)",
            r"(?P<include>^[ \t]*+(?:\#|%:)[ \t]*+(?:include_next|include|import)\b[^\n]*+)",
            r"(?P<name>\w++)",
            r"(?P<rest>[^\w\"'/\n]++|.)",
        ]
    ),
    re.DOTALL | re.MULTILINE,
)
_TARGET = re.compile(r"(?:include_next|include|import)\b[ \t]*+(?:\"([^\"\n]+)\"|<([^>\n]+)>)")
_COMMENT = re.compile(r"/\*(?:[^*]++|\*(?!/))*+\*/")
_MAX_DIRECTIVE_CHARACTERS = 4096
"""Characters of a directive that are looked at."""
_FOLDERS = ("include", "inc", "src", "lib", "source", "")


def scan(text: str) -> ScanResult:
    """`detail` is the mark that the name is given in: a quote or an angle."""
    warnings: list[ScanWarning] = []
    imports: list[Import] = []
    place = 0
    while found := _TOKEN.match(text, place):
        place = found.end()
        kind = found.lastgroup
        if kind == "open_comment":
            warnings.append(ScanWarning(line_at(text, found.start()), "Unterminated comment"))
            break
        if kind == "raw":
            end = text.find(f'){found["fence"]}"', place)
            if end < 0:
                warnings.append(ScanWarning(line_at(text, found.start()), "Unterminated string"))
                break
            place = end + len(found["fence"]) + 2
        elif kind == "include":
            if target := _TARGET.search(_COMMENT.sub(" ", found[0][:_MAX_DIRECTIVE_CHARACTERS])):
                imports.append(Import(target[1] or target[2].strip(), "include", '"' if target[1] else "<"))
            place = found.start() + _before_comment(found[0])
        elif kind == "string" and not found["closed"] and len(warnings) < 20:
            warnings.append(ScanWarning(line_at(text, found.start()), "Unterminated string"))
    return ScanResult(tuple(dict.fromkeys(imports)), tuple(warnings))


def _before_comment(line: str) -> int:
    """How much of a line comes before a comment that goes on after it and is still to be read."""
    start = line.rfind("/*")
    is_open = start >= 0 and line.find("*/", start + 2) < 0 and "//" not in line[:start]
    return start if is_open else len(line)


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    folders = list(dict.fromkeys(_folders(files, path)))
    for each in imports:
        name = each.target.replace("\\", "/")
        beside = [joined(folder_of(path), name)] if each.detail == '"' else []
        # What stands in angles is looked for where headers are kept, not beside the file.
        kept = (folder for folder in folders if each.detail == '"' or folder != folder_of(path) or not folder)
        if found := files.first([*beside, *(joined(folder, name) for folder in kept)]):
            yield found, each


def _folders(files: RootFiles, path: str) -> Iterator[str]:
    yield from files.source_roots
    for folder in folders_up(path):
        for name in _FOLDERS:
            inner = "/".join(part for part in (folder, name) if part)
            if files.is_folder(inner):
                yield inner
