"""What ends the processes that we started when we are gone, even when we were killed.

On POSIX they are all in the process group of one shell, which waits for the end of its input and then kills the group.
The other end of that pipe is ours alone. The shell is started once, not for every search: that takes as long as `rg`
takes to start.
"""

import atexit
import os
import subprocess
import threading

_SHELL = "/bin/sh"
_WAIT = "read nothing; kill -9 0"


class Guard:
    """Used by all searches of this process, on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None

    def group(self) -> int | None:
        """The process group to start in; None where there is no shell."""
        with self._lock:
            if self._shell is not None and self._shell.poll() is not None:  # somebody has ended it
                self._forget()
            if self._shell is None and os.path.exists(_SHELL):
                self._shell = subprocess.Popen(  # noqa: S603 - a constant
                    [_SHELL, "-c", _WAIT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    process_group=0,
                )
                atexit.register(self.close)
            return None if self._shell is None else self._shell.pid

    def close(self) -> None:
        """End the shell, and what is still in its group. The next search would start another."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            atexit.unregister(self.close)
            self._shell.stdin.close()
            self._shell.wait()
            self._shell = None


guard = Guard()
