"""Embedding providers on a server: OpenAI's API and Ollama's."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from carrel.search.providers.embedding_client import EmbeddingClient, RequestRejected, RetryPolicy
from carrel.search.providers.provider import EmbeddingFailed, Limits, Secret

if TYPE_CHECKING:
    from carrel.search.providers.provider import Matrix

MAX_TEXT_BYTES = 8_000
"""What is sent of a text, in UTF-8: never more tokens than OpenAI's models take (8,191), about 2,000 of English."""

EMPTY_TEXT_REPLACEMENT = "."
"""Sent for a text without any character to read: servers refuse an empty one."""

PROBE_TEXT = "probe"

QUERY_ATTEMPTS = 2
"""For a query: a kept connection that the server has closed is got over, and one bad moment."""
QUERY_RETRY_SECONDS = 0.2


class RemoteProvider(ABC):
    kind: str
    limits = Limits(passages=32, tokens=2_000, query_seconds=2.0)
    """32 texts are what every known server takes at once."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: Secret,
        dimensions: int | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._model = model
        self._configured_dimensions = dimensions
        self._dimensions_lock = Lock()
        self._known_dimensions = dimensions
        self._client = EmbeddingClient(url, key, retry_policy or RetryPolicy())

    @property
    def name(self) -> str:
        return f"{self.kind}/{self._model}/{self.dimensions}"

    @property
    def dimensions(self) -> int:
        """As set, or as the first answer had them; asks for one vector when there was none yet."""
        while self._known_dimensions is None:
            self.embed([PROBE_TEXT])
        return self._known_dimensions

    def embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        size = self.limits.passages
        parts = [self._embed_batch(texts[start : start + size]) for start in range(0, len(texts), size)]
        return np.concatenate(parts) if parts else np.empty((0, self._known_dimensions or 0), np.float32)

    def embed_query(self, text: str) -> Matrix:
        return self._embed_batch(
            [text], RetryPolicy(QUERY_ATTEMPTS, QUERY_RETRY_SECONDS, total_seconds=self.limits.query_seconds)
        )[0]

    def close(self) -> None:
        self._client.close()

    @abstractmethod
    def _body(self, texts: list[str]) -> dict[str, Any]:
        """What is posted."""

    @abstractmethod
    def _vectors_in(self, answer: Any) -> list[Any]:
        """The vectors in the answer, in order. Raises LookupError, TypeError or ValueError for another form."""

    def _rejection(self, rejected: RequestRejected) -> EmbeddingFailed:
        return EmbeddingFailed(f"{self._client.url} answered {rejected.status}: {rejected.message}")

    def _embed_batch(self, texts: Sequence[str], retry_policy: RetryPolicy | None = None) -> Matrix:
        try:
            answer = self._client.post(self._body([_sendable(text) for text in texts]), retry_policy)
        except RequestRejected as rejected:
            raise self._rejection(rejected) from None
        return self._checked(answer, len(texts))

    def _checked(self, answer: Any, count: int) -> Matrix:
        import numpy as np

        url = self._client.url
        try:
            lists = self._vectors_in(answer)
            vectors = np.array(lists, np.float64)
            if len(lists) == count and vectors.ndim != 2:
                raise ValueError(f"{vectors.ndim} axes")
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise EmbeddingFailed(f"{url} answered in a form that is not the one of embeddings") from error
        if len(lists) != count:
            raise EmbeddingFailed(f"{url} gave {len(lists)} vectors for {count} texts")
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbeddingFailed(f"{url} gave a vector without direction: all zeros, or not of finite numbers")
        self._remember_dimensions(vectors.shape[1])
        return (vectors / lengths).astype(np.float32)

    def _remember_dimensions(self, dimensions: int) -> None:
        with self._dimensions_lock:
            if self._known_dimensions is None:
                self._known_dimensions = dimensions
            if self._known_dimensions == dimensions:
                return
        source = "the setting says" if self._configured_dimensions is not None else "it gave before"
        raise EmbeddingFailed(
            f"{self._client.url} gave vectors of {dimensions} dimensions for {self._model}, "
            f"but {source} {self._known_dimensions}"
        )


def _sendable(text: str) -> str:
    """UTF-8 has no half of a surrogate pair; a character that the limit would cut through is left out."""
    sent = text.encode("utf-8", "replace")[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
    return sent if sent.strip() else EMPTY_TEXT_REPLACEMENT


OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "text-embedding-3-small"


class OpenAIProvider(RemoteProvider):
    """`url` is the base that has `/embeddings` below it, for most servers one that ends in /v1."""

    kind = "openai"

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: Secret,
        dimensions: int | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        super().__init__(
            url.rstrip("/") + "/embeddings", model, key=key, dimensions=dimensions, retry_policy=retry_policy
        )

    def _body(self, texts: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        return body if self._configured_dimensions is None else {**body, "dimensions": self._configured_dimensions}

    def _vectors_in(self, answer: Any) -> list[Any]:
        found = {item["index"]: _numbers(item["embedding"]) for item in answer["data"]}
        if len(found) != len(answer["data"]):
            raise ValueError("an index was given twice")
        return [found[index] for index in range(len(found))]


def _numbers(embedding: Any) -> Any:
    """Some servers answer in base64 whatever they are asked for: float32, least byte first."""
    if not isinstance(embedding, str):
        return embedding
    import numpy as np

    return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")


OLLAMA_URL = "http://127.0.0.1:11434"
OLLAMA_MODEL = "nomic-embed-text"
NOT_FOUND = 404


class OllamaProvider(RemoteProvider):
    kind = "ollama"

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: Secret,
        dimensions: int | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        super().__init__(
            url.rstrip("/") + "/api/embed", model, key=key, dimensions=dimensions, retry_policy=retry_policy
        )

    def _body(self, texts: list[str]) -> dict[str, Any]:
        return {"model": self._model, "input": texts, "truncate": True}

    def _vectors_in(self, answer: Any) -> list[Any]:
        return answer["embeddings"]

    def _rejection(self, rejected: RequestRejected) -> EmbeddingFailed:
        if rejected.status == NOT_FOUND:
            return EmbeddingFailed(f"Ollama has no model {self._model}: ollama pull {self._model} ({rejected.message})")
        return super()._rejection(rejected)
