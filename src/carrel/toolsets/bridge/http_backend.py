"""The backend API over a socket."""

import asyncio

import httpx2

from carrel.toolsets.bridge.backend import PROJECTS_HEADER, BackendUnavailable, Parameters, Reply

BACKEND_TIMEOUT_SECONDS = 30


class RemoteBackend:
    """A backend API at a URL, over reused connections."""

    def __init__(self, url: str, *, token: str = "", seconds: float = BACKEND_TIMEOUT_SECONDS) -> None:
        """Take the server's own token; a caller's token is for this server alone and is never passed on."""
        self._url = url.rstrip("/")
        self._seconds = seconds
        headers = {"authorization": f"Bearer {token}"} if token else None
        self._client = httpx2.AsyncClient(timeout=seconds, headers=headers)

    async def get(self, path: str, parameters: Parameters, headers: Parameters) -> Reply:
        request = self._client.build_request("GET", self._url + path, params=dict(parameters), headers=dict(headers))
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._send(request)
                try:
                    if response.status_code == 200 and response.headers.get(PROJECTS_HEADER) != headers.get(
                        PROJECTS_HEADER
                    ):
                        raise BackendUnavailable("the backend cannot limit its answers to a caller's projects")
                    return Reply(response.status_code, await response.aread())
                finally:
                    await response.aclose()
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise BackendUnavailable(f"the backend timed out: no answer within {self._seconds:g} seconds") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, OverflowError) as error:
            raise BackendUnavailable("the backend is unreachable") from error

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, once more if a reused connection was closed by the backend: a read is safe to repeat."""
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            return await self._client.send(request, stream=True)

    async def close(self) -> None:
        await self._client.aclose()
