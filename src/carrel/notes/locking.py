"""A lock between processes, held for as long as a file is open: it goes when its process does."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Wait until no other process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _wait(descriptor)
        yield
    finally:
        os.close(descriptor)


if os.name == "nt":  # pragma: no cover

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

    def _wait(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
