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
from carrel.code.dependencies.lexer import Import, ScanResult, ScanWarning
from carrel.code.dependencies.root_files import DeadlineExceeded, ScanJob

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

_MAX_INLINE_CHARACTERS = 64 * 1024
"""Characters of a text that is scanned here: a scanner reads it once."""
_MAX_INLINE_PYTHON_CHARACTERS = 40_000
"""The same for Python, whose parser holds up all other threads: for 60 ms at the most with so many."""
_PROCESS_TIMEOUT_SECONDS = 2.0
_CACHE_SIZE = 512
_PROCESSES = threading.BoundedSemaphore(2)


def scan(language: str, text: str) -> ScanResult:
    """What a text imports."""
    if language in _COMPONENTS:
        return ecmascript.scan(text, language)
    scanner = _SCANNERS.get(language)
    return scanner(text) if scanner else ScanResult()


class Scanner:
    """Scans texts within a time, and keeps what it found by their content."""

    def __init__(self, seconds: float = _PROCESS_TIMEOUT_SECONDS) -> None:
        self._seconds = seconds
        self._cache: OrderedDict[tuple[str, bytes], ScanResult] = OrderedDict()
        self._lock = threading.Lock()

    def scan(self, language: str, text: str, job: ScanJob | None = None) -> ScanResult:
        if language not in LANGUAGES:
            return ScanResult()
        key = language, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        if len(text) <= (_MAX_INLINE_PYTHON_CHARACTERS if language == "python" else _MAX_INLINE_CHARACTERS):
            found = scan(language, text)
        else:
            found = self._scan_in_process(language, text, job or ScanJob())
            if isinstance(found, ScanWarning):
                return ScanResult(warnings=(found,))  # another time it may be different
        with self._lock:
            self._cache[key] = found
            if len(self._cache) > _CACHE_SIZE:
                self._cache.popitem(last=False)
        return found

    def _scan_in_process(self, language: str, text: str, job: ScanJob) -> ScanResult | ScanWarning:
        """In a process of its own, which ends with its answer or is ended."""
        command = [sys.executable, "-P", "-m", "carrel.code.dependencies.scanner", language]
        with _PROCESSES:
            try:
                printed = job.run(command, text.encode(), self._seconds)
            except DeadlineExceeded:
                return ScanWarning(1, f"Imports were not read within {self._seconds:g} seconds")
        return ScanWarning(1, "Imports could not be read") if printed is None else load_scan(printed)


def dump_scan(found: ScanResult) -> bytes:
    return json.dumps(found).encode()


def load_scan(data: bytes) -> ScanResult:
    imports, warnings, error_line = json.loads(data)
    return ScanResult(
        tuple(Import(*each) for each in imports), tuple(ScanWarning(*each) for each in warnings), error_line
    )


_CPU_LIMIT_SECONDS = 5
_MEMORY_LIMIT_BYTES = 2 * 1024**3


def main() -> None:
    _set_limits()
    text = sys.stdin.buffer.read().decode()
    sys.stdout.buffer.write(dump_scan(scan(sys.argv[1], text)))


def _set_limits() -> None:
    """An end also where nobody is left to put one."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, limit in ((resource.RLIMIT_CPU, _CPU_LIMIT_SECONDS), (resource.RLIMIT_AS, _MEMORY_LIMIT_BYTES)):
        with suppress(OSError, ValueError):  # macOS knows the second by name only
            resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    main()
