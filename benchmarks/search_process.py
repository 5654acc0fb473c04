"""A process that serves an index: python benchmarks/search_process.py FOLDER QUERIES.json

Prints, as JSON, what it held in memory and how long the first answers took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from carrel.search.engine import SearchEngine
from carrel.search.local.local_store import LocalStore
from carrel.search.providers.bundled import BundledProvider

COLLECTION = "bench"


def memory() -> dict[str, float]:
    """In megabytes: now, at most, and what of it is the process's own."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    found = {
        line.partition(":")[0]: line.split()[1] for line in lines if line.startswith(("VmHWM", "VmRSS", "RssAnon"))
    }
    return {name: int(kilobytes) * 1024 / 1e6 for name, kilobytes in found.items()}


async def main(folder: Path, queries: list[str]) -> None:
    figures: dict[str, object] = {"imported": memory()}
    engine = SearchEngine(lambda: LocalStore(folder), BundledProvider())
    taken: list[float] = []
    for query in queries:
        started = time.perf_counter()
        await engine.search(COLLECTION, query)
        taken.append(1000 * (time.perf_counter() - started))
        if len(taken) == 1:
            figures["after the first"] = memory()
    figures |= {"after all": memory(), "milliseconds": taken}
    await engine.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
