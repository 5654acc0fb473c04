"""A vault as commands look at it: all of it read first, and nobody watching it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carrel.cli.progress import bars
from carrel.common import StepProgress

if TYPE_CHECKING:
    from carrel.notes.files import FileStore
    from carrel.notes.index import Index

T = TypeVar("T")

LOOK_SECONDS = 0.2


async def read_vault(index: "Index", progress: StepProgress) -> None:
    """Wait until every note was looked at; a long wait shows how far it is."""
    import asyncio

    waiting = asyncio.create_task(index.settled(patiently=True))
    told = 0
    try:
        while not (await asyncio.wait([waiting], timeout=LOOK_SECONDS))[0]:
            done, total = index.progress
            if total:
                progress("reading", done - told, total)
                told = done
        await waiting
    finally:
        waiting.cancel()


def look_at_vault(workspace: Path | None, job: "Callable[[FileStore, StepProgress], Awaitable[T]]") -> T:
    """What comes of it."""
    import asyncio
    from contextlib import AsyncExitStack

    from carrel.workspace import find_workspace

    found = find_workspace(workspace)
    found.vault()

    async def look() -> T:
        async with AsyncExitStack() as stack:
            progress = stack.enter_context(bars())
            store = await found.note_files(stack, watch=False)
            await read_vault(store.index, progress)
            return await job(store, progress)

    return asyncio.run(look())


def line(text: str) -> str:
    """On one line, whatever is in it."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
