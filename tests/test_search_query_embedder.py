"""Queries whose provider hangs, refuses or fails: somebody waits for them, so words answer soon."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from carrel.search import embedder as embedder_module
from carrel.search.documents import Document, Passage, SearchResults
from carrel.search.embedder import QueryEmbedder
from carrel.search.engine import SearchEngine
from carrel.search.index_store import Query
from carrel.search.providers.provider import EmbeddingFailed, Limits
from carrel.search.providers.remote import RemoteProvider
from tests.embedding_servers import CLOSED, EmbeddingServer, Reply, Request, openai, serving
from tests.test_search_engine import engine_over, remote, until

pytestmark = pytest.mark.anyio

CONTRACT_SECONDS = 5
QUERY = "dough"
DOWN = Reply({"error": {"message": "starting"}}, 500)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less to wait for than in earnest."""
    monkeypatch.setattr(RemoteProvider, "limits", Limits(passages=32, tokens=2_000, query_seconds=0.4))
    monkeypatch.setattr(embedder_module, "SLOW_FAILURE_SECONDS", 0.3)


@contextmanager
def hanging() -> Iterator[tuple[EmbeddingServer, threading.Event]]:
    """A server that answers to queries when the event is set, and to all else at once."""
    answers = threading.Event()

    def answer(request: Request) -> Reply:
        if request.texts == [QUERY]:
            answers.wait(20)
        return openai(request)

    with serving(answer) as server:
        try:
            yield server, answers
        finally:
            answers.set()


async def filled(engine: SearchEngine) -> SearchEngine:
    await engine.put("notes", [Document("bread", "Bread", [Passage("Knead the dough.")], "1")])
    return engine


async def asked(engine: SearchEngine) -> str:
    """Why only words were compared; they are found in any case."""
    found = await engine.search("notes", QUERY)
    assert [hit.id for hit in found.hits] == ["bread"]
    return found.failure


def is_left_alone(failure: str) -> bool:
    return "(asked again in" in failure


@pytest.mark.rule("search.provider.query_deadline", "search.provider.left_alone")
async def test_a_server_that_hangs_keeps_one_query_two_seconds_and_the_next_not_at_all(tmp_path: Path) -> None:
    with hanging() as (server, answers):
        async with engine_over(tmp_path, remote(server.url)) as engine:
            await filled(engine)
            started = time.monotonic()
            assert "answer" in await asked(engine)
            assert time.monotonic() - started < CONTRACT_SECONDS - 1
            requests = len(server.requests)
            assert all([is_left_alone(await asked(engine)) for _ in range(20)])
            assert len(server.requests) == requests
            answers.set()


@pytest.mark.rule("search.provider.query_deadline")
@pytest.mark.usefixtures("soon")
async def test_a_server_that_answers_drop_by_drop_is_given_up(tmp_path: Path) -> None:
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not ended.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with engine_over(tmp_path, remote(url)) as engine:
            failure = await asked(await filled(engine))
            ended.set()
        thread.join()
    assert failure == "the embedding provider gave no answer within 0.4 seconds"


@pytest.mark.rule("search.provider.query_deadline")
async def test_a_server_that_is_not_there_is_told_at_once_and_asked_each_time(tmp_path: Path) -> None:
    with serving(openai) as server:
        url = server.url
    async with engine_over(tmp_path, remote(url)) as engine:
        await filled(engine)
        for _ in range(2):
            failure = await asked(engine)
            assert "cannot be reached" in failure
            assert not is_left_alone(failure)


@pytest.mark.rule("search.provider.query_deadline")
async def test_a_server_that_fails_is_asked_twice_for_a_query_and_five_times_for_an_index(tmp_path: Path) -> None:
    with serving(lambda _: DOWN) as server:
        async with engine_over(tmp_path, remote(server.url)) as engine:
            assert "500: starting (asked 2 times)" in await asked(await filled(engine))
            assert len(server.requests) == 2
            await engine.embed_in_background()
            await until(lambda: len(server.requests) >= 5)  # with pauses of half a second, and of a second


@pytest.mark.rule("search.provider.query_deadline")
def test_a_query_does_not_wait_as_long_as_a_busy_server_says() -> None:
    busy = Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "20"})
    with serving(lambda _: busy) as server:
        provider = remote(server.url)
        with pytest.raises(EmbeddingFailed, match=r"429: slow down$"):
            provider.embed_query("dough")
        provider.close()
        assert len(server.requests) == 1


def test_a_connection_that_the_server_has_closed_costs_a_query_nothing() -> None:
    with serving(lambda request: CLOSED if request.number == 2 else openai(request)) as server:
        provider = remote(server.url)
        assert (provider.embed_query("dough") == provider.embed_query("dough")).all()
        provider.close()
        assert len(server.requests) == 3


@pytest.mark.rule("search.provider.left_alone")
@pytest.mark.usefixtures("soon")
async def test_after_its_rest_one_query_tries_and_the_others_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder_module, "COOLDOWN_SECONDS", 0.0)
    with hanging() as (server, answers):
        async with engine_over(tmp_path, remote(server.url)) as engine:
            await filled(engine)
            assert await asked(engine)
            monkeypatch.setattr(embedder_module, "COOLDOWN_SECONDS", 30.0)
            monkeypatch.setattr(RemoteProvider, "limits", Limits(passages=32, tokens=2_000, query_seconds=20))
            requests = len(server.requests)
            trying = asyncio.create_task(asked(engine))
            await until(lambda: len(server.requests) > requests)
            assert all([is_left_alone(await asked(engine)) for _ in range(5)])
            assert len(server.requests) == requests + 1
            answers.set()
            assert await trying == ""
            assert await asked(engine) == ""


@pytest.mark.rule("search.provider.left_alone")
@pytest.mark.usefixtures("soon")
async def test_a_provider_that_answers_the_background_is_asked_again_at_once(tmp_path: Path) -> None:
    with hanging() as (server, answers):
        async with engine_over(tmp_path, remote(server.url)) as engine:
            await filled(engine)
            await asked(engine)
            assert is_left_alone(await asked(engine))
            embedder = await engine.embed_in_background()
            assert embedder is not None
            assert await asyncio.to_thread(embedder.wait, 20)
            assert not is_left_alone(await asked(engine))
            assert is_left_alone(await asked(engine))
            answers.set()


@pytest.mark.usefixtures("soon")
async def test_a_slow_index_is_not_the_providers_fault() -> None:
    found = SearchResults([], 0)

    def by(_: Query) -> SearchResults:
        time.sleep(0.8)
        return found

    with serving(openai) as server:
        provider = remote(server.url)
        queries = QueryEmbedder(provider)
        assert await queries.search("dough", by) is found
        assert await queries.search("dough", lambda _: found) is found
        provider.close()
        queries.close()
