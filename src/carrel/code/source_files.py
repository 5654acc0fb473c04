"""The files of a code base that are worth an index: sources that may be read."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from carrel.code.file_access import LIMIT, Denied
from carrel.code.grep.ripgrep import INSTALL, Processes, find_program, listing
from carrel.code.knowledge.code_files import ListedFile
from carrel.code.languages import TEXT, language_of

log = logging.getLogger("carrel.code")

MOST_FILES = 50_000
"""A folder with more is hardly one project."""
_DATA = frozenset(
    (
        "asciidoc",
        "csv",
        "diff",
        "ini",
        "json",
        "jupyter",
        "markdown",
        "properties",
        "restructuredtext",
        "svg",
        "toml",
        "xml",
        "yaml",
        TEXT,
    )
)
"""No code."""


def list_files(root: Path, denied: Denied) -> list[ListedFile]:
    """By path. Those that git ignores, the excluded folders, links and whatever is denied are left out."""
    program = find_program()
    if program is None:
        log.warning("the code base is not indexed: ripgrep is not installed; install it with: %s", INSTALL)
        return []
    found = sorted(file for path in _paths(program, root) if (file := _listed(root, path, denied)))
    if len(found) > MOST_FILES:
        log.warning("%s files are too many to index; the first %s are", len(found), MOST_FILES)
    return found[:MOST_FILES]


def _paths(program: str, root: Path) -> Iterator[str]:
    with Processes() as processes:
        printed = b"".join(processes.output(processes.start([program, *listing()], str(root))))
    for name in printed.split(b"\0")[:-1]:
        try:
            yield name.decode().removeprefix("./")
        except UnicodeDecodeError:
            continue


def _listed(root: Path, path: str, denied: Denied) -> ListedFile | None:
    if denied.path(path) or language_of(path, "") in _DATA:
        return None
    try:
        found = os.lstat(root / path)
    except OSError:
        return None
    is_wanted = stat.S_ISREG(found.st_mode) and 0 < found.st_size <= LIMIT
    return ListedFile(path, found.st_size, found.st_mtime_ns) if is_wanted else None
