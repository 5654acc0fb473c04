"""The issuer's keys: fetched, kept, rotated, missed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from carrel.auth.access import Access, AuthFailure
from carrel.auth.jwt import ALGORITHMS, FileKeySource, JwksKeySource, KeySource
from carrel.auth.jwt import Issuer as IssuerCheck
from carrel.auth.tokens import TokenAuthenticator
from carrel.errors import SettingsError
from tests.issuers import AUDIENCE, Issuer, Signer, issuer

pytestmark = pytest.mark.anyio


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def origin() -> Iterator[Issuer]:
    with issuer() as running:
        yield running


def authenticator(origin: Issuer, keys: KeySource) -> TokenAuthenticator:
    return TokenAuthenticator(IssuerCheck(origin.name, keys, ALGORITHMS, 0), audiences=[AUDIENCE])


async def opens(auth: TokenAuthenticator, token: str) -> bool | int:
    """Whether it does, or the status of what is no answer to that."""
    found = await auth.check([f"Bearer {token}"], [])
    if isinstance(found, Access):
        return True
    return False if found.status == 401 else found.status


@pytest.mark.rule("doors.tokens.rotation")
async def test_keys_are_fetched_once_and_kept_until_they_are_old(origin: Issuer) -> None:
    clock = Clock()
    keys = JwksKeySource(origin.jwks_url, clock)
    auth = authenticator(origin, keys)
    for _ in range(5):
        assert await opens(auth, origin.token()) is True
    assert origin.requests == 1
    clock.now += 601
    assert await opens(auth, origin.token()) is True
    assert origin.requests == 2
    await auth.close()


@pytest.mark.rule("doors.tokens.rotation")
@pytest.mark.parametrize(
    ("header", "seconds"), [("max-age=1", 60), ("public, max-age=900", 900), ("max-age=99999", 3600)]
)
async def test_the_issuer_says_how_long_within_reason(origin: Issuer, header: str, seconds: int) -> None:
    origin.headers["cache-control"] = header
    clock = Clock()
    auth = authenticator(origin, JwksKeySource(origin.jwks_url, clock))
    await opens(auth, origin.token())
    clock.now += seconds - 1
    await opens(auth, origin.token())
    assert origin.requests == 1
    clock.now += 2
    await opens(auth, origin.token())
    assert origin.requests == 2
    await auth.close()


@pytest.mark.rule("doors.tokens.rotation")
async def test_a_new_key_is_fetched_when_it_is_named_and_an_old_one_goes(origin: Issuer) -> None:
    clock = Clock()
    auth = authenticator(origin, JwksKeySource(origin.jwks_url, clock))
    before = origin.token()
    assert await opens(auth, before) is True
    second = Signer("second", "ES256")
    origin.published = [second.jwk]
    clock.now += 11
    assert await opens(auth, second.sign(origin.claims())) is True
    assert await opens(auth, before) is False, "what is no longer published signs nothing"
    await auth.close()


@pytest.mark.rule("doors.tokens.rotation")
async def test_tokens_that_name_unknown_keys_do_not_make_us_ask_all_the_time(origin: Issuer) -> None:
    clock = Clock()
    auth = authenticator(origin, JwksKeySource(origin.jwks_url, clock))
    assert await opens(auth, origin.token()) is True
    for number in range(50):
        assert await opens(auth, Signer(str(number), "EdDSA").sign(origin.claims())) is False
    assert origin.requests == 1
    clock.now += 11
    assert await opens(auth, Signer("more", "EdDSA").sign(origin.claims())) is False
    assert origin.requests == 2
    await auth.close()


@pytest.mark.rule("doors.tokens.outage")
@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 302},
        {"body": b"no JSON"},
        {"body": b"[]"},
        {"body": b'{"keys": 1}'},
        {"body": b'{"keys": []}'},
        {"body": b'{"keys": [1, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": "!", "y": 7}]}'},
        {"body": b'{"keys": [' + b" " * (2 << 20) + b"]}"},
        {"body": b"[" * 100_000},
    ],
)
async def test_while_the_issuer_fails_known_keys_go_on_and_none_is_no_refusal(
    origin: Issuer, fault: dict[str, Any]
) -> None:
    clock = Clock()
    known, fresh = (authenticator(origin, JwksKeySource(origin.jwks_url, clock)) for _ in range(2))
    assert await opens(known, origin.token()) is True
    for name, what in fault.items():
        setattr(origin, name, what)
    clock.now += 3700
    assert await opens(known, origin.token()) is True
    assert await opens(fresh, origin.token()) == 503
    clock.now += 86_400
    assert await opens(known, origin.token()) == 503, "not for ever"
    origin.status, origin.body = 200, None
    clock.now += 11
    assert await opens(known, origin.token()) is True
    assert await opens(fresh, origin.token()) is True
    await known.close()
    await fresh.close()


@pytest.mark.rule("doors.tokens.outage")
async def test_an_issuer_that_is_not_there_is_no_refusal() -> None:
    with issuer() as gone:
        token = gone.token()
    auth = authenticator(gone, JwksKeySource(gone.jwks_url))
    assert await opens(auth, token) == 503
    await auth.close()


@pytest.mark.rule("doors.tokens.file")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_keys_of_a_file_are_as_good(origin: Issuer, tmp_path: Path, algorithm: str) -> None:
    signer, other = Signer("a", algorithm), Signer("b", algorithm)
    path = tmp_path / "keys.pem"
    path.write_bytes(other.pem + signer.pem)
    auth = authenticator(origin, FileKeySource(path))
    assert await opens(auth, signer.sign(origin.claims())) is True
    assert await opens(auth, other.sign(origin.claims())) is True
    assert await opens(auth, Signer("a", algorithm).sign(origin.claims())) is False


@pytest.mark.rule("doors.tokens.file")
def test_a_file_that_holds_no_public_key_is_refused(tmp_path: Path) -> None:
    signer = Signer("a", "ES256")
    private = signer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    weak = Signer("weak", "RS256", rsa.generate_private_key(65537, 1024))  # noqa: S505 - what is to be refused
    broken = signer.pem.replace(b"M", b"!")
    path = tmp_path / "keys.pem"
    for content in (private, weak.pem, broken, b"", b'{"keys": []}', b"\xff\xfe", b"-----BEGIN PUBLIC KEY-----"):
        path.write_bytes(content)
        with pytest.raises(SettingsError, match=r"auth\.public_key_file"):
            FileKeySource(path)
    with pytest.raises(SettingsError, match="cannot read"):
        FileKeySource(tmp_path / "nowhere")


async def test_what_could_not_be_checked_is_told_from_what_is_wrong(origin: Issuer) -> None:
    auth = authenticator(origin, JwksKeySource(origin.jwks_url))
    assert await auth.check([], []) == AuthFailure(401, "no token")
    assert await auth.check(["Bearer x"], []) == AuthFailure(401, "bad token")
    await auth.close()
