"""What changes in a vault while it is served."""

import logging
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from carrel.notes.vault import Vault

log = logging.getLogger("carrel.notes")

STEP_MS = 100
"""A change is told when for so long no other followed it,"""
LONGEST_MS = 400
"""and at the latest after this."""
BURST = 500
"""The system forgets changes when there are too many: after so many at once, the whole vault is looked through."""
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

    def wait_until_begun(self) -> None:
        """Whatever changes from now on will be told."""
        self._has_begun.wait()

    def stop(self) -> None:
        self._stopping.set()

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
        from watchfiles._rust_notify import RustNotify

        with RustNotify([root], False, False, 0, True, True) as events:
            self._has_begun.set()
            while True:
                batch = events.watch(LONGEST_MS, STEP_MS, 0, self._stopping)
                if not isinstance(batch, set):
                    return
                self._tell(_changes(self._vault, [path for _, path in batch]))

    def _poll(self) -> None:
        self._has_begun.set()
        while not self._stopping.wait(POLL_SECONDS):
            self._tell(Changes(set(), {""}))


def _changes(vault: Vault, paths: list[str]) -> Changes:
    changes = Changes(set(), set())
    for path in paths:
        if (note_id := vault.id_of(path)) is not None:
            changes.notes.add(note_id)
        elif (folder := vault.folder_at(path)) is not None:
            changes.folders.add(folder)
    if len(paths) >= BURST:
        changes.folders.add("")
    return changes


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
