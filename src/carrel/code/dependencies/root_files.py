"""The files of the root as a resolver sees them during one call, and the time limit of that call."""

import os
import posixpath
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from carrel.code.file_access import FileOpener, OpenedFile
from carrel.code.text_decoder import DecodedText, decode_text

RESOLVE_TIMEOUT_SECONDS = 2.0


class DeadlineExceeded(Exception):
    """The time is up, or nobody waits any more."""


class ScanJob:
    """Used by the thread that works; `stop` may be called from any."""

    def __init__(self, seconds: float = RESOLVE_TIMEOUT_SECONDS) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        """From the first check on: the time that is waited for a thread, or that a process takes, does not count."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def check(self) -> None:
        """To be called by whatever a hostile text could repeat."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds
        if self._is_stopped or time.monotonic() > self._deadline:
            raise DeadlineExceeded

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                self._process.kill()

    def run(self, command: Sequence[str], given: bytes, seconds: float) -> bytes | None:
        """What a process prints; None where it fails. Past its time it is killed, and `DeadlineExceeded` raised."""
        with self._lock:
            if self._is_stopped:
                raise DeadlineExceeded
            self._process = process = subprocess.Popen(  # noqa: S603 - our own module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        with process:
            try:
                printed, _ = process.communicate(given, timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise DeadlineExceeded from error
            finally:
                process.kill()
        if self._is_stopped:
            raise DeadlineExceeded
        return None if process.returncode else printed


_MAX_SETTINGS_BYTES = 256 * 1024
"""Bytes of settings that are read."""
_MAX_DEPTH = 200
"""Folders within folders that anybody has."""


def joined(folder: str, relative: str) -> str | None:
    """A path from the root, or None if it leaves it."""
    path = posixpath.normpath(posixpath.join(folder, relative)) if folder or relative else "."
    if path == ".":
        return ""
    return None if path.startswith(("../", "/")) or path == ".." else path


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def folders_up(path: str) -> Iterable[str]:
    """The folders that a file is in, the nearest first; the root, "", is the last."""
    folder = folder_of(path)
    while folder:
        yield folder
        folder = folder_of(folder)
    yield ""


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """None for what is neither a folder nor a file."""
    try:
        return True if entry.is_dir() else False if entry.is_file() else None
    except OSError:  # a link that leads to itself
        return None


class RootFiles:
    """A cache of the root's folders and settings files during one call, without what the deny list names.

    Each lookup checks the job's deadline and raises `DeadlineExceeded` after it.
    """

    def __init__(self, opener: FileOpener, source_roots: Iterable[str] = (), job: ScanJob | None = None) -> None:
        self._opener = opener
        self._check = (job or ScanJob()).check
        self.source_roots = tuple(each for root in source_roots if (each := joined("", root)) is not None)
        self._folders: dict[str, dict[str, bool]] = {}
        self._texts: dict[str, str | None] = {}
        self._parsed: dict[tuple[str, str], Any] = {}

    def names(self, folder: str) -> dict[str, bool]:
        """What is in a folder: names, in order, and whether they are folders. Nothing where there is no folder."""
        self._check()
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._listed(folder)
        return known

    def _listed(self, folder: str) -> dict[str, bool]:
        if folder.count("/") >= _MAX_DEPTH or (
            folder and (self._opener.denied.path(folder) or not self.is_folder(folder))
        ):
            return {}
        try:
            with os.scandir(os.path.join(self._opener.root, folder)) as entries:
                found = [(entry.name, is_folder) for entry in entries if (is_folder := _is_folder(entry)) is not None]
        except OSError:
            return {}
        return dict(sorted(found))

    def is_file(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return self.names(folder).get(name) is False

    def is_folder(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return not path or self.names(folder).get(name) is True

    def first(self, paths: Iterable[str | None]) -> str | None:
        """The first that is a file."""
        return next((path for path in paths if path and self.is_file(path)), None)

    def text(self, path: str) -> str | None:
        """Of a file that tells about others, such as tsconfig.json."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if self.is_file(path) else None
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        opened = self._opener.open(path)
        if not isinstance(opened, OpenedFile) or len(opened.content) > _MAX_SETTINGS_BYTES:
            return None
        text = decode_text(opened.content)
        return text.text if isinstance(text, DecodedText) else None

    def parsed(self, path: str, parse: Callable[[str], Any]) -> Any:
        """What a file of settings holds, parsed once; None without it."""
        self._check()
        key = path, parse.__name__
        if key not in self._parsed:
            text = self.text(path)
            self._parsed[key] = None if text is None else parse(text)
        return self._parsed[key]
