"""One JSON request to an embedding server: asked again while there is hope, and given up with words for a user."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, cast

from carrel.search.providers.provider import EmbeddingFailed, Secret

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_SECONDS = 10
READ_TIMEOUT_SECONDS = 60
MAX_ERROR_CHARACTERS = 300
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a server is asked, and how long is waited in between."""

    attempts: int = 5
    first_seconds: float = 0.5
    longest_seconds: float = 60
    """Also the most that is waited when the server itself says how long (Retry-After)."""

    total_seconds: float = math.inf
    """After which no answer is waited for any more."""

    pause: Callable[[float], object] | None = None
    """In place of waiting, for tests."""

    now: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random

    def seconds(self, attempt: int, retry_after: str | None) -> float:
        asked = self._asked(retry_after) if retry_after else None
        if asked is None:
            asked = self.first_seconds * 2**attempt * (0.5 + self.jitter() / 2)
        return min(asked, self.longest_seconds)

    def _asked(self, retry_after: str) -> float | None:
        """Seconds, or a date; None when it is neither."""
        if retry_after.strip().isdecimal():
            return float(retry_after)
        try:
            return max(0.0, parsedate_to_datetime(retry_after).timestamp() - self.now())
        except (ValueError, OverflowError):
            return None


class RequestRejected(Exception):
    """The server's own no: asking again would not help."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class EmbeddingClient:
    """Connections are kept and used again. Redirects are not followed: a key goes only where it was meant to go."""

    def __init__(self, url: str, key: Secret, retry_policy: RetryPolicy) -> None:
        self.url = url
        self._key = key
        self._retry_policy = retry_policy
        self._closed = Event()
        self._opening = Lock()
        self._client: httpx2.Client | None = None

    def post(self, body: Mapping[str, Any], retry_policy: RetryPolicy | None = None) -> Any:
        """The answer's JSON. Raises `RequestRejected` for a 4xx, and `EmbeddingFailed` for the rest."""
        retry_policy = retry_policy or self._retry_policy
        deadline = time.monotonic() + retry_policy.total_seconds
        why, asked = "", 0
        while not self._closed.is_set():
            outcome = self._try(body, deadline - time.monotonic())
            if not isinstance(outcome, _Retry):
                return outcome
            why, asked = outcome.why, asked + 1
            pause = retry_policy.seconds(asked - 1, outcome.retry_after)
            if asked == retry_policy.attempts or time.monotonic() + pause >= deadline:
                break
            (retry_policy.pause or self._closed.wait)(pause)
        if self._closed.is_set():
            raise EmbeddingFailed("the embedding provider was closed")
        raise EmbeddingFailed(f"{why} (asked {asked} times)" if asked > 1 else why)

    def close(self) -> None:
        self._closed.set()
        with self._opening:
            if self._client is not None:
                self._client.close()

    def _try(self, body: Mapping[str, Any], seconds: float) -> Any:
        import httpx2

        limit = httpx2.Timeout(min(READ_TIMEOUT_SECONDS, seconds), connect=min(CONNECT_TIMEOUT_SECONDS, seconds))
        try:
            response = self._connected().post(self.url, json=dict(body), headers=self._key.headers(), timeout=limit)
        except httpx2.TimeoutException:
            return _Retry(f"the embedding server at {self.url} did not answer in time")
        except httpx2.NetworkError as error:
            return _Retry(f"the embedding server at {self.url} cannot be reached: {self._shortened(str(error))}")
        except httpx2.RemoteProtocolError:
            return _Retry(f"the embedding server at {self.url} closed the connection without an answer")
        except RuntimeError:  # how a client says that it was closed meanwhile
            if not self._closed.is_set():
                raise
            return _Retry("")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise EmbeddingFailed(f"{self.url} cannot be asked: {self._shortened(str(error))}") from error
        return self._answer(response)

    def _answer(self, response: httpx2.Response) -> Any:
        status = response.status_code
        if status == TOO_MANY_REQUESTS or status >= 500:
            said = self._error_message(response)
            return _Retry(f"{self.url} answered {status}: {said}", response.headers.get("Retry-After"))
        if status >= 400:
            raise RequestRejected(status, self._error_message(response))
        if status != 200:
            raise EmbeddingFailed(f"{self.url} answered {status}, which is no answer to a request for embeddings")
        try:
            return response.json()
        except ValueError as error:
            raise EmbeddingFailed(f"{self.url} answered something that is not JSON") from error

    def _error_message(self, response: httpx2.Response) -> str:
        """`{"error": {"message": ...}}` is OpenAI's form, `{"error": ...}` Ollama's; the rest is shown as it is."""
        try:
            found: Any = response.json()
        except ValueError:
            return self._shortened(response.text)
        for name in ("error", "message"):
            if isinstance(found, dict):
                found = cast("dict[str, Any]", found).get(name, cast("dict[str, Any]", found))
        return self._shortened(found if isinstance(found, str) else response.text)

    def _shortened(self, text: str) -> str:
        text = " ".join(self._key.redact(text).split())
        return (text if len(text) <= MAX_ERROR_CHARACTERS else text[:MAX_ERROR_CHARACTERS] + "...") or "(nothing)"

    def _connected(self) -> httpx2.Client:
        import httpx2

        with self._opening:
            if self._closed.is_set():
                raise EmbeddingFailed("the embedding provider was closed")
            if self._client is None:
                self._client = httpx2.Client()
            return self._client


@dataclass(frozen=True, slots=True)
class _Retry:
    why: str
    retry_after: str | None = None
