"""Access to files of the code base: the deny list, and `FileOpener`, through which every read goes.

An open checks, in this order: the path as text, the deny list, the real path beneath the root, and the deny list again
for the real path. Then each component is opened from its parent without following links, so that a link put in place
between check and use leads nowhere.
"""

import errno
import fnmatch
import glob
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from carrel.common import SURROGATE
from carrel.directory import MAX_PATH_LENGTH, Directory, LinkFound, NotRegular

_PATTERNS = (
    ".git",
    "node_modules",
    # our own settings and state: the vault's trash, the audit, the database
    ".carrel",
    "carrel.toml",
    # environments
    ".env",
    ".envrc",
    ".env.*",
    ".env-*",
    "*.env",
    # keys
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    # credentials of programs
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
)
_BACKUP = r"(?:~|\.bak|\.old|\.orig|\.save|\.swp)*"
"""What editors and people append to the name of a copy."""
_ALLOWED = frozenset({".env.example", ".env.sample", ".env.template"})
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Characters of no width beside those of the category Cf."""
_SUSPECT = re.compile(
    r"\.git|node_modules|\.carrel|carrel\.toml|\.env|\.pem|\.key|\.p12|\.pfx|\.jks|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.netrc|\.npmrc|\.pypirc|\.htpasswd|\\"
)
"""Part of every path that the list above could deny; one look at it spares nearly all paths a closer one."""
_SEPARATOR = re.compile(r"[/\\]")
_VAULT_PATTERNS = (".obsidian", "*.md", "*.canvas", "*.base")
"""What belongs to a vault rather than to the code that lies beside it."""


def normalized(name: str) -> str:
    """The name as it is compared."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(each for each in name if unicodedata.category(each) != "Cf")
        # Once more, for what the removed characters have held apart, and for what casefolding takes apart.
        name = unicodedata.normalize("NFKC", _INVISIBLE.sub("", name).casefold())
    else:
        name = name.lower()
    while name and (name[-1] == "." or name[-1].isspace()):
        name = name[:-1]
    return name


class DenyList:
    """The names and paths that nobody may see, and everything below them.

    `more` holds globs for names or, where they contain a `/`, for paths from the root.
    """

    def __init__(self, more: Sequence[str] = ()) -> None:
        names: list[str] = []
        self._paths: list[list[re.Pattern[str] | None]] = []
        for pattern in more:
            name_to_match = unicodedata.normalize("NFKC", pattern).casefold().removeprefix("./").rstrip("/")
            if "/" in name_to_match:
                parts = name_to_match.removeprefix("/").split("/")
                self._paths.append([None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts])
            elif name_to_match:
                names.append(name_to_match)
        fixed = f"(?:{'|'.join(map(_as_regex, _PATTERNS))})"
        # vim hides the swap file of a name that has no dot in front: .id_rsa.swp
        self._fixed = re.compile(rf"{fixed}{_BACKUP}|\.{fixed}\.swp", re.DOTALL)
        self._names = re.compile("|".join(map(fnmatch.translate, names))) if names else None

    def component(self, name: str) -> bool:
        """Whether a file or folder of this name is denied wherever it is."""
        name_to_match = normalized(name)
        if os.name == "nt":
            name_to_match = normalized(name_to_match.partition(":")[0])  # a stream of a file is the file
        if _SEPARATOR.search(name_to_match):
            return any(self._name(normalized(part)) for part in _SEPARATOR.split(name_to_match))
        return self._name(name_to_match)

    def path(self, relative: str) -> bool:
        """Whether a path from the root, with `/`, is denied: itself, or a folder that it is in."""
        is_plain = self._names is None and not self._paths and relative.isascii()
        if is_plain and not _SUSPECT.search(relative.lower()):
            return False
        parts = [part for part in relative.split("/") if part not in ("", ".")]
        if any(map(self.component, parts)):
            return True
        if not self._paths:
            return False
        name_to_match = [normalized(part) for part in parts]
        return any(_matches_prefix(name_to_match, pattern) for pattern in self._paths)

    def _name(self, name_to_match: str) -> bool:
        if self._fixed.fullmatch(name_to_match) and name_to_match not in _ALLOWED:
            return True
        return self._names is not None and self._names.fullmatch(name_to_match) is not None


