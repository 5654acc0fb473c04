"""JWT access tokens: an issuer's public keys, and the checks of a token, whether or not the issuer follows RFC 9068."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from carrel.auth.access import SUBJECT_PATTERN, Access
from carrel.errors import CarrelError, SettingsError
from carrel.untrusted import load_json

FETCH_TIMEOUT_SECONDS = 5.0
MAX_JWKS_BYTES = 1 << 20
MAX_KEYS = 100
CACHE_SECONDS_RANGE = (60.0, 3600.0)
"""At least and at most, whatever the issuer's Cache-Control says;"""
DEFAULT_CACHE_SECONDS = 600.0
"""where it says nothing."""
FETCH_INTERVAL_SECONDS = 10.0
"""However many tokens name a key that is not known."""
MAX_STALE_SECONDS = 24 * 3600.0
"""That keys are still used while the issuer cannot be reached."""
MIN_RSA_BITS = 2048

CURVE_ALGORITHMS = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
ALGORITHMS = (*sorted(RSA_ALGORITHMS), *CURVE_ALGORITHMS.values(), "EdDSA")
"""Those that a public key verifies: with none of them can who knows it sign."""


log = logging.getLogger("carrel.doors")


class KeysUnavailable(CarrelError):
    """The issuer's keys cannot be had at the moment."""


class Key(NamedTuple):
    id: str | None
    algorithms: frozenset[str]
    public: Any


class KeySource(Protocol):
    async def candidates(self, key_id: str | None, algorithm: str) -> list[Key]:
        """The keys that may have signed; raises `KeysUnavailable`."""
        ...

    async def close(self) -> None: ...


class FileKeySource:
    """A PEM file with public keys or certificates, or a JWKS document."""

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
            self._keys = _keys_from_pem(text) if "-----BEGIN" in text else _keys_from_jwks(text)
        except (OSError, ValueError) as error:
            raise SettingsError(f"auth.public_key_file: cannot read {path}: {error}") from error
        if not self._keys:
            raise SettingsError(
                f"auth.public_key_file: there is no public key in {path} that can be used: it takes PEM public keys or "
                f"certificates, or a JWKS document, with RSA keys of {MIN_RSA_BITS} bits or more, EC or Ed25519 keys"
            )

    async def candidates(self, key_id: str | None, algorithm: str) -> list[Key]:
        return _matching_keys(self._keys, key_id, algorithm)

    async def close(self) -> None:
        pass


class JwksKeySource:
    """Fetched when they are first needed, when they are old, and when a token names one that is not among them."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._keys: list[Key] = []
        self._fresh_until = self._usable_until = self._next_fetch = -1.0
        self._fetch_lock = asyncio.Lock()
        self._client: Any = None

    async def candidates(self, key_id: str | None, algorithm: str) -> list[Key]:
        found = _matching_keys(self._keys, key_id, algorithm)
        if (not found or self._clock() > self._fresh_until) and self._clock() >= self._next_fetch:
            await self._fetch_shared()
            found = _matching_keys(self._keys, key_id, algorithm)
        if self._clock() > self._usable_until:
            raise KeysUnavailable("the issuer's keys could not be fetched")
        return found

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _fetch_shared(self) -> None:
        """Whoever comes while it is being fetched waits for that."""
        before = self._next_fetch
        async with self._fetch_lock:
            if self._next_fetch == before:
                await self._fetch()
                self._next_fetch = self._clock() + FETCH_INTERVAL_SECONDS

    async def _fetch(self) -> None:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=FETCH_TIMEOUT_SECONDS, follow_redirects=False)
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_SECONDS), self._client.stream("GET", self._url) as response:
                response.raise_for_status()
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_JWKS_BYTES:
                        raise ValueError("the answer is too large")
                keys = _keys_from_jwks(body.decode())
            if not keys:
                raise ValueError("there is no key in the answer that can be used")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            log.warning("the issuer's keys could not be fetched: %s", reason)
            return
        now = self._clock()
        self._keys = keys
        self._fresh_until = now + _cache_seconds(response.headers.get("cache-control", ""))
        self._usable_until = now + MAX_STALE_SECONDS


def _cache_seconds(cache_control: str) -> float:
    least, most = CACHE_SECONDS_RANGE
    found = re.search(r"max-age\s*=\s*(\d{1,9})", cache_control)
    return min(max(float(found[1]), least), most) if found else DEFAULT_CACHE_SECONDS


def _matching_keys(keys: list[Key], key_id: str | None, algorithm: str) -> list[Key]:
    """By its id; a key or a token without one fits every other by its kind."""
    return [
        key for key in keys if algorithm in key.algorithms and (key_id is None or key.id is None or key.id == key_id)
    ]


def _keys_from_jwks(text: str) -> list[Key]:
    """Raises `ValueError` for what is no JWKS; keys of other kinds and for other purposes are left out."""
    found: Any = load_json(text)
    entries = cast("dict[str, Any]", found).get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it is no JWKS document")
    several = cast("list[Any]", entries)[:MAX_KEYS]
    return [key for each in several if isinstance(each, dict) and (key := _key_from_jwk(cast("dict[str, Any]", each)))]


def _key_from_jwk(jwk: Mapping[str, Any]) -> Key | None:
    import jwt

    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
        return None
    if jwk.get("kty") not in ("RSA", "EC", "OKP"):  # of a shared secret, who can verify can sign
        return None
    try:
        public = jwt.PyJWK({**jwk, "alg": jwk.get("alg") or _default_algorithm(jwk)}).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if hasattr(public, "public_key"):  # somebody has published a private key
        return None
    algorithms = _algorithms(public)
    named = jwk.get("alg")
    if named is not None:
        algorithms &= {named}
    return Key(jwk.get("kid"), algorithms, public) if algorithms else None


def _default_algorithm(jwk: Mapping[str, Any]) -> str:
    if jwk["kty"] == "RSA":
        return "RS256"
    return CURVE_ALGORITHMS.get(str(jwk.get("crv")), "EdDSA")


def _keys_from_pem(text: str) -> list[Key]:
    """Raises `ValueError` for what is no PEM."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    keys: list[Key] = []
    for block in re.findall(r"-----BEGIN [A-Z ]+-----.+?-----END [A-Z ]+-----", text, re.DOTALL):
        if "PRIVATE KEY" in block:
            raise SettingsError(
                "auth.public_key_file holds a private key, which belongs to the issuer alone; give the public one"
            )
        data = block.encode()
        is_certificate = "BEGIN CERTIFICATE" in block
        public = load_pem_x509_certificate(data).public_key() if is_certificate else load_pem_public_key(data)
        if algorithms := _algorithms(public):
            keys.append(Key(None, algorithms, public))
    return keys


