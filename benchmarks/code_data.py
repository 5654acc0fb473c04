"""Code to measure with: trees of source files made of the packages that are installed here."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from carrel.code.knowledge.passages import code_passages
from carrel.code.languages import language_of
from carrel.search.documents import split

ENDINGS = frozenset((".py", ".pyi", ".js", ".ts", ".c", ".h", ".md", ".rst", ".txt", ".toml", ".json"))
MAX_FILE_BYTES = 200_000
NEEDLE = "carrel_bench_needle"
NEEDLES = 3
QUERIES = (
    "how are database connections pooled",
    "parse command line arguments",
    "retry a request after a timeout",
    "json schema validation error",
    "walk the syntax tree",
    "encode a string as utf-8",
    "close the event loop",
    "logging configuration",
    "read a file line by line",
    "type checking of generics",
)
DONE = ".made"


def make_tree(root: Path, files: int) -> Path:
    """A folder with so many files; where it has been made already, it is kept."""
    mark = root.with_name(root.name + DONE)
    if mark.exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    for number, (source, path) in zip(range(files), _endless(), strict=False):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if number % max(1, files // NEEDLES) == 0 and target.suffix == ".py":
            content += f"\n# {NEEDLE}\n".encode()
        target.write_bytes(content)
    mark.touch()
    return root


def _endless() -> Iterator[tuple[Path, Path]]:
    """Files, and where they go: all that there are, then once more in another folder, and so on."""
    found = list(_installed())
    for turn in count():
        for source, path in found:
            yield source, (Path(f"copy{turn}") / path if turn else path)


def _installed() -> Iterator[tuple[Path, Path]]:
    """By name, the standard library last."""
    for kind in ("purelib", "stdlib"):
        top = Path(sysconfig.get_path(kind))
        for path in sorted(top.rglob("*")):
            below = path.relative_to(top)
            is_ours = kind == "purelib" or "site-packages" not in below.parts
            if path.suffix in ENDINGS and is_ours and path.is_file() and 0 < path.stat().st_size <= MAX_FILE_BYTES:
                yield path, Path(kind) / below


def python_files(root: Path, number: int) -> list[str]:
    """Some, spread over the tree; those that do not parse are left out."""
    found = sorted(path for path in root.rglob("*.py") if _parses(path))
    step = max(1, len(found) // number)
    return [path.relative_to(root).as_posix() for path in found[::step][:number]]


def _parses(path: Path) -> bool:
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def passages(root: Path, number: int) -> list[str]:
    """Texts as they are embedded."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        name = path.relative_to(root).as_posix()
        for each in code_passages(name, text, language_of(name, text)):
            found += split(each.text)
        if len(found) >= number:
            break
    return found[:number]
