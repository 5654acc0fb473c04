"""What Ruby requires and loads."""

import re
from collections.abc import Iterable, Iterator

from carrel.code.dependencies.lexer import Import, ScanResult, ScanWarning, Token, line_at
from carrel.code.dependencies.root_files import RootFiles, folder_of, folders_up, joined

_TOKEN = re.compile(
    "|".join(
        [
            r"(?P<line>\#[^\n]*+)",
            r"(?P<document>^=begin\b)",
            r"(?P<end>^__END__[ \t]*\r?$)",
            r'(?P<double>"(?:[^"\\\n]++|\\[^\n])*+")',
            r"(?P<single>'(?:[^'\\\n]++|\\[^\n])*+')",
            r"(?P<open>[\"'][^\n]*+)",
            r"(?P<heredoc><<[~-]?(?:[\"'`](?P<quoted>[^\"'`\n]+)[\"'`]|(?P<tag>[A-Z_]\w*)))",
            r"(?P<name>[^\W\d]\w*+[?!]?)",
            r"(?P<newline>\n)",
            r"(?P<blank>[ \t\r]++|\\\n)",
            r"(?P<number>\d\w*+)",
            r"(?P<mark>.)",
        ]
    ),
    re.DOTALL | re.MULTILINE,
)
_DOCUMENT_END = re.compile(r"^=end\b[^\n]*", re.MULTILINE)
_CALLS = frozenset(["require", "require_relative", "load", "autoload"])
_HERE = re.compile(r"#\{(?:__dir__|File\.dirname\(__FILE__\))\}/")
_MAX_MISSING_HEREDOCS = 20
_ROOTS = ("lib", "app", "spec", "test", "")


def scan(text: str) -> ScanResult:
    """`detail` is the method; `here` in front of it where the name is from the file's own folder."""
    warnings: list[ScanWarning] = []
    tokens = list(_tokens(text, warnings))
    imports: list[Import] = []
    for number, token in enumerate(tokens):
        is_call = token.kind == "name" and token.text in _CALLS and _may_call(tokens, number)
        if is_call and (found := _import(token.text, tokens[number + 1 : number + 16])):
            imports.append(found)
    return ScanResult(tuple(dict.fromkeys(imports)), tuple(warnings))


def _tokens(text: str, warnings: list[ScanWarning]) -> Iterator[Token]:
    place = 0
    heredocs = _Heredocs(text)
    last = {quote: text.rfind(quote) for quote in "'\""}
    while found := _TOKEN.match(text, place):
        kind, start, place = found.lastgroup or "", place, found.end()
        if kind == "end":
            return
        if kind == "document":
            end = _DOCUMENT_END.search(text, place)
            if end is None:
                warnings.append(ScanWarning(line_at(text, start), "Unterminated comment"))
                return
            place = end.end()
        elif kind == "open":  # one of several lines, which is looked over, unless there is no end at all
            if last[found[0][0]] < place and not warnings:
                warnings.append(ScanWarning(line_at(text, start), "Unterminated string"))
        elif kind == "heredoc":
            heredocs.waiting.append(found["quoted"] or found["tag"])
        elif kind not in ("line", "blank"):
            yield Token(kind, found[0], start)
            place = heredocs.past(place) if kind == "newline" else place


class _Heredocs:
    """Those that begin on a line, whose text follows on the next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.waiting: list[str] = []
        self._missing = 0

    def past(self, place: int) -> int:
        for tag in self.waiting if self._missing < _MAX_MISSING_HEREDOCS else ():
            end = re.compile(rf"^[ \t]*{re.escape(tag)}[ \t\r]*$", re.MULTILINE).search(self._text, place)
            self._missing += end is None  # no heredoc, but a shift
            place = end.end() if end else place
        self.waiting.clear()
        return place


def _may_call(tokens: list[Token], number: int) -> bool:
    """Not a method of something else, nor a definition, nor a symbol."""
    before = tokens[number - 1].text if number else ""
    if before == ".":
        return number > 1 and tokens[number - 2].text in ("Kernel", "self")
    return before not in ("def", ":", "@", "$")


def _import(method: str, after: list[Token]) -> Import | None:
    line: list[Token] = []
    for token in after:
        if token.kind == "newline" or token.text in (";", "if", "unless", "rescue"):
            break
        if token.text not in ("(", ")"):
            line.append(token)
    if method == "autoload":
        places = [number for number, token in enumerate(line) if token.text == ","]
        line = line[places[0] + 1 :] if places else []
    if not line:
        return None
    kind = "dynamic" if method == "autoload" else "require"
    first = line[0]
    if first.kind in ("single", "double") and len(line) == 1:
        inner = first.inner
        if found := _HERE.match(inner):
            return Import(inner[found.end() :], kind, f"here {method}") if "#{" not in inner[found.end() :] else None
        return None if first.kind == "double" and "#{" in inner else Import(inner, kind, method)
    return _from_file(line, method)


def _from_file(line: list[Token], method: str) -> Import | None:
    """`File.expand_path("../x", __FILE__)`, `File.join(__dir__, "x")` and the like."""
    words = [token.text for token in line]
    strings = [token.inner for token in line if token.kind in ("single", "double")]
    if words[0] != "File" or any("#{" in each for each in strings) or not strings:
        return None
    kind = "dynamic" if method == "autoload" else "require"
    is_of_file = "__FILE__" in words and "dirname" not in words
    if "expand_path" in words and ("__FILE__" in words or "__dir__" in words):
        # Seen from the file itself, the first step up is its folder.
        return Import("/".join(strings), kind, f"{'file' if is_of_file else 'here'} {method}")
    if "join" in words and ("__dir__" in words or ("dirname" in words and "__FILE__" in words)):
        return Import("/".join(strings), kind, f"here {method}")
    return None


def resolve(files: RootFiles, path: str, imports: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    roots = list(dict.fromkeys(_roots(files, path)))
    own = folder_of(path)
    for each in imports:
        where, _, method = each.detail.rpartition(" ")
        if where == "file":
            folders = [path]
        elif where or method == "require_relative":
            folders = [own]
        elif each.target.startswith(("./", "../")):
            folders = ["", own]
        else:
            folders = [*roots, own] if method == "load" else roots
        for folder in folders:
            target = joined(folder, each.target)
            if target and (found := files.first([target if target.endswith(".rb") else None, f"{target}.rb", target])):
                yield found, each
                break


def _roots(files: RootFiles, path: str) -> Iterator[str]:
    yield from files.source_roots
    for folder in folders_up(path):
        for name in _ROOTS:
            inner = "/".join(part for part in (folder, name) if part)
            if files.is_folder(inner) and (name or not folder):
                yield inner
