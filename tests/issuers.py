"""An OAuth issuer on loopback: real keys, real signatures, a real JWKS address."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "https://desk.example"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(value: Any) -> str:
    return b64(json.dumps(value).encode())


class Signer:
    """A private key, and what is published of it."""

    def __init__(self, kid: str, algorithm: str, key: Any = None) -> None:
        makers: dict[str, Any] = {
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        self.kid = kid
        self.algorithm = algorithm
        self.key = key or makers[algorithm]()

    @property
    def jwk(self) -> dict[str, Any]:
        maker = jwt.get_algorithm_by_name(self.algorithm)
        return {**json.loads(maker.to_jwk(self.key.public_key())), "kid": self.kid, "use": "sig"}

    @property
    def pem(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        return jwt.encode(dict(claims), self.key, self.algorithm, headers={"kid": self.kid, **header})


def hmac_signed(secret: bytes, claims: Mapping[str, Any], **header: Any) -> str:
    """By hand, since libraries refuse a public key as a secret."""
    start = f"{encoded({'typ': 'JWT', 'alg': 'HS256', **header})}.{encoded(claims)}"
    return f"{start}.{b64(hmac.new(secret, start.encode(), hashlib.sha256).digest())}"


class Issuer:
    """Serves the keys that it is told to publish; `status` other than 200 is an outage."""

    def __init__(self) -> None:
        self.signer = Signer("first", "RS256")
        self.published: list[Any] = [self.signer.jwk]
        self.body: bytes | None = None
        self.headers: dict[str, str] = {}
        self.status = 200
        self.requests = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests += 1
                body = issuer.body or json.dumps({"keys": issuer.published}).encode()
                self.send_response(issuer.status)
                for name, text in {**issuer.headers, "content-length": str(len(body))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"http://127.0.0.1:{self._server.server_port}"
        self.jwks_url = f"{self.name}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Those of a good token; None leaves one out."""
        now = int(time.time())
        usual = {"iss": self.name, "aud": AUDIENCE, "sub": "ana", "exp": now + 600, "iat": now, "scope": "tasks"}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def token(self, **changes: Any) -> str:
        return self.signer.sign(self.claims(**changes))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def issuer() -> Iterator[Issuer]:
    running = Issuer()
    try:
        yield running
    finally:
        running.close()
