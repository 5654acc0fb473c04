"""Who may come in: the [auth] settings against where the server listens, and the issuer's keys."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carrel.doctor.checks import Finding, Subject, ok, one_line, problem, warning
from carrel.errors import CarrelError

if TYPE_CHECKING:
    from carrel.doors.keys import Keys

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def auth(subject: Subject) -> Iterator[Finding]:
    settings = subject.workspace.settings
    issuer, takes_tokens = settings.auth.issuer, settings.auth.tokens
    is_local = settings.server.host in LOOPBACK
    if not issuer and not takes_tokens:
        if is_local:
            yield ok("auth", f"off, and only this machine reaches {settings.server.host}")
        else:
            seen = f"server.host is {settings.server.host}, and [auth] is not set: carrel serve --http refuses to start"
            cure = "set auth.tokens = true and run carrel token create, or set server.host to 127.0.0.1"
            yield problem("auth", seen, cure)
        return
    yield from _address(subject, is_local=is_local)
    if issuer:
        yield from _issuer(subject)
    else:
        yield ok("auth", "tokens of carrel token create")


def _address(subject: Subject, *, is_local: bool) -> Iterator[Finding]:
    """What clients are told to ask a token for, and whether it goes over the network in the clear."""
    server, auth_settings = subject.workspace.settings.server, subject.workspace.settings.auth
    host = urlsplit(server.public_url).hostname or ""
    if not server.public_url:
        if not is_local and auth_settings.issuer and not auth_settings.audience:
            seen = f"server.host is {server.host}, and nothing says whom a token must be made for: "
            cure = "set server.public_url to the address that clients use, or auth.audience"
            yield problem("auth", f"{seen}carrel serve --http refuses to start", cure)
        elif not is_local:
            cure = "set server.public_url to the address that clients use, such as https://desk.example.com"
            yield warning("auth", "server.public_url is not set: clients are told the address of the Host header", cure)
        elif auth_settings.issuer and not auth_settings.audience:
            cure = "set server.public_url or auth.audience"
            yield warning("auth", "neither server.public_url nor auth.audience is set: only loopback tokens fit", cure)
    elif server.public_url.startswith("http://") and host not in LOOPBACK:
        cure = "put a proxy with TLS in front, and https:// into server.public_url"
        yield problem(
            "auth", f"server.public_url is {server.public_url}: tokens would go over the network unencrypted", cure
        )


def _issuer(subject: Subject) -> Iterator[Finding]:
    settings = subject.workspace.settings.auth
    if not settings.jwks_url and not settings.public_key_file:
        cure = "set auth.jwks_url (its jwks_uri in ISSUER/.well-known/openid-configuration), or auth.public_key_file"
        yield problem("auth", f"auth.issuer is {settings.issuer}, and there is nowhere to get its keys", cure)
        return
    from carrel.doors.keys import FileKeys, RemoteKeys

    source = settings.public_key_file or settings.jwks_url
    try:
        keys: Keys
        if settings.public_key_file:
            keys = FileKeys(subject.workspace.folder / settings.public_key_file)
        else:
            keys = RemoteKeys(settings.jwks_url)
        count = asyncio.run(_count(keys, settings.algorithms))
    except CarrelError as error:
        is_file = bool(settings.public_key_file)
        cure = "set auth.public_key_file to the issuer's public keys" if is_file else f"curl -fsS {source}"
        yield problem("auth", f"{one_line(error)} ({source})", cure)
        return
    if count:
        yield ok("auth", f"JWTs of {settings.issuer}: {count} keys at {source}")
    else:
        seen = f"none of the keys at {source} is for {', '.join(settings.algorithms)}"
        yield problem("auth", seen, "set auth.algorithms to what the issuer signs with")


async def _count(keys: "Keys", algorithms: tuple[str, ...]) -> int:
    try:
        found = [key for algorithm in algorithms for key in await keys.candidates(None, algorithm)]
        return len({id(key.public) for key in found})
    finally:
        await keys.close()
