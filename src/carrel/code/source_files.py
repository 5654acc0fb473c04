"""The files of a code base that are worth an index: sources that may be read."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from carrel.code.file_access import MAX_FILE_BYTES, DenyList
from carrel.code.grep.ripgrep import INSTALL_COMMAND, Processes, find_program, list_arguments
from carrel.code.knowledge.code_files import ListedFile
from carrel.code.languages import TEXT, language_of

log = logging.getLogger("carrel.code")

MAX_INDEXED_FILES = 50_000
"""A folder with more is hardly one project."""
_NON_CODE_LANGUAGES = frozenset(
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


def list_source_files(root: Path, denied: DenyList) -> list[ListedFile]:
    """Return the source files below a root, by path, without ignored, excluded, linked and denied ones."""
    program = find_program()
    if program is None:
        log.warning("the code base is not indexed: ripgrep is not installed; install it with: %s", INSTALL_COMMAND)
        return []
    found = sorted(file for path in _paths(program, root) if (file := _listed_file(root, path, denied)))
    if len(found) > MAX_INDEXED_FILES:
        log.warning("%s files are too many to index; the first %s are", len(found), MAX_INDEXED_FILES)
    return found[:MAX_INDEXED_FILES]


def _paths(program: str, root: Path) -> Iterator[str]:
    with Processes() as processes:
        printed = b"".join(processes.output(processes.start([program, *list_arguments()], str(root))))
    for name in printed.split(b"\0")[:-1]:
        try:
            yield name.decode().removeprefix("./")
        except UnicodeDecodeError:
            continue


def _listed_file(root: Path, path: str, denied: DenyList) -> ListedFile | None:
    if denied.path(path) or language_of(path, "") in _NON_CODE_LANGUAGES:
        return None
    try:
        found = os.lstat(root / path)
    except OSError:
        return None
    is_wanted = stat.S_ISREG(found.st_mode) and 0 < found.st_size <= MAX_FILE_BYTES
    return ListedFile(path, found.st_size, found.st_mtime_ns) if is_wanted else None
