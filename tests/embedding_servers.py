"""Embedding servers on loopback that answer as they are told, and remember what they were asked."""

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    number: int
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        return self.body["input"]


@dataclass(frozen=True)
class Reply:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


CLOSED = Reply()
"""The connection is closed without a word."""

Answer = Callable[[Request], Reply]


def vector(text: str, dimensions: int = 8) -> list[float]:
    """A vector that belongs to this text alone. It is not of unit length."""
    digest = hashlib.sha512(text.encode()).digest()
    return [float(byte) + 1 for byte in digest[:dimensions]]


def openai(request: Request) -> Reply:
    """In an order of its own, as the API allows."""
    data = [{"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(request.texts)]
    return Reply({"object": "list", "data": data[::-1], "model": request.body["model"]})


def ollama(request: Request) -> Reply:
    return Reply({"model": request.body["model"], "embeddings": [vector(text) for text in request.texts]})


class EmbeddingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.connections += 1
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, EmbeddingServer)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(len(server.requests) + 1, self.path, dict(self.headers.items()), body)
        server.requests.append(request)
        reply = server.answer(request)
        if reply is CLOSED:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        content = reply.encoded()
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in `requests`."""


@contextmanager
def serving(answer: Answer) -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
