"""What was learned, and code, as one collection of the search engine: on files, by words."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from carrel.code.knowledge.code_base import DEFAULT_CODE_BASE
from carrel.code.knowledge.code_files import CodeFileSource, FileAccess, ListedFile
from carrel.code.knowledge.discoveries import Discovery, DiscoveryRepository, NewDiscovery
from carrel.code.knowledge.knowledge_source import CodeKey, CombinedSource, code_key, collection_of, knowledge_sources
from carrel.code.knowledge.sessions import NewSummary, SessionRepository
from carrel.search.engine import SearchEngine, update_index
from carrel.search.local.local_store import LocalStore
from carrel.storage.database import Database
from tests.search_stores import others

pytestmark = pytest.mark.anyio

HERE = "here"
COLLECTION = collection_of(HERE)
LOGIN = "def login(user):\n    return mint_token(user)\n"


class Folder:
    """Files, and a count of how often each was read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: list[str] = []
        root.mkdir()

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def reading(self) -> FileAccess:
        return FileAccess(
            self._files, self._text, lambda path, _: "python" if path.endswith(".py") else "text", self._module
        )

    def _files(self) -> Iterator[ListedFile]:
        for path in sorted(each for each in self.root.rglob("*") if each.is_file()):
            status = path.stat()
            yield ListedFile(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime_ns)

    def _text(self, path: str) -> str | None:
        self.read.append(path)
        data = (self.root / path).read_bytes()
        return None if b"\0" in data else data.decode()

    @staticmethod
    def _module(path: str) -> str | None:
        first, slash, _ = path.partition("/")
        return first if slash else None


class Desk:
    def __init__(self, database: Database, folder: Folder, store: Path) -> None:
        self.database = database
        self.folder = folder
        self.engine = SearchEngine(lambda: LocalStore(store), None)

    def source(self) -> CombinedSource:
        return CombinedSource(
            COLLECTION,
            *knowledge_sources(self.database, HERE),
            CodeFileSource(self.folder.reading(), lambda: self.engine.versions(COLLECTION)),
        )

    async def index(self, source: CombinedSource | None = None) -> int:
        self.folder.read.clear()
        return await update_index(self.engine, source or self.source())

    async def ids(self) -> list[str]:
        return sorted(await self.engine.versions(COLLECTION))

    async def found(self, query: str, **filters: str) -> list[str]:
        chosen = {key: [value] for key, value in filters.items()}
        return [hit.id for hit in (await self.engine.search(COLLECTION, query, filters=chosen)).hits]

    async def discover(self, given: NewDiscovery) -> Discovery:
        return await self.database.write(lambda session: DiscoveryRepository(session, HERE).add(given))


