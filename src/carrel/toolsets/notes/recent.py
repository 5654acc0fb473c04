"""Notes that have been written lately."""

import asyncio
import heapq
import time

from carrel.mcp.resources import Found
from carrel.mcp.toolset import Caller, Suggest
from carrel.notes.vault import Vault

RECENT_SECONDS = 7 * 24 * 3600


def recent_notes(vault: Vault) -> Suggest:
    """The ids of those whose files have changed within a week, the newest first."""

    def look(start: str, limit: int) -> Found:
        since = time.time_ns() - RECENT_SECONDS * 1_000_000_000
        changed = [(stamp.mtime_ns, note_id) for note_id, stamp in vault.scan() if stamp.mtime_ns >= since]
        found = [(when, note_id) for when, note_id in changed if note_id.startswith(start)]
        newest = heapq.nsmallest(limit, found, key=lambda each: (-each[0], each[1]))
        return Found([note_id for _, note_id in newest], len(found))

    async def suggest(start: str, _caller: Caller, limit: int) -> Found:
        return await asyncio.to_thread(look, start, limit)

    return suggest
