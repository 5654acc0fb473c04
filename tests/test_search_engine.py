"""The engine and its background embedder, on files, with the bundled model and with servers that fail."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from carrel.search.documents import Document, Passage
from carrel.search.engine import SearchEngine, update_index
from carrel.search.local.local_store import LocalStore
from carrel.search.providers.provider import Provider
from carrel.search.providers.provider_factory import open_provider
from tests.embedding_servers import Reply, Request, openai, serving

pytestmark = pytest.mark.anyio

NOTES = {
    "bread": "Knead the dough until it is smooth, let it rise in a warm place, and bake it in a hot oven.",
    "stars": "On a clear night far from the city, thousands of stars and the Milky Way can be seen.",
    "tax": "Invoices must be kept for ten years; the annual return is due at the end of July.",
}


def document(name: str, text: str, *, version: str = "1", newness: int = 0) -> Document:
    return Document(name, name.title(), [Passage(text)], version, newness)


def bundled() -> Provider:
    provider = open_provider("bundled", model="", url="", api_key_env="", environ={})
    assert provider is not None
    return provider


def remote(url: str) -> Provider:
    provider = open_provider("openai", model="m", url=url, api_key_env="", environ={})
    assert provider is not None
    return provider


@asynccontextmanager
async def engine_over(folder: Path, provider: Provider | None) -> AsyncIterator[SearchEngine]:
    engine = SearchEngine(lambda: LocalStore(folder), provider)
    try:
        yield engine
    finally:
        await engine.close()


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        await asyncio.sleep(0.02)


async def pending(engine: SearchEngine) -> int:
    return sum(each.pending for each in (await engine.progress()).values())


async def until_embedded(engine: SearchEngine) -> None:
    for _ in range(1000):
        if not await pending(engine):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it was not embedded")


@pytest.mark.rule("search.background.words_first", "search.provider.bundled")
async def test_words_are_found_at_once_and_meaning_soon_after(tmp_path: Path) -> None:
    async with engine_over(tmp_path, bundled()) as engine:
        assert await engine.put("notes", [document(name, text) for name, text in NOTES.items()]) == 3
        assert (await engine.search("notes", "dough")).hits[0].id == "bread"
        question = "how long do I keep bills"
        await engine.embed_in_background()
        await until_embedded(engine)
        assert (await engine.search("notes", question)).hits[0].id == "tax"


@pytest.mark.rule("search.ranking.near")
async def test_a_small_desk_is_searched_by_what_its_notes_are_about(tmp_path: Path) -> None:
    async with engine_over(tmp_path, bundled()) as engine:
        garden = Document("garden", "Growing tomatoes", [Passage("Sow them indoors in March.")], "1")
        await engine.put("notes", [garden, *(document(name, text) for name, text in NOTES.items())])
        await engine.embed_in_background()
        await until_embedded(engine)
        assert [hit.id for hit in (await engine.search("notes", "vegetables")).hits] == ["garden"]
        assert (await engine.search("notes", "motorcycle")).hits == []


@pytest.mark.rule("search.provider.none")
async def test_without_a_provider_words_alone_are_compared(tmp_path: Path) -> None:
    async with engine_over(tmp_path, None) as engine:
        assert not engine.has_embeddings
        await engine.put("notes", [document(name, text) for name, text in NOTES.items()])
        assert [hit.id for hit in (await engine.search("notes", "clear night")).hits] == ["stars"]
        assert await engine.embed_in_background() is None


@pytest.mark.rule("search.provider.failure")
async def test_a_provider_that_fails_leaves_the_words_and_is_asked_again(tmp_path: Path) -> None:
    is_broken = True

    def answer(request: Request) -> Reply:
        return Reply({"error": {"message": "no such model"}}, 400) if is_broken else openai(request)

    with serving(answer) as server:
        async with engine_over(tmp_path, remote(server.url)) as engine:
            await engine.put("notes", [document(name, text) for name, text in NOTES.items()])
            found = await engine.search("notes", "dough")
            assert [hit.id for hit in found.hits] == ["bread"]
            assert "no such model" in found.failure
            await engine.embed_in_background()
            await until(lambda: len(server.requests) >= 2)
            is_broken = False
            await until_embedded(engine)
            assert not (await engine.search("notes", "dough")).failure


@pytest.mark.rule("search.background.newest_first")
async def test_the_newest_is_embedded_first(tmp_path: Path) -> None:
    with serving(openai) as server:
        async with engine_over(tmp_path, remote(server.url)) as engine:
            await engine.put("notes", [document(f"n{age}", f"text {age}", newness=age % 5) for age in range(5)])
            await engine.embed_in_background()
            await until_embedded(engine)
        embedded = [text for request in server.requests for text in request.texts if "text" in text]
        assert [text.split()[-1] for text in embedded] == ["4", "3", "2", "1", "0"]


@pytest.mark.rule("search.background.pause")
async def test_it_can_be_paused(tmp_path: Path) -> None:
    with serving(openai) as server:
        async with engine_over(tmp_path, remote(server.url)) as engine:
            embedder = await engine.embed_in_background()
            assert embedder is not None
            embedder.pause()
            await engine.put("notes", [document("a", "some text")])
            await asyncio.sleep(0.3)
            assert await pending(engine) == 1
            embedder.resume()
            await until_embedded(engine)


@pytest.mark.rule("search.background.one_process")
async def test_of_two_that_could_embed_one_does(tmp_path: Path) -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def answer(request: Request) -> Reply:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return openai(request)

    with serving(answer) as server:
        async with (
            engine_over(tmp_path, remote(server.url)) as one,
            engine_over(tmp_path, remote(server.url)) as other,
        ):
            await one.put("notes", [document(f"n{number}", f"text {number}") for number in range(300)])
            await one.embed_in_background()
            await until(lambda: len(server.requests) > 1)
            await other.embed_in_background()
            await until_embedded(one)
        texts = [text for request in server.requests for text in request.texts if "text" in text]
        assert len(texts) == len(set(texts)) == 300


@pytest.mark.rule("search.model.changed")
async def test_another_model_embeds_everything_again_and_vectors_do_not_mix(tmp_path: Path) -> None:
    with serving(openai) as server:
        async with engine_over(tmp_path, remote(server.url)) as engine:
            await engine.put("notes", [document(name, text) for name, text in NOTES.items()])
            await engine.embed_in_background()
            await until_embedded(engine)
    async with engine_over(tmp_path, bundled()) as engine:
        question = "how long do I keep bills"
        assert not any(hit.id == "tax" and hit.score > 0.5 for hit in (await engine.search("notes", question)).hits)
        await engine.embed_in_background()
        for _ in range(500):
            if (await engine.search("notes", question)).hits[:1] and not await pending(engine):
                break
            await asyncio.sleep(0.02)
        assert (await engine.search("notes", question)).hits[0].id == "tax"


class Shelf:
    """A source that a test changes."""

    collection = "shelf"

    def __init__(self) -> None:
        self.books: dict[str, Document] = {}
        self.read: list[str] = []

    def put(self, *books: Document) -> None:
        self.books |= {book.id: book for book in books}

    async def versions(self) -> AsyncIterator[tuple[str, str]]:
        for book in self.books.values():
            yield book.id, book.version

    async def documents(self, ids: Sequence[str]) -> list[Document]:
        self.read += ids
        return [self.books[each] for each in ids if each in self.books]


@pytest.mark.rule("search.source.changes_only")
async def test_only_what_changed_at_its_source_is_read_again(tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.put(*(document(name, text) for name, text in NOTES.items()))
    async with engine_over(tmp_path, None) as engine:
        assert await update_index(engine, shelf) == 3
        shelf.read.clear()
        assert await update_index(engine, shelf) == 0
        assert shelf.read == []
        del shelf.books["tax"]
        shelf.put(document("bread", "Now about butter.", version="2"))
        told: list[tuple[int, int]] = []
        assert await update_index(engine, shelf, lambda more, total: told.append((more, total))) == 2
        assert shelf.read == ["bread"]
        assert told == [(1, 2), (1, 2)]
        assert [hit.id for hit in (await engine.search("shelf", "butter")).hits] == ["bread"]
        assert (await engine.search("shelf", "dough")).hits == []
        assert await engine.versions("shelf") == {"bread": "2", "stars": "1"}
