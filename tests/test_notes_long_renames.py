"""A rename that takes longer than a call may: it finishes with the answer, or is refused before it changes anything."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Caller
from carrel.notes.file_store import FileStore
from carrel.notes.replacement import Replacement
from carrel.toolsets.notes.handlers import note_handlers
from carrel.toolsets.notes.toolset import notes_toolset
from tests.vaults import contents, leftovers, opened, write

pytestmark = pytest.mark.anyio

LINKS = 200
LIMIT_SECONDS = 1.0
SLOW_SECONDS = 0.01
"""For each file: more than the limit for all of them."""
MAX_GAP_SECONDS = 0.1


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[FileStore]:
    links = {f"links/{number}.md": f"{number}: [[one]]" for number in range(LINKS)}
    write(tmp_path / "notes", {"one.md": "x", "other.md": "y", **links})
    async with opened(tmp_path) as store:
        yield store


def slow(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, seconds: float) -> None:
    fast = getattr(owner, name)

    def work(*arguments: object, **named: object) -> object:
        time.sleep(seconds)
        return fast(*arguments, **named)

    monkeypatch.setattr(owner, name, work)


@asynccontextmanager
async def never_held_up(store: FileStore) -> AsyncGenerator[None]:
    """The event loop is free all the time, and other notes are read."""
    longest = 0.0

    async def look() -> None:
        nonlocal longest
        while True:
            started = time.monotonic()
            await asyncio.sleep(0.001)
            assert await store.get("other.md") is not None
            longest = max(longest, time.monotonic() - started)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert looking.cancelled()
    assert longest < MAX_GAP_SECONDS


@pytest.mark.rule("notes.update.long")
async def test_a_rename_that_is_decided_on_finishes_with_the_answer_and_tells_how_far_it_is(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, Replacement, "swap", SLOW_SECONDS)
    pipeline = Pipeline([notes_toolset(note_handlers(store))], timeout=LIMIT_SECONDS)
    told: list[tuple[float, float]] = []

    async def tell(done: float, total: float, _what: str) -> None:
        told.append((done, total))

    started = time.monotonic()
    async with never_held_up(store):
        answer = await pipeline.call("update_node", {"id": "one", "title": "two"}, Caller("me", progress=tell))
    assert not answer.is_error, answer.text
    assert answer.value["id"] == "two.md"
    assert time.monotonic() - started > LIMIT_SECONDS
    files = contents(tmp_path / "notes")
    assert all(files[f"links/{number}.md"] == f"{number}: [[two]]".encode() for number in range(LINKS))
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1][0] <= told[-1][1] == 2 * (LINKS + 1)
    assert leftovers(tmp_path) == []


@pytest.mark.rule("notes.update.long")
async def test_a_rename_that_could_not_be_prepared_in_time_changes_nothing_then_or_later(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tmp_path / "notes")
    pipeline = Pipeline([notes_toolset(note_handlers(store))], timeout=LIMIT_SECONDS)
    with monkeypatch.context() as patch:
        slow(patch, os, "fsync", 20 * SLOW_SECONDS)
        async with never_held_up(store):
            answer = await pipeline.call("update_node", {"id": "one", "title": "two"}, Caller("me"))
    assert answer.is_error
    assert "given up" in answer.text
    assert (await store.delete("no such note")) is False  # when what was under way is done
    assert contents(tmp_path / "notes") == before
    assert leftovers(tmp_path) == []
    answer = await pipeline.call("update_node", {"id": "one", "title": "two"}, Caller("me"))
    assert not answer.is_error, answer.text
