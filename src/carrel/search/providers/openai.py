"""Vectors from any server that speaks OpenAI's embeddings API: POST {url}/embeddings."""

import base64
from typing import Any

from carrel.search.providers.calling import Patience
from carrel.search.providers.remote import RemoteProvider
from carrel.search.providers.secret import Secret

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"


class OpenAIProvider(RemoteProvider):
    """`url` is the base that has `/embeddings` below it, for most servers one that ends in /v1."""

    kind = "openai"

    def __init__(
        self, url: str, model: str, *, key: Secret, dimensions: int | None = None, patience: Patience | None = None
    ) -> None:
        super().__init__(url.rstrip("/") + "/embeddings", model, key=key, dimensions=dimensions, patience=patience)

    def _body(self, texts: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        return body if self._wanted is None else {**body, "dimensions": self._wanted}

    def _lists(self, answer: Any) -> list[Any]:
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
