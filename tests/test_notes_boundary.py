"""Nothing outside the vault is read or written, whatever is put in the place of its files and folders meanwhile."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from carrel import directory as directory_module
from carrel.directory import Directory, LinkFound
from carrel.errors import CarrelError
from carrel.notes.file_store import FileStore
from carrel.notes.note_store import NoteView
from carrel.notes.trash import Restorer
from carrel.notes.vault import Vault, VaultError
from tests.vaults import contents, leftovers, note, opened, refused, write

pytestmark = pytest.mark.anyio

HIDDEN = "what no tool may tell"
RACE_SECONDS = 2.0


@pytest.fixture(params=["descriptors", "paths"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system cannot open names from a folder."""
    if request.param == "paths":
        monkeypatch.setattr(directory_module, "_HAS_DIR_FD", False)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return write(tmp_path / "outside", {"a.md": HIDDEN, "l.md": "[[n]]"})


@pytest.fixture
async def store(tmp_path: Path, outside: Path) -> AsyncGenerator[FileStore]:
    """One that has indexed `st/`, which has become a link to a folder outside since."""
    assert outside
    write(tmp_path / "notes", {"st/a.md": "inside", "st/l.md": "[[n]]", "n.md": "x"})
    async with opened(tmp_path) as store:
        swap(tmp_path)
        yield store


def swap(folder: Path) -> None:
    (folder / "notes/st").rename(folder / "kept")
    (folder / "notes/st").symlink_to(folder / "outside")


async def said(store: FileStore) -> str:
    """Everything that the tools tell of the vault's notes."""
    views: list[NoteView | None] = [await store.get(each) for each in ("st/a.md", "st/a", "st/l.md", "n.md")]
    views += [await store.random(None) for _ in range(10)]
    found = await store.neighborhood("n.md", "both", 20)
    views += [each.note for each in found.neighbors] if found else []
    return "".join(view.content for view in views if view)


@pytest.mark.rule("notes.nodes.outside")
@pytest.mark.usefixtures("_ways")
async def test_in_a_folder_that_has_become_a_link_nothing_is_read_or_written(
    store: FileStore, tmp_path: Path, outside: Path
) -> None:
    before = contents(outside)
    assert HIDDEN not in await said(store)
    assert await store.get("st/a.md") is None
    swap_again(tmp_path)
    assert refused(await store.update("st/a.md", title=None, content="written", tags=None)) == "NODE_NOT_FOUND"
    assert refused(await store.update("st/l.md", title="other", content=None, tags=None)) == "NODE_NOT_FOUND"
    assert await store.delete("st/a.md") is False
    assert refused(await store.create("new", "x", (), "st")) == "INVALID_PARAMS"
    assert refused(await store.create("new", "x", (), "st/deeper")) == "INVALID_PARAMS"
    assert note(await store.update("n.md", title="m", content=None, tags=None)).id == "m.md"
    assert contents(outside) == before
    await store.index.rescan()
    assert [node.id for node in store.index.graph] == ["m.md"]
    async with opened(tmp_path) as again:
        assert HIDDEN not in await said(again)
        assert [node.id for node in again.index.graph] == ["m.md"]
    assert contents(outside) == before
    assert leftovers(tmp_path) == []


async def updated(store: FileStore, note_id: str, **changes: str) -> str:
    given: dict[str, Any] = {"title": None, "content": None, "tags": None, **changes}
    return refused(await store.update(note_id, **given))


FIRST_CALLS: dict[str, Callable[[FileStore, str], Awaitable[object]]] = {
    "get": lambda store, note_id: store.get(note_id),
    "content": lambda store, note_id: updated(store, note_id, content="written"),
    "title": lambda store, note_id: updated(store, note_id, title="other"),
    "delete": lambda store, note_id: store.delete(note_id),
}


