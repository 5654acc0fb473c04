"""Watching a vault for changes by other programs.

Linux uses inotify directly (`carrel.notes.inotify`), macOS and Windows use watchfiles. Where a file system reports
nothing, as network shares do, the vault is compared every `POLL_INTERVAL_SECONDS`. After a burst, or where a folder
came or went, the report names the folder to compare instead of the notes, since systems drop events.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from carrel.notes.vault import Vault

if TYPE_CHECKING:
    from carrel.notes.inotify import Inotify

log = logging.getLogger("carrel.notes")

QUIET_SECONDS = 0.05
"""A change is reported when no other has followed it for so long,"""
MAX_DELAY_SECONDS = 0.4
"""and at the latest after this."""
STEP_MS = 200
"""How often watchfiles looks for a change, which it reports at the second look that sees it."""
BURST_SIZE = 500
"""Events from which on the whole vault is compared, because systems drop events when there are too many."""
POLL_INTERVAL_SECONDS = 0.5
_SILENT_FILE_SYSTEMS = (
    "9p",
    "afs",
    "cifs",
    "drvfs",
    "fuse",
    "lustre",
    "nfs",
    "prl_fs",
    "smb",
    "vboxsf",
    "vmhgfs",
)
"""File systems that do not report changes by other machines."""


class Changes(NamedTuple):
    """Notes and folders to look at again."""

    notes: set[str]
    """Ids of notes that were written, or are gone."""
    folders: set[str]
    """Folders with a slash at their end in which anything may have changed; the empty one is the whole vault."""


class Watcher(threading.Thread):
    """A thread that reports changes until it is stopped."""

    def __init__(self, vault: Vault, report: Callable[[Changes], None]) -> None:
        super().__init__(name="carrel-watcher", daemon=True)
        self._vault = vault
        self._report = report
        self._is_watching = threading.Event()
        self._stopping = threading.Event()
        self._inotify_lock = threading.Lock()
        self._inotify: Inotify | None = None

    def wait_until_watching(self) -> None:
        """Block until changes are being recorded."""
        self._is_watching.wait()

    def stop(self) -> None:
        """Ask the thread to end, and wake it."""
        self._stopping.set()
        with self._inotify_lock:
            if self._inotify:
                self._inotify.wake()

    def run(self) -> None:
        """Watch until stopped; fall back to polling where the system has no watches left."""
        root = str(self._vault.folder)
        try:
            if needs_polling(root):
                self._poll()
            else:
                self._watch(root)
        except (OSError, RuntimeError) as error:  # no more watches to be had, most often
            log.warning("the system cannot tell what changes in the vault (%s); looking every half second", error)
            self._poll()

    def _watch(self, root: str) -> None:
        if sys.platform == "linux":
            self._read_inotify(root)
        else:
            self._read_watchfiles(root)

    def _read_inotify(self, root: str) -> None:
        from carrel.notes.inotify import Inotify

        with Inotify(root, self._vault.is_excluded) as events:
            with self._inotify_lock:
                self._inotify = events
            try:
                self._is_watching.set()
                while not self._stopping.is_set() and events.wait():
                    self._report_paths(self._read_burst(events))
            finally:
                with self._inotify_lock:
                    self._inotify = None

    def _read_burst(self, events: "Inotify") -> set[str]:
        """Collect events until none has come for `QUIET_SECONDS`, for at most `MAX_DELAY_SECONDS`."""
        found, end = events.read(), time.monotonic() + MAX_DELAY_SECONDS
        while (left := end - time.monotonic()) > 0 and events.wait(min(QUIET_SECONDS, left)):
            found |= events.read()
        return found

    def _read_watchfiles(self, root: str) -> None:
        import watchfiles

        batches = watchfiles.watch(
            root,
            watch_filter=None,
            debounce=int(MAX_DELAY_SECONDS * 1000),
            step=STEP_MS,
            rust_timeout=STEP_MS,
            yield_on_timeout=True,  # the first yield shows that the watch is there
            stop_event=self._stopping,
            raise_interrupt=False,
            force_polling=False,
            ignore_permission_denied=True,
        )
        for batch in batches:
            self._is_watching.set()
            paths = {path for _, path in batch}
            self._report_paths(paths | {root} if len(paths) >= BURST_SIZE else paths)
        self._is_watching.set()

    def _report_paths(self, paths: Iterable[str]) -> None:
        changes = Changes(set(), set())
        for path in paths:
            if (note_id := self._vault.id_of(path)) is not None:
                changes.notes.add(note_id)
            elif (folder := self._vault.folder_of_path(path)) is not None:
                changes.folders.add(folder)
        if any(changes):
            self._report(changes)

    def _poll(self) -> None:
        self._is_watching.set()
        while not self._stopping.wait(POLL_INTERVAL_SECONDS):
            self._report(Changes(set(), {""}))


def needs_polling(folder: str) -> bool:
    """Whether a folder is on a file system that does not report changes by other machines."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as lines:
            mounts = [line.split() for line in lines]
    except OSError:
        return False
    best, kind = "", ""
    for fields in mounts:
        place = fields[4].encode().decode("unicode_escape")
        is_above = folder == place or folder.startswith(place.rstrip("/") + "/")
        if is_above and len(place) >= len(best):
            best, kind = place, fields[fields.index("-") + 1]
    return kind.startswith(_SILENT_FILE_SYSTEMS) and os.name == "posix"