@pytest.fixture
async def desk(database: Database, tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(database, Folder(tmp_path / "code"), tmp_path / "index")
    yield desk
    await desk.engine.close()


@pytest.mark.rule("knowledge.search.together")
async def test_discoveries_sessions_and_code_are_found_together_and_apart(desk: Desk) -> None:
    discovery = await desk.discover(NewDiscovery("pattern", "Every token is minted for fifteen minutes", "auth"))
    session = await desk.database.write(
        lambda session: SessionRepository(session, HERE).add(
            NewSummary("Tokens", "Found why a token was minted twice", None)
        )
    )
    desk.folder.put("auth/login.py", f'"""Logging in."""\n\n{LOGIN}')
    await desk.index()
    await desk.engine.put(COLLECTION, others())  # so that words mean something
    ids = {
        "discovery": f"discovery:{discovery.id}",
        "session": f"session:{session.id}",
        "code": "code:auth/login.py#3-4",
    }
    assert set(await desk.found("token mint")) == set(ids.values())
    for source, id_ in ids.items():
        assert await desk.found("token mint", source=source) == [id_]
    assert await desk.found("token mint", type="pattern") == [ids["discovery"]]
    assert await desk.found("token mint", type="rule") == []
    assert set(await desk.found("token mint", module="auth")) == {ids["discovery"], ids["code"]}
    assert ids["code"] in (await desk.found("login"))[:2]
    assert code_key(ids["code"]) == CodeKey("auth/login.py", 3, 4)
    assert CodeKey("auth/login.py", 3, 4).place == "auth/login.py:3-4"


@pytest.mark.rule("knowledge.search.incremental")
async def test_only_what_changed_is_read_and_indexed_again(desk: Desk) -> None:
    first = await desk.discover(NewDiscovery("rule", "one"))
    second = await desk.discover(NewDiscovery("rule", "two"))
    desk.folder.put("a.py", LOGIN)
    desk.folder.put("b.txt", "some words\n")
    desk.folder.put("empty.py", "")
    desk.folder.put("image.png", "\0")
    source = desk.source()
    assert await desk.index(source) == 4
    assert set(desk.folder.read) == {"a.py", "b.txt", "empty.py", "image.png"}
    assert (await desk.index(source), desk.folder.read) == (0, [])
    assert (await desk.index(), desk.folder.read) == (0, ["empty.py", "image.png"]), "a new process has not seen them"
    desk.folder.put("a.py", f"import os\n\n{LOGIN}")
    (desk.folder.root / "b.txt").unlink()
    await desk.database.write(
        lambda session: DiscoveryRepository(session, HERE).change(first._replace(content="three"))
    )
    await desk.database.write(lambda session: DiscoveryRepository(session, HERE).remove(second.id))
    assert await desk.index(source) == 6, "two new, two changed or gone of a.py and b.txt, and two discoveries"
    assert await desk.ids() == ["code:a.py#1-1", "code:a.py#3-4", f"discovery:{first.id}"]
    assert await desk.index(source) == 0
    os.utime(desk.folder.root / "a.py", ns=(1, 1))
    assert await desk.index(source) == 2


@pytest.mark.rule("knowledge.search.broken_off")
async def test_a_file_whose_indexing_was_broken_off_is_indexed_the_next_time(desk: Desk) -> None:
    desk.folder.put("a.py", "def a():\n    pass\n\n\ndef b():\n    pass\n")
    assert await desk.index() == 2
    await desk.engine.remove(COLLECTION, ["code:a.py#5-6"])
    assert await desk.index() == 1
    assert await desk.ids() == ["code:a.py#1-2", "code:a.py#5-6"]


async def test_a_file_that_changes_while_it_is_indexed_is_right_the_next_time(desk: Desk) -> None:
    desk.folder.put("a#1.py", LOGIN)
    source = desk.source()
    ids = [each async for each, _ in source.versions()]
    assert ids == ["code:a#1.py#1-2"]
    desk.folder.put("a#1.py", f"\n{LOGIN}")
    assert [each.id for each in await source.documents(ids)] == ids, "as it was when it was listed"
    assert await source.documents(ids) == []
    assert [each async for each, _ in source.versions()] == ["code:a#1.py#2-3"]
    (desk.folder.root / "a#1.py").unlink()
    assert [each async for each, _ in source.versions()] == []
    assert await source.documents(["code:a#1.py#1-2", "discovery:x", "other:1"]) == []


@pytest.mark.rule("knowledge.discovery.isolation")
async def test_each_code_base_of_a_shared_database_has_a_collection_of_its_own(desk: Desk) -> None:
    assert collection_of(DEFAULT_CODE_BASE) == "code"
    assert collection_of("shop") == "code:shop"
    await desk.discover(NewDiscovery("rule", "mine"))
    theirs = CombinedSource(collection_of("there"), *knowledge_sources(desk.database, "there"))
    assert [each async for each in theirs.versions()] == []


def test_only_the_id_of_code_is_a_place() -> None:
    for other in ("discovery:a#1-2", "code:a", "code:a#1", "code:a#x-2", "code:a#1-", ""):
        assert code_key(other) is None
    assert code_key("code:a#b#10-12") == CodeKey("a#b", 10, 12)