@pytest.mark.rule("notes.nodes.outside")
@pytest.mark.parametrize("call", FIRST_CALLS)
@pytest.mark.parametrize("what", ["folder", "note"])
@pytest.mark.usefixtures("_ways")
async def test_the_first_call_after_a_swap_finds_no_note(tmp_path: Path, outside: Path, what: str, call: str) -> None:
    """Nothing has told the index of the swap yet."""
    vault, before = write(tmp_path / "notes", {"st/a.md": "inside", "n.md": "x"}), contents(outside)
    async with opened(tmp_path) as store:
        place, target = (vault / "st", outside) if what == "folder" else (vault / "st/a.md", outside / "a.md")
        place.rename(tmp_path / "kept")
        place.symlink_to(target)
        assert await FIRST_CALLS[call](store, "st/a.md") in (None, False, "NODE_NOT_FOUND")
        assert await store.get("st/a.md") is None
        assert place.is_symlink()
    assert contents(outside) == before
    assert not any((tmp_path / ".carrel").glob("trash/*"))
    assert leftovers(tmp_path) == []


def swap_again(folder: Path) -> None:
    """As if it had never been looked at: the folder is itself, then a link again."""
    (folder / "notes/st").unlink()
    (folder / "notes/st").symlink_to(folder / "outside")


@pytest.mark.rule("notes.nodes.outside")
@pytest.mark.usefixtures("_ways")
async def test_a_deleted_note_does_not_come_back_behind_a_link(tmp_path: Path, outside: Path) -> None:
    write(tmp_path / "notes", {"st/b.md": "inside", "st/a.md": "x"})
    async with opened(tmp_path) as store:
        assert await store.delete("st/b.md")
        swap(tmp_path)
        restorer = Restorer(Vault(tmp_path / "notes"), tmp_path / ".carrel")
        (trashed,) = restorer.trashed()
        with pytest.raises(VaultError):
            restorer.restore(trashed, "st/b.md")
        assert restorer.restore(trashed, "b.md") == "b.md"
    assert sorted(contents(outside)) == ["a.md", "l.md"]


@pytest.mark.rule("notes.nodes.outside")
async def test_a_note_that_has_become_a_link_is_written_nowhere(tmp_path: Path, outside: Path) -> None:
    vault = write(tmp_path / "notes", {"a.md": "inside", "l.md": "[[a]]"})
    async with opened(tmp_path) as store:
        (vault / "a.md").unlink()
        (vault / "a.md").symlink_to(outside / "a.md")
        (vault / "l.md").unlink()
        (vault / "l.md").symlink_to(outside / "l.md")
        assert await store.get("a.md") is None
        for attempt in ({"title": None, "content": "y"}, {"title": "z", "content": None}):
            assert refused(await store.update("a.md", tags=None, **attempt)) == "NODE_NOT_FOUND"
        assert await store.delete("a.md") is False
    assert contents(outside) == {"a.md": HIDDEN.encode(), "l.md": b"[[n]]"}


