"""Which module a file belongs to: the first folder below the source root that it is in.

Source roots come from the settings; without any, it is the deepest folder that all sources of a project share. Sources
are files of a programming language that are neither tests nor scripts, settings, documentation or generated. A file
directly in a source root, or outside of all, has no module.
"""

import os
import threading
import time
from collections.abc import Sequence

from carrel.code.denied import Denied
from carrel.code.languages import SOURCES, language_of
from carrel.code.roles import role_of

_FRESH_SECONDS = 5.0
_MOST_ENTRIES = 20_000
_SKIPPED = frozenset(["build", "coverage", "dist", "env", "out", "target", "vendor", "venv", "__pycache__"])
"""Folders of what was made or brought, besides hidden ones."""


class Modules:
    def __init__(self, root: str, denied: Denied, source_roots: Sequence[str] = ()) -> None:
        self._root = root
        self._denied = denied
        kept = ("/".join(part for part in each.split("/") if part not in ("", ".")) for each in source_roots)
        self._given = sorted(kept, key=len, reverse=True)
        self._lock = threading.Lock()
        self._shared: str | None = None
        self._looked: float | None = None

    def module_of(self, path: str) -> str | None:
        for root in self._given or [self._shared_folder()]:
            if root is not None and (not root or path.startswith(f"{root}/")):
                below = path[len(root) + 1 if root else 0 :]
                folder, slash, _ = below.partition("/")
                return folder if slash else None
        return None

    def _shared_folder(self) -> str | None:
        """Looked up again after a few seconds; None where there are no sources."""
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked > _FRESH_SECONDS:
                self._shared = shared_folder(self._root, self._denied)
                self._looked = time.monotonic()
            return self._shared


def shared_folder(root: str, denied: Denied, most: int = _MOST_ENTRIES) -> str | None:
    """The deepest folder that all sources share, from a walk of at most so many entries.

    What lies in the folder that the sources found so far share cannot change it, and is not walked.
    """
    shared: str | None = None
    waiting = [""]
    while waiting and shared != "":
        folder = waiting.pop()
        if shared is not None and (folder == shared or folder.startswith(f"{shared}/")):
            continue
        folders: list[str] = []
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    most -= 1
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if not _is_skipped(entry.name, denied):
                            folders.append(path)
                    elif _is_source(path) and not denied.path(path):
                        shared = folder if shared is None else _common(shared, folder)
        except OSError:
            continue
        if most < 0:
            return shared
        waiting.extend(sorted(folders, reverse=True))
    return shared


def _is_skipped(name: str, denied: Denied) -> bool:
    return name.startswith(".") or name in _SKIPPED or denied.component(name)


def _is_source(path: str) -> bool:
    return language_of(path) in SOURCES and role_of(path) == "core"


def _common(one: str, other: str) -> str:
    same: list[str] = []
    for left, right in zip(one.split("/"), other.split("/"), strict=False):
        if left != right:
            break
        same.append(left)
    return "/".join(same)
