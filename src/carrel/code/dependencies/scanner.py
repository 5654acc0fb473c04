"""Scanning a text for imports: small texts in this process, large ones in a process that can be stopped.

`python -m carrel.code.dependencies.scanner LANGUAGE` is that process.
"""

import hashlib
import json
import sys
import threading
from collections import OrderedDict
from contextlib import suppress

from carrel.code.dependencies import cfamily, ecmascript, golang, java, php, python, ruby, rust
from carrel.code.dependencies.lexer import Flaw, Import, Scan
from carrel.code.dependencies.root_files import Job, OutOfTime

_SCANNERS = {
    "c": cfamily.scan,
    "cpp": cfamily.scan,
    "cuda": cfamily.scan,
    "go": golang.scan,
    "java": java.scan,
    "javascript": ecmascript.scan,
    "objective-c": cfamily.scan,
    "objective-cpp": cfamily.scan,
    "php": php.scan,
    "python": python.scan,
    "ruby": ruby.scan,
    "rust": rust.scan,
    "typescript": ecmascript.scan,
}
_COMPONENTS = frozenset(["astro", "svelte", "vue"])
LANGUAGES = frozenset([*_SCANNERS, *_COMPONENTS])

_SMALL = 64 * 1024
"""Characters of a text that is scanned here: a scanner reads it once."""
_SMALL_PYTHON = 40_000
"""The same for Python, whose parser holds up all other threads: for 60 ms at the most with so many."""
_SECONDS = 2.0
_KEPT = 512
_PROCESSES = threading.BoundedSemaphore(2)


def scan(language: str, text: str) -> Scan:
    """What a text imports."""
    if language in _COMPONENTS:
        return ecmascript.scan(text, language)
    scanner = _SCANNERS.get(language)
    return scanner(text) if scanner else Scan()


class Scanner:
    """Scans texts within a time, and keeps what it found by their content."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[tuple[str, bytes], Scan] = OrderedDict()
        self._lock = threading.Lock()

    def scan(self, language: str, text: str, job: Job | None = None) -> Scan:
        if language not in LANGUAGES:
            return Scan()
        key = language, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if len(text) <= (_SMALL_PYTHON if language == "python" else _SMALL):
            found = scan(language, text)
        else:
            found = self._apart(language, text, job or Job())
            if isinstance(found, Flaw):
                return Scan(flaws=(found,))  # another time it may be different
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _apart(self, language: str, text: str, job: Job) -> Scan | Flaw:
        """In a process of its own, which ends with its answer or is ended."""
        command = [sys.executable, "-P", "-m", "carrel.code.dependencies.scanner", language]
        with _PROCESSES:
            try:
                printed = job.run(command, text.encode(), self._seconds)
            except OutOfTime:
                return Flaw(1, f"Imports were not read within {self._seconds:g} seconds")
        return Flaw(1, "Imports could not be read") if printed is None else loaded(printed)


def dumped(found: Scan) -> bytes:
    return json.dumps(found).encode()


def loaded(data: bytes) -> Scan:
    imports, flaws, error_line = json.loads(data)
    return Scan(tuple(Import(*each) for each in imports), tuple(Flaw(*each) for each in flaws), error_line)


_CPU_SECONDS = 5
_BYTES = 2 * 1024**3


def main() -> None:
    _limit()
    text = sys.stdin.buffer.read().decode()
    sys.stdout.buffer.write(dumped(scan(sys.argv[1], text)))


def _limit() -> None:
    """An end also where nobody is left to put one."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, limit in ((resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_AS, _BYTES)):
        with suppress(OSError, ValueError):  # macOS knows the second by name only
            resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    main()
