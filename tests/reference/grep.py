"""grep_codebase in plain, slow Python over a tree in memory: nothing here is Carrel's, nor ripgrep's."""

import codecs
import re
from typing import Any

EXCLUDED = {"node_modules", ".git", "dist", "build", ".next", ".context", ".carrel"}
ALLOWED = {".env.example", ".env.sample", ".env.template"}
LONGEST = 500
CUT = "... [truncated]"
NOT_UTF8 = "\udc80-\udcff"

Tree = dict[str, bytes]
"""Regular files alone: links and what they lead to are never searched."""


def grep(tree: Tree, pattern: str, *, file_pattern: str | None, case_sensitive: bool, limit: int) -> dict[str, Any]:
    expression = compiled(pattern, case_sensitive)
    rules = {path.rpartition("/")[0]: _rules(text) for path, text in tree.items() if _name(path) == ".gitignore"}
    found: list[dict[str, Any]] = []
    searched = 0
    for path in sorted(tree):
        if not _is_searched(path, rules) or not (not file_pattern or selects(file_pattern, path)):
            continue
        if (text := decoded(tree[path])) is None:
            continue
        searched += 1
        found += ({"file": path, **match} for match in _matches(text, expression))
    answer = {
        "matches": found[:limit],
        "pattern": pattern,
        "totalMatches": len(found),
        "filesSearched": searched,
    }
    return answer if found else answer | {"message": f"No matches found for pattern '{pattern}'"}


# --- text


def decoded(content: bytes) -> str | None:
    """None for a binary file. Bytes that are not UTF-8 are surrogates, which no pattern matches."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16", "replace")
    else:
        text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    return None if "\0" in text else text


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def compiled(pattern: str, case_sensitive: bool) -> re.Pattern[str]:
    """For the few constructs that the tests generate: no wildcard matches what is not text."""
    pattern = pattern.replace("[^", f"[^{NOT_UTF8}")
    pattern = re.sub(r"(?<!\\)\.", f"[^{NOT_UTF8}]", pattern)
    return re.compile(pattern, 0 if case_sensitive else re.IGNORECASE)


def _matches(text: str, expression: re.Pattern[str]) -> list[dict[str, Any]]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.rstrip("\r") for line in lines]
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        if (start := _first(line, expression)) is not None:
            before = len(_shown(line[:start]))
            found.append(
                {
                    "line": number + 1,
                    "column": before + 1,
                    "text": cut(_shown(line), before),
                    "context": {
                        "before": [cut(_shown(each), 0) for each in lines[max(0, number - 2) : number]],
                        "after": [cut(_shown(each), 0) for each in lines[number + 1 : number + 3]],
                    },
                }
            )
    return found


def _first(line: str, expression: re.Pattern[str]) -> int | None:
    """A carriage return within a line ends what a match can reach, though not the line."""
    offset = 0
    for part in line.split("\r"):
        if match := expression.search(part):
            return offset + match.start()
        offset += len(part) + 1
    return None


def cut(line: str, match: int) -> str:
    if len(line) <= LONGEST:
        return line
    room = LONGEST - len(CUT)
    if match <= room // 2:
        return line[:room] + CUT
    if len(line) - match <= room // 2:
        return CUT + line[-room:]
    side = (LONGEST - 2 * len(CUT)) // 2
    return CUT + line[match - side : match + side] + CUT


# --- which files


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _denied(name: str) -> bool:
    name = name.lower()
    fixed = (".git", "node_modules", ".env", ".envrc")
    dotted = name.startswith(".env.") and name not in ALLOWED
    return name in fixed or dotted or name.endswith((".pem", ".key")) or name.startswith(("id_rsa", "id_ed25519"))


def _is_searched(path: str, rules: dict[str, list[tuple[bool, bool, list[str]]]]) -> bool:
    parts = path.split("/")
    if any(map(_denied, parts)) or EXCLUDED.intersection(parts[:-1]):
        return False
    return not any(_is_ignored(parts[:end], end < len(parts), rules) for end in range(1, len(parts) + 1))


def _rules(content: bytes) -> list[tuple[bool, bool, list[str]]]:
    """Whether it brings back, whether it is for folders alone, and the names of the pattern."""
    rules: list[tuple[bool, bool, list[str]]] = []
    for line in content.decode().split("\n"):
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        back = line.startswith("!")
        line = line.removeprefix("!")
        folders_alone = line.endswith("/")
        line = line.rstrip("/")
        names = line.removeprefix("/").split("/") if "/" in line else ["**", line]
        rules.append((back, folders_alone, names))
    return rules


def _is_ignored(parts: list[str], is_folder: bool, rules: dict[str, list[tuple[bool, bool, list[str]]]]) -> bool:
    for depth in range(len(parts) - 1, -1, -1):
        for back, folders_alone, names in reversed(rules.get("/".join(parts[:depth]), [])):
            if (is_folder or not folders_alone) and _path_matches(names, parts[depth:]):
                return not back
    return False


# --- globs


def selects(pattern: str, path: str) -> bool:
    if pattern.startswith("!"):
        return not selects(pattern[1:], path)
    for each in _without_braces(pattern):
        if each.endswith("/"):
            each += "**"
        names = [name for name in each.split("/") if name not in ("", ".")] if "/" in each else ["**", each]
        if _path_matches(names, path.split("/")):
            return True
    return False


def _without_braces(pattern: str) -> list[str]:
    """The innermost brace first."""
    if not (brace := re.search(r"\{([^{}]*)\}", pattern)):
        return [pattern]
    before, after = pattern[: brace.start()], pattern[brace.end() :]
    return [each for option in brace[1].split(",") for each in _without_braces(before + option + after)]


def _path_matches(names: list[str], parts: list[str]) -> bool:
    if not names:
        return not parts
    if names[0] == "**":
        if len(names) == 1:
            return bool(parts)
        return any(_path_matches(names[1:], parts[skipped:]) for skipped in range(len(parts) + 1))
    return bool(parts) and _name_matches(names[0], parts[0]) and _path_matches(names[1:], parts[1:])


def _name_matches(glob: str, name: str) -> bool:
    if not glob:
        return not name
    if glob[0] == "*":
        return any(_name_matches(glob[1:], name[skipped:]) for skipped in range(len(name) + 1))
    if not name:
        return False
    if glob[0] == "[":
        inside, _, rest = glob[1:].partition("]")
        inverted = inside.startswith("!")
        return ((name[0] in inside.removeprefix("!")) is not inverted) and _name_matches(rest, name[1:])
    if glob[0] == "\\":
        return name[0] == glob[1] and _name_matches(glob[2:], name[1:])
    return glob[0] in ("?", name[0]) and _name_matches(glob[1:], name[1:])
