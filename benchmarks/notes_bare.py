"""The least that any index of a vault does: read every file and look for links and tags with one pattern."""

from __future__ import annotations

import os
import re
import sys
import time

THINGS = re.compile(r"\[\[([^\]|#]+)|\]\(([^)]+\.md)|(?<!\S)#([\w/-]+)")


def scan(folder: str) -> float:
    """Seconds."""
    started = time.perf_counter()
    found: dict[str, list[tuple[str, str, str]]] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".md"):
                path = os.path.join(place, name)
                with open(path, encoding="utf-8") as file:
                    found[path] = THINGS.findall(file.read())
    return time.perf_counter() - started


if __name__ == "__main__":
    print(scan(sys.argv[1]))
