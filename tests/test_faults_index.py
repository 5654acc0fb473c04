"""Indexes on disk that are damaged or find no room: all in them can be made again, and nothing else suffers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from carrel import InProcessClient
from carrel.errors import StoreError
from carrel.search.documents import Document, Passage
from carrel.search.index_store import Query
from carrel.search.local.local_store import LocalStore
from carrel.workspace import find_workspace
from tests.databases import prepare_desk
from tests.faults import can_mount, damage, fill, small_disk
from tests.program import run_carrel_here
from tests.vaults import write

pytestmark = pytest.mark.anyio

NOTES: dict[str, str | bytes] = {f"n{number:03}.md": f"[[n{number + 1:03}]] zebra {number} #t" for number in range(200)}
SETTINGS = {"server": {"toolsets": ["notes"]}, "embeddings": {"provider": "none"}}
COLLECTION = "things"
WORDS = ("idx", "term", "fast", "store", "pos", "fieldnorm", "meta.json", ".managed.json")


def client(folder: Path) -> InProcessClient:
    return InProcessClient(find_workspace(folder, SETTINGS, {}), "ana")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    write(prepare_desk(tmp_path) / "notes", NOTES)
    return tmp_path


async def ok(ana: InProcessClient, tool: str, **arguments: object) -> Any:
    answer = await ana.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return answer.value


async def all_is_there(ana: InProcessClient) -> None:
    assert [hub["score"] for hub in await ok(ana, "get_hubs", limit=3)] == [1, 1, 1]
    assert (await ok(ana, "find_path", source="n000", target="n050"))["length"] == 50
    assert len(await ok(ana, "search_by_tags", tags=["t"], limit=100)) == 100


# --- notes


@pytest.fixture
async def indexed(desk: Path) -> Path:
    """With an index of the notes on disk; the index's file."""
    async with client(desk) as ana:
        await all_is_there(ana)
    (path,) = (desk / ".carrel" / "notes").rglob("index.db")
    return path


@pytest.mark.rule("faults.index.notes")
@pytest.mark.parametrize("place", [0, 0.5], ids=["its head", "its middle"])
async def test_a_damaged_index_of_the_notes_is_made_anew(
    desk: Path, indexed: Path, place: float, caplog: pytest.LogCaptureFixture
) -> None:
    damage(indexed, place, 0.5)
    async with client(desk) as ana:
        await all_is_there(ana)
        await ok(ana, "create_node", title="new", content="x")
    assert "the index of the notes" in caplog.text
    async with client(desk) as ana:
        assert (await ok(ana, "get_node", id="new"))["title"] == "new"


def _bar(path: Path) -> None:
    """Put a folder where the file was: nobody can write there, not even root."""
    for each in path.parent.glob("index.db*"):
        each.unlink()
    path.mkdir()


@pytest.mark.rule("faults.index.notes")
async def test_notes_are_served_where_no_index_of_them_can_be_kept(
    desk: Path, indexed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _bar(indexed)
    async with client(desk) as ana:
        await all_is_there(ana)
        await ok(ana, "create_node", title="new", content="x")
    assert "cannot be kept on disk" in caplog.text
    assert "every start reads all notes" in caplog.text


# --- search


def documents(*numbers: int) -> list[Document]:
    return [
        Document(
            id=f"d{each}",
            title=f"T{each}",
            passages=(Passage(f"zebra{each} crossing " * 5, ""),),
            version="1",
            newness=each,
        )
        for each in numbers
    ]


def found(store: LocalStore, words: str) -> list[str]:
    return [hit.id for hit in store.search(COLLECTION, Query(words), filters={}, limit=5).hits]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "search")
    store.put(COLLECTION, documents(*range(60)))
    assert found(store, "zebra7") == ["d7"]
    return store


@pytest.mark.rule("faults.index.search")
@pytest.mark.parametrize("is_open", [True, False], ids=["while it is in use", "before it is opened"])
@pytest.mark.parametrize("ending", WORDS)
def test_damaged_words_are_made_anew_without_anybody_asking(
    store: LocalStore, tmp_path: Path, ending: str, is_open: bool
) -> None:
    if not is_open:
        store.close()
    for path in (tmp_path / "search" / "words").rglob(f"*{ending}"):
        damage(path, 0.25, 0.5)
    if not is_open:
        store = LocalStore(tmp_path / "search")
    assert found(store, "zebra7") == ["d7"]
    store.put(COLLECTION, documents(100))
    assert found(store, "zebra100") == ["d100"]
    assert found(store, "zebra7") == ["d7"]
    store.close()


@pytest.mark.rule("faults.index.search")
def test_damaged_tables_are_told_with_the_command_that_makes_them_again(store: LocalStore, tmp_path: Path) -> None:
    store.put(COLLECTION, documents(*range(100, 1500)))
    store.close()
    path = tmp_path / "search" / "index.db"
    damage(path, 4096, path.stat().st_size - 8192)
    store = LocalStore(tmp_path / "search")
    with pytest.raises(StoreError, match="carrel index --rebuild makes it again; restart the servers"):
        store.put(COLLECTION, documents(2000))
    store.clear()
    store.put(COLLECTION, documents(7))
    assert found(store, "zebra7") == ["d7"]
    store.close()


CODE = {"server": {"toolsets": ["code"]}, "embeddings": {"provider": "none"}}


def zebras(number: int) -> str:
    return "".join(f"def zebra_{number}_{each}():\n    return {each}\n\n\n" for each in range(40))


@pytest.mark.rule("faults.index.search")
async def test_a_tool_over_a_damaged_search_index_fails_in_the_contracts_words_until_it_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = prepare_desk(write(tmp_path, {f"src/z{number}.py": zebras(number) for number in range(20)}))
    workspace = find_workspace(desk, CODE, {})
    async with InProcessClient(workspace, "ana") as ana:
        assert (await ok(ana, "context_search", query="zebra"))["totalFound"] > 0
    (path,) = (each for each in (desk / ".carrel").rglob("index.db") if "notes" not in each.parts)
    damage(path, 8192, 0.9)
    async with InProcessClient(workspace, "ana") as ana:
        answer = await ana.call_tool("context_search", {"query": "zebra"})
        assert (answer.value, answer.is_error) == ({"error": "Search failed", "tool": "context_search"}, True)
        assert (await ok(ana, "read_file", path="src/z0.py"))["file"]["path"] == "src/z0.py"
    assert "carrel index --rebuild" in caplog.text
    env = {"CARREL_EMBEDDINGS_PROVIDER": "none", "CARREL_SERVER_TOOLSETS": "code"}
    done = await asyncio.to_thread(run_carrel_here, "index", "--rebuild", cwd=desk, **env)
    assert done.returncode == 0, done
    async with InProcessClient(workspace, "ana") as ana:
        assert (await ok(ana, "context_search", query="zebra"))["totalFound"] > 0


@pytest.mark.rule("faults.index.full")
@pytest.mark.skipif(not can_mount(), reason="no right to mount; tantivy has no other way to be without room")
def test_an_index_without_room_says_so_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        store = LocalStore(disk / "search")
        store.put(COLLECTION, documents(*range(30)))
        filler = fill(disk)
        with pytest.raises(StoreError, match=r"full|No space"):
            store.put(COLLECTION, documents(*range(100, 1000)))
        assert found(store, "zebra7") == ["d7"]
        filler.unlink()
        store.put(COLLECTION, documents(*range(100, 110)))
        assert found(store, "zebra105") == ["d105"]
        store.close()
