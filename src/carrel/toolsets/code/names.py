"""What parts of a code base are called: its modules, and its files."""

import asyncio
import time
from collections.abc import Callable, Sequence

from carrel.code.knowledge.code_files import ListedFile
from carrel.mcp.resources import Found
from carrel.mcp.toolset import Caller

FRESH_SECONDS = 10.0


class CodeNames:
    """Looks the code base through again after a few seconds: a person who types asks at every letter."""

    def __init__(self, files: Callable[[], Sequence[ListedFile]], module_of: Callable[[str], str | None]) -> None:
        self._files = files
        self._module_of = module_of
        self._names: list[str] = []
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()

    async def suggest(self, start: str, _caller: Caller, limit: int) -> Found:
        """Modules, then files, by name: those that begin so, then those of which a folder or the file name does."""
        async with self._looking:
            if time.monotonic() >= self._fresh_until:
                self._names = await asyncio.to_thread(self._look)
                self._fresh_until = time.monotonic() + FRESH_SECONDS
        wanted = start.lower()
        first = [name for name in self._names if name.lower().startswith(wanted)]
        second = [name for name in self._names if f"/{wanted}" in name.lower() and not name.lower().startswith(wanted)]
        return Found([*first, *second][:limit], len(first) + len(second))

    def _look(self) -> list[str]:
        paths = [file.path for file in self._files()]
        return [*sorted({module for path in paths if (module := self._module_of(path))}), *paths]