def vault_patterns(root: Path, vault: Path) -> Iterator[str]:
    """Yield the patterns that make a `DenyList` hide a vault.

    They name the vault's folder or, where the code's root lies inside the vault, the kinds of files that notes are.
    """
    real_root = os.path.realpath(root)
    # A vault that is a link is known by both of its names: an answer may depend on neither.
    for one, other in ((real_root, os.path.realpath(vault)), (os.path.abspath(root), os.path.abspath(vault))):
        if Path(one).is_relative_to(other):
            yield from _VAULT_PATTERNS
        elif Path(other).is_relative_to(one):
            parts = Path(other).relative_to(one).parts
            yield "/" + "/".join(glob.escape(normalized(part)) for part in parts)


def _as_regex(pattern: str) -> str:
    """A glob whose only wildcard is `*`, without the anchor at the end that `fnmatch` gives it."""
    return ".*".join(map(re.escape, pattern.split("*")))


def _matches_prefix(parts: Sequence[str], pattern: Sequence[re.Pattern[str] | None]) -> bool:
    """Whether the path or a folder that it is in fits the pattern, of which None stands for any number of folders."""
    if not pattern:
        return True
    if (first := pattern[0]) is not None:
        return bool(parts) and first.fullmatch(parts[0]) is not None and _matches_prefix(parts[1:], pattern[1:])
    if len(pattern) == 1:
        return bool(parts)
    return any(_matches_prefix(parts[start:], pattern[1:]) for start in range(len(parts)))


MAX_FILE_BYTES = 1024 * 1024
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
_REASON_BY_ERRNO = {
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
class OpenedFile:
    content: bytes
    stat: os.stat_result
    path: str
    """From the root, with `/`, as it was asked for, without `.` and empty components."""
    real: str
    """From the root, with every link followed."""


class FileOpener:
    """Opens the files of a root that are not denied."""

    def __init__(self, root: Path, denied: DenyList, limit: int = MAX_FILE_BYTES) -> None:
        self._directory = Directory(root)
        self.root = self._directory.path
        self.denied = denied
        self.limit = limit

    def open(self, path: str) -> OpenedFile | Refusal:
        """The whole content of a file, or why not; the first of the ruled reasons that holds."""
        if error := screen_path(path):
            return error
        # To follow a path, or to compare its names, takes a time that is quadratic in its length.
        within = path if len(path) <= MAX_PATH_LENGTH else path[:MAX_PATH_LENGTH].rpartition("/")[0]
        relative = "/".join(part for part in within.split("/") if part not in ("", "."))
        if self.denied.path(relative):
            return Refusal(Reason.DENIED, path)
        if within != path:
            return Refusal(Reason.NOT_FOUND, path)
        try:
            real = self._resolve(relative)
            if real is None or self.denied.path(real):
                return Refusal(Reason.DENIED, path)
            return self._read(path, relative, real)
        except OSError as error:
            if (reason := _REASON_BY_ERRNO.get(error.errno or 0)) is None:
                raise
            return Refusal(reason, path)

    def _resolve(self, relative: str) -> str | None:
        """Where the path leads, from the root; None if out of it. What is not there is followed as far as it goes."""
        whole = os.path.join(self.root, relative) if relative else self.root
        try:
            target = os.path.realpath(whole, strict=True)
        except FileNotFoundError:
            target = os.path.realpath(whole)
        if target == self.root:
            return ""
        beneath = self.root.rstrip(os.sep) + os.sep
        return target[len(beneath) :].replace(os.sep, "/") if target.startswith(beneath) else None

    def _read(self, path: str, relative: str, real: str) -> OpenedFile | Refusal:
        if not real:
            return Refusal(Reason.NOT_A_FILE, path)
        try:
            descriptor = self._directory.open(real)
        except LinkFound:
            return Refusal(Reason.DENIED, path)  # it was none a moment ago
        except NotRegular:
            return Refusal(Reason.NOT_A_FILE, path)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Refusal(Reason.NOT_A_FILE, path)
            if status.st_size > self.limit:
                return Refusal(Reason.TOO_LARGE, path, size=status.st_size)
            content = bytearray()
            while len(content) <= self.limit and (piece := file.read(self.limit + 1 - len(content))):
                content += piece
        if len(content) > self.limit:  # it has grown meanwhile
            return Refusal(Reason.TOO_LARGE, path, size=len(content))
        return OpenedFile(bytes(content), status, relative, real)


def screen_path(path: str) -> Refusal | None:
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
