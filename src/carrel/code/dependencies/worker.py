"""A process that scans one text: `python -m carrel.code.dependencies.worker LANGUAGE`, the text on standard input."""

import sys
from contextlib import suppress

from carrel.code.dependencies.scanning import dumped, scan

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
