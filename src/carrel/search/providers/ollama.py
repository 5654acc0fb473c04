"""Vectors from an Ollama server, over its own API: POST {url}/api/embed."""

from typing import Any

from carrel.search.providers.calling import Patience, Refused
from carrel.search.providers.protocol import EmbeddingFailed
from carrel.search.providers.remote import RemoteProvider
from carrel.search.providers.secret import Secret

DEFAULT_URL = "http://127.0.0.1:11434"
DEFAULT_MODEL = "nomic-embed-text"
NOT_FOUND = 404


class OllamaProvider(RemoteProvider):
    kind = "ollama"

    def __init__(
        self, url: str, model: str, *, key: Secret, dimensions: int | None = None, patience: Patience | None = None
    ) -> None:
        super().__init__(url.rstrip("/") + "/api/embed", model, key=key, dimensions=dimensions, patience=patience)

    def _body(self, texts: list[str]) -> dict[str, Any]:
        return {"model": self._model, "input": texts, "truncate": True}

    def _lists(self, answer: Any) -> list[Any]:
        return answer["embeddings"]

    def _refused(self, refused: Refused) -> EmbeddingFailed:
        if refused.status == NOT_FOUND:
            return EmbeddingFailed(f"Ollama has no model {self._model}: ollama pull {self._model} ({refused.message})")
        return super()._refused(refused)
