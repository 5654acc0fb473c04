"""Servers that give vectors, and that may misbehave."""

import base64
import logging
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from carrel.errors import UsageError
from carrel.search.providers.bundled import BundledProvider
from carrel.search.providers.embedding_client import RetryPolicy
from carrel.search.providers.provider import EmbeddingFailed, Provider, Secret
from carrel.search.providers.provider_factory import open_provider
from carrel.search.providers.remote import MAX_TEXT_BYTES, OllamaProvider, OpenAIProvider
from tests.embedding_servers import CLOSED, Answer, EmbeddingServer, Reply, Request, ollama, openai, serving, vector

KEY = "sk-0123456789-do-not-show"
NOON = 1_800_000_000.0

_opened: list[Provider] = []


@pytest.fixture(autouse=True)
def closed_afterwards() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def kept(provider: Provider) -> Provider:
    _opened.append(provider)
    return provider


# --- servers


class Pauses:
    """In place of waiting: how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def retry_policy(self, **changes: Any) -> RetryPolicy:
        return RetryPolicy(**{"pause": self.seconds.append, "now": lambda: NOON, "jitter": lambda: 1.0, **changes})


def at_openai(
    server: EmbeddingServer, *, dimensions: int | None = None, key: str = KEY, **retry_policy: Any
) -> Provider:
    patient = Pauses().retry_policy(**retry_policy)
    return kept(
        OpenAIProvider(server.url + "/v1", "small", key=Secret(key), dimensions=dimensions, retry_policy=patient)
    )


def at_ollama(server: EmbeddingServer, *, dimensions: int | None = None, **retry_policy: Any) -> Provider:
    patient = Pauses().retry_policy(**retry_policy)
    return kept(OllamaProvider(server.url, "nomic", key=Secret(""), dimensions=dimensions, retry_policy=patient))


KINDS: dict[str, tuple[Callable[..., Provider], Answer]] = {
    "openai": (at_openai, openai),
    "ollama": (at_ollama, ollama),
}
each = pytest.mark.parametrize("kind", KINDS)


def unit(text: str) -> np.ndarray:
    found = np.array(vector(text))
    return found / np.linalg.norm(found)


def failing(answer: Answer | Sequence[Reply], kind: str = "openai", **changes: Any) -> tuple[str, int]:
    """What the user is told, and after how many requests."""
    replies = answer if callable(answer) else (lambda request: answer[request.number - 1])
    with serving(replies) as server:
        provider = KINDS[kind][0](server, **changes)
        with pytest.raises(EmbeddingFailed) as raised:
            provider.embed(["a", "b"])
        provider.close()
    assert KEY not in "".join(traceback.format_exception(raised.value))
    return str(raised.value), len(server.requests)


@each
def test_vectors_come_back_in_order_and_of_unit_length(kind: str) -> None:
    opened, answer = KINDS[kind]
    texts = [f"text {number}" for number in range(70)]
    with serving(answer) as server:
        provider = opened(server)
        vectors = provider.embed(texts)
        assert provider.embed([]).shape == (0, 8)
        provider.close()
    assert (vectors.shape, vectors.dtype) == ((70, 8), np.float32)
    assert np.allclose(vectors, [unit(text) for text in texts], atol=1e-6)
    assert [len(request.texts) for request in server.requests] == [32, 32, 6]
    assert server.connections == 1


def test_an_openai_request_has_the_form_of_the_api() -> None:
    with serving(openai) as server:
        at_openai(server).embed(["x"])
        at_openai(server, dimensions=8, key="").embed(["x"])
    plain, sized = server.requests
    assert plain.path == sized.path == "/v1/embeddings"
    assert plain.headers["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in sized.headers
    assert plain.body == {"model": "small", "input": ["x"], "encoding_format": "float"}
    assert sized.body == {**plain.body, "dimensions": 8}


def test_an_ollama_request_has_the_form_of_the_api() -> None:
    with serving(ollama) as server:
        at_ollama(server, dimensions=8).embed(["x"])
    assert server.requests[0].path == "/api/embed"
    assert server.requests[0].body == {"model": "nomic", "input": ["x"], "truncate": True}
    assert "Authorization" not in server.requests[0].headers


def test_base64_is_understood() -> None:
    def answer(request: Request) -> Reply:
        coded = base64.b64encode(np.array(vector("a"), "<f4").tobytes()).decode()
        return Reply({"data": [{"index": 0, "embedding": coded}]})

    with serving(answer) as server:
        assert np.allclose(at_openai(server).embed(["a"])[0], unit("a"), atol=1e-6)


@each
def test_what_cannot_be_sent_is_made_sendable(kind: str) -> None:
    opened, answer = KINDS[kind]
    with serving(answer) as server:
        opened(server).embed(["", " \n", "half \ud83d", "\u00e9" * MAX_TEXT_BYTES, "nul\0"])
    blank, space, half, long, nul = server.requests[0].texts
    assert (blank, space, half, nul) == (".", ".", "half ?", "nul\0")
    assert long == "\u00e9" * (MAX_TEXT_BYTES // 2)


@each
def test_the_name_holds_the_dimensions_once_the_server_has_answered(kind: str) -> None:
    opened, answer = KINDS[kind]
    model = {"openai": "small", "ollama": "nomic"}[kind]
    with serving(answer) as server:
        provider = opened(server)
        assert server.requests == []
        assert (provider.name, provider.dimensions) == (f"{kind}/{model}/8", 8)
        provider.embed(["x"])
        assert len(server.requests) == 2
        told = opened(server, dimensions=8)
        assert told.name == f"{kind}/{model}/8"
        assert len(server.requests) == 2


@each
def test_other_dimensions_than_set_or_learnt_are_refused(kind: str) -> None:
    opened, answer = KINDS[kind]
    message, asked = failing(answer, kind, dimensions=9)
    assert "of 8 dimensions" in message
    assert "the setting says 9" in message
    assert asked == 1
    sizes = iter([8, 9])

    def changing(request: Request) -> Reply:
        size = next(sizes)
        rows = [vector(text, size) for text in request.texts]
        return Reply({"embeddings": rows, "data": [{"index": i, "embedding": row} for i, row in enumerate(rows)]})

    with serving(changing) as server:
        provider = opened(server)
        provider.embed(["x"])
        with pytest.raises(EmbeddingFailed, match=r"of 9 dimensions .* it gave before 8"):
            provider.embed(["x"])


# --- servers that are busy, or gone


BUSY = Reply({"error": {"message": "slow down"}}, 429)
DOWN = Reply({"error": "starting"}, 503)


@each
@pytest.mark.parametrize("hiccup", [BUSY, DOWN, CLOSED], ids=["429", "503", "closed"])
def test_a_hiccup_is_got_over(kind: str, hiccup: Reply) -> None:
    opened, answer = KINDS[kind]
    pauses = Pauses()
    with serving(lambda request: hiccup if request.number < 4 else answer(request)) as server:
        found = opened(server, pause=pauses.seconds.append).embed(["x"])
    assert np.allclose(found[0], unit("x"), atol=1e-6)
    assert len(server.requests) == 4
    assert pauses.seconds == [0.5, 1.0, 2.0]


def test_a_kept_connection_that_the_server_closed_is_got_over() -> None:
    with serving(lambda request: CLOSED if request.number == 2 else openai(request)) as server:
        provider = at_openai(server)
        provider.embed(["x"])
        provider.embed(["x"])
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("86400", 60),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0),
        ("soon", 0.5),
        ("-3", 0.5),
        ("", 0.5),
    ],
)
def test_the_server_says_how_long_to_wait(retry_after: str, seconds: float) -> None:
    pauses = Pauses()
    busy = Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": retry_after})
    with serving(lambda request: busy if request.number == 1 else openai(request)) as server:
        at_openai(server, pause=pauses.seconds.append).embed(["x"])
    assert pauses.seconds == [seconds]


def test_pauses_grow_vary_and_end() -> None:
    least, most = (RetryPolicy(jitter=lambda part=part: part) for part in (0.0, 1.0))
    assert [least.seconds(attempt, None) for attempt in range(3)] == [0.25, 0.5, 1.0]
    assert [most.seconds(attempt, None) for attempt in range(3)] == [0.5, 1.0, 2.0]
    assert most.seconds(30, None) == 60


@each
def test_a_server_that_stays_busy_is_given_up(kind: str) -> None:
    message, asked = failing(lambda _: BUSY, kind)
    assert asked == 5
    assert "429: slow down (asked 5 times)" in message


@each
def test_a_server_that_is_not_there_is_given_up(kind: str) -> None:
    with serving(openai) as server:
        url = server.url
    made = {"openai": OpenAIProvider, "ollama": OllamaProvider}[kind]
    pauses = Pauses()
    with pytest.raises(EmbeddingFailed, match=rf"{url}.* cannot be reached.*\(asked 5 times\)"):
        kept(made(url, "m", key=Secret(KEY), retry_policy=pauses.retry_policy())).embed(["x"])
    assert len(pauses.seconds) == 4


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.search.providers.embedding_client.READ_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        provider = kept(OpenAIProvider(url, "m", key=Secret(KEY), retry_policy=Pauses().retry_policy(attempts=2)))
        with pytest.raises(EmbeddingFailed, match=r"did not answer in time \(asked 2 times\)"):
            provider.embed(["x"])


def test_closing_ends_a_call_that_waits_to_ask_again() -> None:
    pausing = threading.Event()

    def jitter() -> float:
        pausing.set()
        return 1.0

    with serving(lambda _: DOWN) as server, ThreadPoolExecutor(1) as pool:
        retry_policy = RetryPolicy(first_seconds=60, jitter=jitter)
        provider = kept(OpenAIProvider(server.url, "m", key=Secret(KEY), retry_policy=retry_policy))
        call = pool.submit(provider.embed, ["x"])
        assert pausing.wait(10)
        provider.close()
        with pytest.raises(EmbeddingFailed, match="closed"):
            call.result(10)
    assert len(server.requests) == 1


def test_closing_while_a_server_is_asked_ends_in_an_answer_or_in_words() -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(request: Request) -> Reply:
        asked.set()
        answer.wait(10)
        return openai(request)

    with serving(slow) as server, ThreadPoolExecutor(1) as pool:
        provider = kept(OpenAIProvider(server.url, "m", key=Secret(KEY)))
        call = pool.submit(provider.embed, ["x"])
        assert asked.wait(10)
        provider.close()
        answer.set()
        failure = call.exception(10)
        assert failure is None or isinstance(failure, EmbeddingFailed)
        with pytest.raises(EmbeddingFailed, match="closed"):
            provider.embed(["x"])


# --- servers that say no, or something strange


def test_a_refusal_is_shown_in_the_servers_words_and_not_repeated() -> None:
    message, asked = failing(lambda _: Reply({"error": {"message": "no such  model\nsmall"}}, 400))
    assert (message.partition("answered ")[2], asked) == ("400: no such model small", 1)
    message, _ = failing(lambda _: Reply(b"<h1>" + b"long " * 1000, 403))
    assert message.endswith("...")
    assert len(message) < 400
    message, _ = failing(lambda _: Reply(b"", 401))
    assert message.endswith("401: (nothing)")


def test_a_model_that_ollama_has_not_is_to_be_pulled() -> None:
    message, asked = failing(lambda _: Reply({"error": 'model "nomic" not found, try pulling it first'}, 404), "ollama")
    assert "ollama pull nomic" in message
    assert asked == 1


def test_a_redirect_is_not_followed() -> None:
    with serving(openai) as elsewhere:
        message, asked = failing(lambda _: Reply({}, 307, {"Location": elsewhere.url + "/v1/embeddings"}))
        assert elsewhere.requests == []
    assert "answered 307" in message
    assert asked == 1


def data(*vectors: Any, indexes: Sequence[Any] = (0, 1)) -> Reply:
    return Reply({"data": [{"index": i, "embedding": v} for i, v in zip(indexes, vectors, strict=True)]})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (data([1.0, 2.0], indexes=[0]), "gave 1 vectors for 2 texts"),
        (data([1.0], [2.0], [3.0], indexes=[0, 1, 2]), "gave 3 vectors for 2 texts"),
        (data(indexes=[]), "gave 0 vectors for 2 texts"),
        (data([1.0], [2.0], indexes=[0, 0]), "form"),
        (data([1.0], [2.0], indexes=[1, 2]), "form"),
        (data([1.0], [2.0], indexes=["0", []]), "form"),
        (data([1.0, 2.0], [1.0]), "form"),
        (data([1.0], "no base64!"), "form"),
        (data([], []), "without direction"),
        (data(1.0, 2.0), "form"),
        (data([{}], [{}]), "form"),
        (data([10**400], [1]), "form"),
        (data([float("nan")], [1.0]), "without direction"),
        (data([float("inf")], [1.0]), "without direction"),
        (data([1e300, 1e300], [1.0, 1.0]), "without direction"),
        (data([None], [1.0]), "without direction"),
        (data([0.0, 0.0], [1.0, 0.0]), "without direction"),
        (Reply([]), "form"),
        (Reply({"data": None}), "form"),
        (Reply({"error": "none"}), "form"),
        (Reply(b"<html>"), "not JSON"),
        (Reply(b"\xff\xfe"), "not JSON"),
        (Reply(b"", 204), "answered 204"),
    ],
)
def test_a_strange_answer_is_refused(reply: Reply, words: str) -> None:
    message, asked = failing(lambda _: reply)
    assert words in message
    assert asked == 1


@pytest.mark.parametrize("embeddings", [5, "five", None, {}, [[1.0]], [1.0, 2.0], [[[1.0]], [[2.0]]]], ids=repr)
def test_a_strange_answer_of_ollama_is_refused(embeddings: Any) -> None:
    message, asked = failing(lambda _: Reply({"embeddings": embeddings}), "ollama")
    assert "form" in message or "vectors for 2 texts" in message
    assert asked == 1


# --- the key


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_the_key_is_never_shown(status: int, caplog: pytest.LogCaptureFixture) -> None:
    def echo(request: Request) -> Reply:
        said = request.headers["Authorization"]
        return Reply({"error": {"message": "x" * 270 + f" you sent {said} and {said}"}}, status)

    with caplog.at_level(logging.DEBUG):
        message, _ = failing(echo)
    assert KEY[:6] not in message
    assert caplog.records, "the HTTP client logs at this level"
    assert KEY not in caplog.text


def test_a_message_that_holds_the_key_is_still_shown() -> None:
    message, _ = failing(lambda request: Reply({"error": {"message": f"bad key {KEY}."}}, 401))
    assert message.endswith("401: bad key [key].")
    assert KEY not in repr(Secret(KEY))
    assert KEY not in f"{Secret(KEY)}"


# --- opening


def opened(kind: str = "openai", **changes: Any) -> Provider | None:
    return open_provider(kind, **{"model": "", "url": "", "api_key_env": "", "environ": {}, **changes})


def test_settings_open_what_they_name() -> None:
    assert opened("none") is None
    assert isinstance(opened("bundled"), BundledProvider)
    assert isinstance(opened("bundled", model="all-MiniLM-L6-v2", dimensions=384), BundledProvider)
    hosted = opened(dimensions=1536)
    local = opened("ollama", dimensions=768)
    assert hosted is not None
    assert local is not None
    assert hosted.name == "openai/text-embedding-3-small/1536"
    assert local.name == "ollama/nomic-embed-text/768"


@pytest.mark.parametrize("end", ["", "/"])
def test_an_address_may_end_in_a_slash(end: str) -> None:
    with serving(lambda request: ollama(request) if "/api/" in request.path else openai(request)) as server:
        for kind, path in (("openai", "/base/embeddings"), ("ollama", "/base/api/embed")):
            provider = opened(
                kind, url=f"{server.url}/base{end}", model="m", api_key_env="K", environ={"K": f" {KEY}\n"}
            )
            assert provider is not None
            kept(provider).embed(["x"])
            assert server.requests[-1].path == path
            assert server.requests[-1].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "word2vec"}, "bundled, openai, ollama, none"),
        ({"kind": "bundled", "model": "large"}, "all-MiniLM-L6-v2 alone"),
        ({"kind": "bundled", "dimensions": 100}, "has 384"),
        ({"dimensions": 0}, "at least 1"),
        ({"api_key_env": "MY_KEY"}, "MY_KEY, which is not set"),
        ({"api_key_env": "MY_KEY", "environ": {"MY_KEY": " "}}, "MY_KEY, which is not set"),
        (
            {"api_key_env": "MY_KEY", "environ": {"MY_KEY": f"{KEY}\nX: y"}},
            "MY_KEY holds something that cannot be a key",
        ),
        (
            {"api_key_env": "MY_KEY", "environ": {"MY_KEY": f"{KEY}\u20ac"}},
            "MY_KEY holds something that cannot be a key",
        ),
        ({"url": "http://server/v1"}, "model must name"),
        ({"url": "server:80", "model": "m"}, "address of a server"),
        ({"url": "ftp://server", "model": "m"}, "address of a server"),
        ({"url": "http://", "model": "m"}, "address of a server"),
        ({"url": "http://[::1", "model": "m"}, "address of a server"),
        ({"url": "http://server:99999", "model": "m"}, "address of a server"),
        ({"url": "http://server/v1?key=1", "model": "m"}, "address of a server"),
        ({"url": f"http://me:{KEY}@server/v1", "model": "m"}, "api_key_env"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_what_to_do(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        opened(**changes)
    assert words in str(raised.value)
    assert KEY not in str(raised.value)
