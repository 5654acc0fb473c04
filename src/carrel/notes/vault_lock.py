"""The locks of writers: one for the workspace, whose journal they share, and one that belongs to the vault.

Locks are always taken in this order, and released in the reverse one:

1. `Writer`'s own, between the calls of one server;
2. the workspace's lock file, between the processes of one workspace;
3. the vault, between all processes that write in it, whatever workspace or user they belong to;
4. `Index.write_lock`, between those who change the graph of one server.

The vault's lock is on its folder itself, so that it leaves no file among the notes and needs no permission to write.
Locks go when the process that holds them does.
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
    """Wait until no other process writes in the vault. Raises `VaultError`."""
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
