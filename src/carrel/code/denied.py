"""What never leaves the code room: one list for reading, grep and indexing.

A name is compared as a careless file system or reader would see it: in compatibility form, without characters of no
width, in lower case, without dots and blanks at its end.
"""

import fnmatch
import glob
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

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
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Characters of no width beside those of the category Cf."""
_SUSPECT = re.compile(
    r"\.git|node_modules|\.carrel|carrel\.toml|\.env|\.pem|\.key|\.p12|\.pfx|\.jks|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.netrc|\.npmrc|\.pypirc|\.htpasswd|\\"
)
"""Part of every path that the list above could deny; one look at it spares nearly all paths a closer one."""
_SEPARATOR = re.compile(r"[/\\]")
_OF_A_VAULT = (".obsidian", "*.md", "*.canvas", "*.base")
"""What belongs to a vault rather than to the code that lies beside it."""


def normalised(name: str) -> str:
    """The name as it is compared."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(each for each in name if unicodedata.category(each) != "Cf")
        # Once more, for what the removed characters have held apart, and for what casefolding takes apart.
        name = unicodedata.normalize("NFKC", _UNSEEN.sub("", name).casefold())
    else:
        name = name.lower()
    while name and (name[-1] == "." or name[-1].isspace()):
        name = name[:-1]
    return name


class Denied:
    """Which names and paths nobody gets to see. `more`: globs for a name or, where they hold a `/`, for a path from the
    root. What lies below a denied folder is denied."""

    def __init__(self, more: Sequence[str] = ()) -> None:
        names: list[str] = []
        self._paths: list[list[re.Pattern[str] | None]] = []
        for pattern in more:
            kept = unicodedata.normalize("NFKC", pattern).casefold().removeprefix("./").rstrip("/")
            if "/" in kept:
                parts = kept.removeprefix("/").split("/")
                self._paths.append([None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts])
            elif kept:
                names.append(kept)
        fixed = f"(?:{'|'.join(map(_as_regex, _PATTERNS))})"
        # vim hides the swap file of a name that has no dot in front: .id_rsa.swp
        self._fixed = re.compile(rf"{fixed}{_BACKUP}|\.{fixed}\.swp", re.DOTALL)
        self._names = re.compile("|".join(map(fnmatch.translate, names))) if names else None

    def component(self, name: str) -> bool:
        """Whether a file or folder of this name is denied wherever it is."""
        kept = normalised(name)
        if os.name == "nt":
            kept = normalised(kept.partition(":")[0])  # a stream of a file is the file
        if _SEPARATOR.search(kept):
            return any(self._name(normalised(part)) for part in _SEPARATOR.split(kept))
        return self._name(kept)

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
        kept = [normalised(part) for part in parts]
        return any(_begins(kept, pattern) for pattern in self._paths)

    def _name(self, kept: str) -> bool:
        if self._fixed.fullmatch(kept) and kept not in _ALLOWED:
            return True
        return self._names is not None and self._names.fullmatch(kept) is not None


def vault_patterns(root: Path, vault: Path) -> Iterator[str]:
    """What `Denied` is given to deny a vault: its folder or, where the root itself is in it, what notes are made of."""
    real_root = os.path.realpath(root)
    # A vault that is a link is known by both of its names: an answer may depend on neither.
    for one, other in ((real_root, os.path.realpath(vault)), (os.path.abspath(root), os.path.abspath(vault))):
        if Path(one).is_relative_to(other):
            yield from _OF_A_VAULT
        elif Path(other).is_relative_to(one):
            parts = Path(other).relative_to(one).parts
            yield "/" + "/".join(glob.escape(normalised(part)) for part in parts)


def _as_regex(pattern: str) -> str:
    """A glob whose only wildcard is `*`, without the anchor at the end that `fnmatch` gives it."""
    return ".*".join(map(re.escape, pattern.split("*")))


def _begins(parts: Sequence[str], pattern: Sequence[re.Pattern[str] | None]) -> bool:
    """Whether the path or a folder that it is in fits the pattern, of which None stands for any number of folders."""
    if not pattern:
        return True
    if (first := pattern[0]) is not None:
        return bool(parts) and first.fullmatch(parts[0]) is not None and _begins(parts[1:], pattern[1:])
    if len(pattern) == 1:
        return bool(parts)
    return any(_begins(parts[start:], pattern[1:]) for start in range(len(parts)))
