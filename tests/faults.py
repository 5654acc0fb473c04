"""Real faults: disks that are full, files that are damaged, and a network that fails in the middle of an answer."""

import os
import resource
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

BLOCK = 64 * 1024


def can_mount() -> bool:
    """Whether this process may mount a file system, as root may outside of a strict container."""
    return (
        os.geteuid() == 0
        and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    )


@contextmanager
def small_disk(folder: Path, *, megabytes: int, owner: str = "") -> Generator[Path]:
    """A file system of its own at a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    more = f",uid={owner},mode=700" if owner else ""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m{more}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte free; the file that takes them."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(BLOCK))
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x")
    return filler


@contextmanager
def no_file_may_grow(*pids: int, beyond: int) -> Generator[None]:
    """For these processes a disk without room, which needs no right to make: the system refuses longer files."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
    try:
        for pid, (_, most) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (beyond, most))
        yield
    finally:
        for pid, limits in before.items():
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def damage(path: Path, place: float, size: float) -> None:
    """Write nonsense into a file, behind everybody's back; a place or a size below 1 is a part of the whole."""
    whole = path.stat().st_size
    place, size = (int(each * whole if each < 1 else each) for each in (place, size))
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xa5" * size)


class Proxy:
    """Stands between a client and a server, and fails as networks do."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_silent = False
        """Whether nothing comes through any more, either way, though nothing is closed."""
        self.cuts = 0
        self._words = b""
        self._bytes = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, after: bytes, through: int) -> None:
        """Cut the next connection over which these words are sent, once so many bytes have been answered to them."""
        self._words, self._bytes = after, through

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                self._sockets += [client, server]
                left: list[int] = []
                for source, sink, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, sink, left, is_answer), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, left: list[int], is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(BLOCK):
                if self.is_silent:
                    continue
                if not is_answer and self._words and self._words in data:
                    self._words = b""
                    left.append(self._bytes)
                if is_answer and left:
                    sink.sendall(data[: left[0]])
                    left[0] -= len(data)
                    if left[0] < 0:
                        self.cuts += 1
                        break
                else:
                    sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()
