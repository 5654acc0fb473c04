"""The locks of writers, and the one order in which locks are taken.

Whoever takes several takes them in this order, and releases them in the reverse one:

1. `Writer._lock` (asyncio): between the calls of one server.
2. The workspace's lock file (`flock`): between the processes of one workspace, which share a journal.
3. The vault's folder (`flock`): between all processes that write in the vault, of any workspace and user.
4. `Index.write_lock` (asyncio): between tasks of one server that change the graph.

1 comes before 2 and 3, since `flock` would block the writer's thread while another call of the same server holds it. 4
is last, because the index takes it alone, without any of the others, when the watcher reports changes: a task that held
it while waiting for another process's lock would stop the index for as long.

The vault's lock is on its folder itself: it leaves no file among the notes and needs no permission to write. The
operating system releases both `flock`s when the process that holds them dies.
"""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from carrel.notes.vault import Vault, write_error

log = logging.getLogger("carrel.notes")

FILE = "lock"


@contextmanager
def locked(vault: Vault, own_folder: Path) -> Generator[None]:
    """Hold the locks of the workspace and of the vault, waiting for other processes. Raises `VaultError`."""
    try:
        descriptors = [os.open(own_folder / "notes" / FILE, os.O_RDWR | os.O_CREAT, 0o666)]
    except OSError as error:
        raise write_error("the lock of the notes", error) from error
    try:
        _wait(descriptors[0])
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # away: nothing can be written there
            descriptors.append(_open_vault(vault))
            _wait(descriptors[1])
        yield
    finally:
        # Closing a descriptor releases its lock.
        for descriptor in reversed(descriptors):
            os.close(descriptor)


if os.name == "nt":  # pragma: no cover

    def _open_vault(vault: Vault) -> int:
        """A folder cannot be locked on Windows; a hidden file in it can."""
        return os.open(vault.folder / ".carrel-lock", os.O_RDWR | os.O_CREAT, 0o666)

    def _wait(descriptor: int) -> None:
        import msvcrt
        import time

        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
                return
            except OSError:
                time.sleep(0.01)

else:

    def _open_vault(vault: Vault) -> int:
        return os.open(vault.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def _wait(descriptor: int) -> None:
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems have no locks, or none for folders
            log.debug("the file system has no locks (%s)", error.strerror)
