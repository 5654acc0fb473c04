"""Checks of access: the [auth] settings, the port, and who else on this machine can read what is kept."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from carrel.doctor.checks import Finding, Subject, ok, one_line, problem, warning
from carrel.errors import CarrelError
from carrel.settings import FILE_NAME
from carrel.storage.database import SqliteLocation
from carrel.untrusted import load_json

if TYPE_CHECKING:
    from carrel.auth.jwt import Keys

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
    from carrel.auth.jwt import FileKeys, RemoteKeys

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


ANSWER_SECONDS = 2.0


def port(subject: Subject) -> Iterator[Finding]:
    server = subject.workspace.settings.server
    place = f"{server.host} port {server.port}"
    if server.port == 0:
        yield ok("port", "a free one is taken (server.port is 0)")
        return
    try:
        family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        socket.create_server((server.host, server.port), family=family).close()
        yield ok("port", f"{place} is free")
        return
    except OSError as error:
        number, reason = error.errno, error.strerror or str(error)
    if number == errno.EACCES:
        yield problem("port", f"{place}: {reason}", "set server.port to 1024 or more, behind a proxy")
    elif number != errno.EADDRINUSE:
        yield problem("port", f"{place}: {reason}", "set server.host to an address of this machine")
    else:
        yield _taken(server.host, server.port, place)


def _taken(host: str, number: int, place: str) -> Finding:
    answer = _readiness("127.0.0.1" if host in ("0.0.0.0", "") else host, number)  # noqa: S104 - compared, not listened on
    if answer is None:
        cure = f"set server.port to another, or find who has it: ss -ltnp 'sport = :{number}'"
        return problem("port", f"{place} is taken by another program: carrel serve --http cannot start", cure)
    if answer.get("status") == "ready":
        return ok("port", f"a Carrel answers at {place} and is ready")
    stores = ", ".join(f"{name} is {state}" for name, state in answer["stores"].items())
    return warning("port", f"a Carrel answers at {place} and is not ready: {stores}", "see its log, and what is above")


def _readiness(host: str, number: int) -> dict[str, Any] | None:
    """What a Carrel says at /readyz; None from anybody else."""
    request = f"GET /readyz HTTP/1.0\r\nHost: localhost:{number}\r\n\r\n".encode()
    answer = b""
    try:
        with socket.create_connection((host, number), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(request)
            while len(answer) < 65_536 and (part := connection.recv(4096)):
                answer += part
        found: Any = load_json(answer.partition(b"\r\n\r\n")[2])
    except (OSError, ValueError):
        return None
    match found:
        case {"stores": dict()}:
            return found
        case _:
            return None


OTHERS = stat.S_IRWXO


def permissions(subject: Subject) -> Iterator[Finding]:
    if os.name != "posix":
        yield ok("permissions", "not looked at on this system")
        return
    workspace = subject.workspace
    own = workspace.own_folder
    open_ones: list[tuple[Path, str, str]] = []
    if _is_open(own):
        open_ones.append((own, "everybody on this machine can look into", f"chmod -R o-rwx {own}"))
    location = workspace.location
    if isinstance(location, SqliteLocation) and own not in location.path.parents:
        open_ones += [
            (path, "everybody on this machine can read", f"chmod o-rwx {path}")
            for path in (location.path, Path(f"{location.path}-wal"))
            if _is_open(path)
        ]
    settings_file = workspace.folder / FILE_NAME
    if _is_open(settings_file) and _has_password(workspace.settings.database.url):
        why = "everybody on this machine can read the password in"
        open_ones.append((settings_file, why, f"chmod o-rwx {settings_file}, or give CARREL_DATABASE_URL instead"))
    for path, seen, cure in open_ones:
        yield warning("permissions", f"{seen} {path}", cure)
    if not open_ones:
        yield ok("permissions", "only this user and its group can read what is kept here")


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False


def _has_password(url: str) -> bool:
    user, separator, _ = url.partition("://")[2].rpartition("@")
    return bool(separator) and ":" in user