def _algorithms(public: Any) -> frozenset[str]:
    """Those that a key is for, by what it is."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    match public:
        case RSAPublicKey():
            return RSA_ALGORITHMS if public.key_size >= MIN_RSA_BITS else frozenset()
        case EllipticCurvePublicKey():
            by_name = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
            found = by_name.get(public.curve.name)
            return frozenset({found}) if found else frozenset()
        case Ed25519PublicKey() | Ed448PublicKey():
            return frozenset({"EdDSA"})
        case _:
            return frozenset()


MAX_TOKEN_LENGTH = 16_384
MAX_EXPIRY = 253_402_300_799
"""The last second that has a four-digit year."""
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
DEFAULT_PROJECTS_CLAIM = "carrel_projects"
_TIME_CLAIMS = ("exp", "nbf", "iat")
TOKEN_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens are taken, and what must be in them."""

    name: str
    keys: KeySource
    algorithms: Collection[str]
    leeway: int
    """Seconds by which clocks may differ."""
    projects_claim: str = ""
    """The claim that names the only projects that a token opens, which every token must then have to open any. Empty:
    `carrel_projects` limits the tokens that have it."""

    async def check(self, text: str, audiences: Collection[str]) -> Access | None:
        """What a token opens, if it was made for one of the audiences; raises `KeysUnavailable`."""
        import jwt

        if len(text) > MAX_TOKEN_LENGTH or _COMPACT.fullmatch(text) is None:
            return None
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        algorithm, key_id = header.get("alg"), header.get("kid")
        is_usual = "crit" not in header and str(header.get("typ", "JWT")).lower() in TOKEN_TYPES
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            return None
        if algorithm not in self.algorithms or not is_usual:
            return None
        for key in await self.keys.candidates(key_id, algorithm):
            if (claims := self._claims(text, key.public, algorithm, audiences)) is not None:
                return self._access(claims)
        return None

    def _claims(self, text: str, public: Any, algorithm: str, audiences: Collection[str]) -> Mapping[str, Any] | None:
        import jwt

        try:
            return jwt.decode(
                text,
                public,
                algorithms=[algorithm],
                audience=list(audiences),
                issuer=self.name,
                leeway=self.leeway,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None

    def _access(self, claims: Mapping[str, Any]) -> Access | None:
        if not all(
            type(claims[name]) in (int, float) for name in _TIME_CLAIMS if name in claims
        ):  # PyJWT takes text, too
            return None
        subject, until = claims["sub"], int(claims["exp"])
        if not isinstance(subject, str) or SUBJECT_PATTERN.fullmatch(subject) is None or until > MAX_EXPIRY:
            return None
        scopes = frozenset(_strings(claims.get("scope"))) | frozenset(_strings(claims.get("scp")))
        return Access(subject, scopes, self._projects(claims), float(until))

    def _projects(self, claims: Mapping[str, Any]) -> frozenset[str] | None:
        if self.projects_claim:
            return frozenset(_strings(claims.get(self.projects_claim)))
        given = claims.get(DEFAULT_PROJECTS_CLAIM)
        return None if given is None else frozenset(_strings(given))


def _strings(value: object) -> list[str]:
    """Scopes come as one string with blanks, or as a list."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [each for each in cast("list[object]", value) if isinstance(each, str)]
    return []
