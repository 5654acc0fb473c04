"""The interface of an embedding provider, and the type that keeps its key out of sight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from carrel.errors import CarrelError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class EmbeddingFailed(CarrelError):
    """The provider gave no vectors; the text says why, in words for a user, without the key."""


class ProviderMissing(UsageError):
    """The provider cannot run on this machine; the text says what to do. Text alone can still be served."""


@dataclass(frozen=True, slots=True)
class Limits:
    passages: int
    """Texts that are worth giving to one call of `embed`; more are split up."""

    tokens: int
    """About what is read of a text, in tokens; the rest is cut."""

    query_seconds: float
    """That a query waits for its vector."""


class Provider(Protocol):
    """Synchronous: run it in a thread. Any number of threads may call it at once.

    What a server's model is called in full is not known before the server has answered once. Reading `name` or
    `dimensions` then embeds one word: it takes the time of a call and raises `EmbeddingFailed`. So read them where
    `embed` may be called, not while starting.
    """

    @property
    def name(self) -> str:
        """Provider, model and revision, stored beside every vector: vectors of two names are never compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def limits(self) -> Limits: ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One row a text, in order, of unit length. Raises `EmbeddingFailed`."""
        ...

    def embed_query(self, text: str) -> Matrix:
        """One vector, which somebody waits for: given up within `limits.query_seconds`, as nearly as it goes."""
        ...

    def close(self) -> None:
        """Give back everything; a call that waits for a server ends soon, and one after this is `EmbeddingFailed`."""
        ...


REDACTED = "[key]"


class Secret:
    """Shows itself to nobody: neither in a log line, nor in a traceback's message, nor in what a server says back."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def redact(self, text: str) -> str:
        return text.replace(self._value, REDACTED) if self._value else text
