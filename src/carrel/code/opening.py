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
from carrel.common import SURROGATE
from carrel.directory import MAX_PATH, Directory, LinkFound, NotRegular

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
_TRAVERSAL = re.compile(r"(?:^|[/\\])\.\.{}(?:[/\\]|\Z)".format("[. ]*" if os.name == "nt" else ""))
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
        self._directory = Directory(root)
        self.root = self._directory.path
        self.denied = denied
        self.limit = limit

    def open(self, path: str) -> Opened | Refusal:
        """The whole content of a file, or why not; the first of the ruled reasons that holds."""
        if error := screened(path):
            return error
        # To follow a path, or to compare its names, takes a time that is quadratic in its length.
        within = path if len(path) <= MAX_PATH else path[:MAX_PATH].rpartition("/")[0]
        relative = "/".join(part for part in within.split("/") if part not in ("", "."))
        if self.denied.path(relative):
            return Refusal(Reason.DENIED, path)
        if within != path:
            return Refusal(Reason.NOT_FOUND, path)
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
        try:
            descriptor = self._directory.open(real)
        except LinkFound:
            return Refusal(Reason.DENIED, path)  # it was none a moment ago
        except NotRegular:
            return Refusal(Reason.NOT_A_FILE, path)
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


def screened(path: str) -> Refusal | None:
    """What the path alone says, before anything is looked up."""
    if not path:
        return Refusal(Reason.INVALID, path, "must not be empty")
    if "\0" in path:
        return Refusal(Reason.INVALID, path, "must not contain NUL")
    if SURROGATE.search(path):
        return Refusal(Reason.INVALID, path, "must be Unicode text")
    if _ABSOLUTE.match(path):
        return Refusal(Reason.ABSOLUTE, path)
    if _TRAVERSAL.search(path):
        return Refusal(Reason.TRAVERSAL, path)
    return None
