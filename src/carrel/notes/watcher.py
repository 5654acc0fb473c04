"""What changes in a vault while it is served."""

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

QUIET = 0.05
"""Seconds. A change is told when for so long no other followed it,"""
LONGEST = 0.4
"""and at the latest after this."""
STEP_MS = 200
"""How often watchfiles looks for a change, which it reports at the second look that sees it."""
BURST = 500
"""Most systems forget changes when there are too many: after so many at once, the whole vault is looked through."""
POLL_SECONDS = 0.5
_NO_EVENTS = ("9p", "afs", "cifs", "drvfs", "fuse", "lustre", "nfs", "prl_fs", "smb", "vboxsf", "vmhgfs")
"""File systems that do not tell what others change."""


class Changes(NamedTuple):
    notes: set[str]
    """Ids of notes that were written, or are gone."""
    folders: set[str]
    """Folders with a slash at their end in which anything may have changed; the empty one is the whole vault."""


class Watcher(threading.Thread):
    """Tells changes, from its own thread, until it is stopped."""

    def __init__(self, vault: Vault, tell: Callable[[Changes], None]) -> None:
        super().__init__(name="carrel-watcher", daemon=True)
        self._vault = vault
        self._tell = tell
        self._has_begun = threading.Event()
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._waiting: Inotify | None = None

    def wait_until_begun(self) -> None:
        """Whatever changes from now on will be told."""
        self._has_begun.wait()

    def stop(self) -> None:
        self._stopping.set()
        with self._turn:
            if self._waiting:
                self._waiting.wake()

    def run(self) -> None:
        root = str(self._vault.folder)
        try:
            if needs_polling(root):
                self._poll()
            else:
                self._follow(root)
        except (OSError, RuntimeError) as error:  # no more watches to be had, most often
            log.warning("the system cannot tell what changes in the vault (%s); looking every half second", error)
            self._poll()

    def _follow(self, root: str) -> None:
        if sys.platform == "linux":
            self._wait_for_changes(root)
        else:
            self._look_for_changes(root)

    def _wait_for_changes(self, root: str) -> None:
        from carrel.notes.inotify import Inotify

        with Inotify(root, self._vault.leaves_out) as events:
            with self._turn:
                self._waiting = events
            try:
                self._has_begun.set()
                while not self._stopping.is_set() and events.wait():
                    self._tell_of(self._gathered(events))
            finally:
                with self._turn:
                    self._waiting = None

    def _gathered(self, events: "Inotify") -> set[str]:
        """What there is, and what follows it soon."""
        found, end = events.read(), time.monotonic() + LONGEST
        while (left := end - time.monotonic()) > 0 and events.wait(min(QUIET, left)):
            found |= events.read()
        return found

    def _look_for_changes(self, root: str) -> None:
        import watchfiles

        batches = watchfiles.watch(
            root,
            watch_filter=None,
            debounce=int(LONGEST * 1000),
            step=STEP_MS,
            rust_timeout=STEP_MS,
            yield_on_timeout=True,  # the first yield shows that the watch is there
            stop_event=self._stopping,
            raise_interrupt=False,
            force_polling=False,
            ignore_permission_denied=True,
        )
        for batch in batches:
            self._has_begun.set()
            paths = {path for _, path in batch}
            self._tell_of(paths | {root} if len(paths) >= BURST else paths)
        self._has_begun.set()

    def _tell_of(self, paths: Iterable[str]) -> None:
        changes = Changes(set(), set())
        for path in paths:
            if (note_id := self._vault.id_of(path)) is not None:
                changes.notes.add(note_id)
            elif (folder := self._vault.folder_at(path)) is not None:
                changes.folders.add(folder)
        if any(changes):
            self._tell(changes)

    def _poll(self) -> None:
        self._has_begun.set()
        while not self._stopping.wait(POLL_SECONDS):
            self._tell(Changes(set(), {""}))


def needs_polling(folder: str) -> bool:
    """Whether a folder is on a file system that others can change unseen."""
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
    return kind.startswith(_NO_EVENTS) and os.name == "posix"
