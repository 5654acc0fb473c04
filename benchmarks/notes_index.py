"""Index a vault from nothing, as a program of its own: what a server does behind its first answers."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import carrel.notes.file_store  # noqa: F401 - so that only indexing is measured
from carrel.workspace import find_workspace


async def index(folder: Path) -> float:
    """Seconds."""
    workspace = find_workspace(folder, environment={})
    started = time.perf_counter()
    async with AsyncExitStack() as stack:
        store = await workspace.note_files(stack, watch=False)
        await store.index.wait_until_ready(no_timeout=True)
        return time.perf_counter() - started


if __name__ == "__main__":
    print(asyncio.run(index(Path(sys.argv[1]))))
