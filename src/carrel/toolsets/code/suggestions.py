"""What parts of a code base are called: its modules, and its files."""

import asyncio
import time
from collections.abc import Callable, Sequence

from carrel.code.file_access import DenyList
from carrel.code.knowledge.code_files import ListedFile
from carrel.mcp.resources import Completions
from carrel.mcp.toolset import Caller
from carrel.toolsets.code.toolset import READ_NOTES

CACHE_SECONDS = 10.0


class CodeNames:
    """Looks the code base through again after a few seconds: a person who types asks at every letter."""

    def __init__(
        self,
        files: Callable[[], Sequence[ListedFile]],
        module_of: Callable[[str], str | None],
        denied_without_notes: DenyList,
    ) -> None:
        self._files = files
        self._module_of = module_of
        self._denied_without_notes = denied_without_notes
        self._names: list[str] = []
        self._names_without_notes: list[str] = []
        self._fresh_until = 0.0
        self._refresh_lock = asyncio.Lock()

    async def suggest(self, start: str, caller: Caller, limit: int) -> Completions:
        """Modules, then files, by name: those that begin so, then those of which a folder or the file name does."""
        async with self._refresh_lock:
            if time.monotonic() >= self._fresh_until:
                self._names, self._names_without_notes = await asyncio.to_thread(self._load_names)
                self._fresh_until = time.monotonic() + CACHE_SECONDS
        wanted = start.lower()
        names = self._names if caller.may(READ_NOTES) else self._names_without_notes
        first = [name for name in names if name.lower().startswith(wanted)]
        second = [name for name in names if f"/{wanted}" in name.lower() and not name.lower().startswith(wanted)]
        return Completions([*first, *second][:limit], len(first) + len(second))

    def _load_names(self) -> tuple[list[str], list[str]]:
        paths = [file.path for file in self._files()]
        return self._module_and_file_names(paths), self._module_and_file_names(
            [each for each in paths if not self._denied_without_notes.path(each)]
        )

    def _module_and_file_names(self, paths: list[str]) -> list[str]:
        return [*sorted({module for path in paths if (module := self._module_of(path))}), *paths]
