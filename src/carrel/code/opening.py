"""The one way in: every file that the code room reads is opened here.

What a path says is screened first, then what it leads to. The file is opened one name at a time from a descriptor of
the root and never through a link, so that a link put in place after the check leads nowhere.
"""

import errno
import os
import re
import stat
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from carrel.code.denied import Denied

LIMIT = 1024 * 1024
"""Bytes of the largest file that is read."""


class Reason(Enum):
    """Why a file is not given."""

    INVALID = auto()
    ABSOLUTE = auto()
    TRAVERSAL = auto()
    DENIED = auto()
    NOT_FOUND = auto()
    NOT_A_FILE = auto()
    TOO_LARGE = auto()
    NOT_TEXT = auto()
    NOT_PARSED = auto()


_ABSOLUTE = re.compile(
    r"[/\\~]|[a-z]:|[a-z][a-z0-9+.-]*:[/\\]|(?:about|blob|data|file|ftp|https?|jar|javascript|mailto|ssh):",
    re.IGNORECASE,
)
_VERDICTS = {
    errno.ENOENT: Reason.NOT_FOUND,
    errno.ENOTDIR: Reason.NOT_FOUND,
    errno.ENAMETOOLONG: Reason.NOT_FOUND,
    errno.EINVAL: Reason.NOT_FOUND,
    errno.ELOOP: Reason.NOT_FOUND,
    errno.ENXIO: Reason.NOT_A_FILE,
    errno.ENODEV: Reason.NOT_A_FILE,
    errno.EISDIR: Reason.NOT_A_FILE,
    errno.EACCES: Reason.DENIED,
    errno.EPERM: Reason.DENIED,
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_BY_DESCRIPTOR = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that is not given, and what is known about it."""

    reason: Reason
    path: str
    """As it was asked for."""
    detail: str = ""
    """What an invalid path must be; the media type of what is not text."""
    size: int = 0
    """Bytes of a file that is too large."""
    line: int = 0
    """Where a file does not parse."""


@dataclass(frozen=True, slots=True)
class Opened:
    content: bytes
    stat: os.stat_result
    path: str
    """From the root, with `/`, as it was asked for, without `.` and empty components."""
    real: str
    """From the root, with every link followed."""


class Opening:
    """Opens the files of a root that are not denied."""

    def __init__(self, root: Path, denied: Denied, limit: int = LIMIT) -> None:
        self.root = os.path.realpath(root)
        self.denied = denied
        self.limit = limit

    def open(self, path: str) -> Opened | Refusal:
        """The whole content of a file, or why not; the first of the ruled reasons that holds."""
        if error := screened(path):
            return error
        relative = "/".join(part for part in path.split("/") if part not in ("", "."))
        if self.denied.path(relative):
            return Refusal(Reason.DENIED, path)
        try:
            real = self._real(relative)
            if real is None or self.denied.path(real):
                return Refusal(Reason.DENIED, path)
            return self._read(path, relative, real)
        except OSError as error:
            if (verdict := _VERDICTS.get(error.errno or 0)) is None:
                raise
            return Refusal(verdict, path)

    def _real(self, relative: str) -> str | None:
        """Where the path leads, from the root; None if out of it. What is not there is followed as far as it goes."""
        whole = os.path.join(self.root, relative) if relative else self.root
        try:
            found = os.path.realpath(whole, strict=True)
        except FileNotFoundError:
            found = os.path.realpath(whole)
        if found == self.root:
            return ""
        beneath = self.root.rstrip(os.sep) + os.sep
        return found[len(beneath) :].replace(os.sep, "/") if found.startswith(beneath) else None

    def _read(self, path: str, relative: str, real: str) -> Opened | Refusal:
        if not real:
            return Refusal(Reason.NOT_A_FILE, path)
        descriptor = open_beneath(self.root, real)
        if isinstance(descriptor, Reason):
            return Refusal(descriptor, path)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                return Refusal(Reason.NOT_A_FILE, path)
            if facts.st_size > self.limit:
                return Refusal(Reason.TOO_LARGE, path, size=facts.st_size)
            content = bytearray()
            while len(content) <= self.limit and (piece := file.read(self.limit + 1 - len(content))):
                content += piece
        if len(content) > self.limit:  # it has grown meanwhile
            return Refusal(Reason.TOO_LARGE, path, size=len(content))
        return Opened(bytes(content), facts, relative, real)


def open_beneath(root: str, real: str) -> int | Reason:
    """A descriptor of the file at a path without links, or what is wrong with it.

    It was a regular file a moment ago; the caller has to see whether it is one still.
    """
    return _by_names(root, real) if _BY_DESCRIPTOR else _compared(root, real)


def _by_names(root: str, real: str) -> int | Reason:
    *folders, name = real.split("/")
    folder = os.open(root, _FOLDER | getattr(os, "O_CLOEXEC", 0))
    try:
        for each in folders:
            inner = os.open(each, _FOLDER | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return Reason.DENIED  # it was none a moment ago
        if not stat.S_ISREG(mode):
            return Reason.NOT_A_FILE
        return os.open(name, _FILE | _NO_LINK, dir_fd=folder)
    finally:
        os.close(folder)


def _compared(root: str, real: str) -> int | Reason:
    """Where names cannot be opened from a descriptor: what was opened must be what is there, without links."""
    whole = os.path.join(os.path.realpath(root), *real.split("/"))
    if not stat.S_ISREG(os.lstat(whole).st_mode):
        return Reason.NOT_A_FILE
    descriptor = os.open(whole, _FILE)
    try:
        if os.path.realpath(whole) == whole and os.path.samestat(os.fstat(descriptor), os.lstat(whole)):
            kept, descriptor = descriptor, -1
            return kept
        return Reason.DENIED
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def screened(path: str) -> Refusal | None:
    """What the path alone says, before anything is looked up."""
    if not path:
        return Refusal(Reason.INVALID, path, "must not be empty")
    if "\0" in path:
        return Refusal(Reason.INVALID, path, "must not contain NUL")
    if _SURROGATE.search(path):
        return Refusal(Reason.INVALID, path, "must be Unicode text")
    if _ABSOLUTE.match(path):
        return Refusal(Reason.ABSOLUTE, path)
    parts = re.split(r"[/\\]", path)
    if ".." in parts or (os.name == "nt" and any(part.startswith("..") and not part.strip(". ") for part in parts)):
        return Refusal(Reason.TRAVERSAL, path)
    return None