@contextmanager
def swapping(path: Path, target: Path) -> Generator[None]:
    """A file or folder that is a link to something else every other moment."""
    aside, stopping, random = path.with_name("aside"), threading.Event(), Random(1)
    aside.symlink_to(target)

    def run() -> None:
        with Directory(path.parent).folder() as folder:
            while not stopping.is_set():
                folder.exchange(path.name, aside.name)
                time.sleep(random.choice([0, 0, 0.002]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@pytest.mark.rule("notes.nodes.outside")
@pytest.mark.parametrize("swapped", ["st", "st/a.md"])
async def test_a_race_for_the_place_of_a_file_or_folder_leaks_nothing_and_writes_nothing_outside(
    tmp_path: Path, outside: Path, swapped: str
) -> None:
    vault = write(tmp_path / "notes", {"st/a.md": "inside", "st/l.md": "[[n]]", "n.md": "x"})
    before = contents(outside)
    target = outside if swapped == "st" else outside / "a.md"
    files = Vault(vault)
    async with opened(tmp_path) as store:
        with swapping(vault / swapped, target):
            end, number, seen = time.monotonic() + RACE_SECONDS, 0, set[bytes]()
            while time.monotonic() < end:
                number += 1
                old, new = ("n.md", "m") if number % 2 else ("m.md", "n")
                for _ in range(20):
                    if (found := files.read("st/a.md")) is not None:
                        seen.add(found[0])
                    assert (stamp := files.stamp("st/a.md")) is None or stamp.size != len(HIDDEN)
                    assert all(each.size != len(HIDDEN) for _, each in files.scan())
                for attempt in (
                    store.update("st/a.md", title=None, content=f"edit {number}", tags=None),
                    store.create(f"new {number}", "x", (), "st"),
                    store.update(old, title=new, content=None, tags=None),
                    store.delete(f"st/new-{number}.md"),
                ):
                    with suppress(CarrelError):
                        await attempt
                assert HIDDEN not in await said(store)
        assert HIDDEN.encode() not in seen
        assert seen, "it was read while it was swapped"
    assert contents(outside) == before


@pytest.mark.rule("notes.nodes.outside")
@pytest.mark.usefixtures("_ways")
def test_a_directory_reaches_nothing_that_is_not_beneath_it(tmp_path: Path, outside: Path) -> None:
    folder = write(tmp_path / "folder", {"a.txt": "x", "in/b.txt": "y"})
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "a.md")
    (folder / "inner").symlink_to("in")
    directory = Directory(folder)
    for path in ("../outside/a.md", "in/../../outside/a.md", "./a.txt", "in//b.txt", "/etc/hosts"):
        with pytest.raises(FileNotFoundError):
            directory.open(path)
    for path in ("link/a.md", "file", "inner/b.txt"):
        with pytest.raises(LinkFound):
            directory.open(path)
    for path in ("link", "link/new", "inner/new"):
        with pytest.raises(LinkFound):
            directory.make(path)
    assert directory.target("file") is None
    assert directory.target("inner/b.txt") == "in/b.txt"
    os.close(directory.open("in/b.txt"))


@pytest.mark.rule("notes.nodes.outside")
async def test_links_among_what_the_workspace_keeps_lead_nowhere(tmp_path: Path, outside: Path) -> None:
    """As somebody else's workspace may have them."""
    write(tmp_path / "notes", {"a.md": "---\ntags:\n  - a # said\n  - b\n---\nx"})
    own, before = tmp_path / ".carrel/notes", contents(outside)
    async with opened(tmp_path) as store:
        note(await store.update("a.md", title=None, content=None, tags=["c"]))
        (kept,) = (own / "heads").iterdir()
        (own / "writing").symlink_to(outside / "new.md")
        note(await store.update("a.md", title=None, content=None, tags=["a", "b"]))
        kept.symlink_to(outside / "a.md")
        (own / "writing").symlink_to(outside / "a.md")
        note(await store.update("a.md", title=None, content=None, tags=["d"]))
    assert contents(outside) == before
    assert leftovers(tmp_path) == []


async def test_a_vault_that_was_away_and_is_another_folder_now_goes_on(tmp_path: Path) -> None:
    vault = write(tmp_path / "notes", {"a.md": "one", "b.md": "x"})
    async with opened(tmp_path, watch=True) as store:
        vault.rename(tmp_path / "away")
        assert await store.get("a.md") is None
        write(vault, {"a.md": "two", "sub/c.md": "three"})
        note(await store.update("a.md", title=None, content="four", tags=None))
        for _ in range(100):
            if await store.get("sub/c.md"):
                break
            await asyncio.sleep(0.05)
        assert note(await store.get("sub/c.md")).content == "three"
        assert note(await store.create("new", "x", (), "sub")).id == "sub/new.md"
    assert contents(vault) == {"a.md": b"four", "sub/c.md": b"three", "sub/new.md": b"x"}
    assert contents(tmp_path / "away") == {"a.md": b"one", "b.md": b"x"}
