"""Checks of access: the [auth] settings, the port, and file permissions."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from carrel.doctor.checks import CheckContext, Finding, ok, one_line, problem, warning
from carrel.errors import CarrelError
from carrel.settings import FILE_NAME
from carrel.storage.database import SqliteLocation
from carrel.untrusted import load_json

if TYPE_CHECKING:
    from carrel.auth.jwt import KeySource

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def auth(context: CheckContext) -> Iterator[Finding]:
    settings = context.workspace.settings
    issuer, accepts_tokens = settings.auth.issuer, settings.auth.tokens
    is_local = settings.server.host in LOOPBACK_HOSTS
    if not issuer and not accepts_tokens:
        if is_local:
            yield ok("auth", f"off; {settings.server.host} is only reachable from this machine")
        else:
            seen = f"server.host is {settings.server.host}, and [auth] is not set: carrel serve --http refuses to start"
            cure = "set auth.tokens = true and run carrel token create, or set server.host to 127.0.0.1"
            yield problem("auth", seen, cure)
        return
    yield from _public_url(context, is_local=is_local)
    if issuer:
        yield from _issuer(context)
    else:
        yield ok("auth", "accepts tokens from carrel token create")


def _public_url(context: CheckContext, *, is_local: bool) -> Iterator[Finding]:
    """Check the address that tokens must be issued for, and that tokens do not cross the network unencrypted."""
    server, auth_settings = context.workspace.settings.server, context.workspace.settings.auth
    host = urlsplit(server.public_url).hostname or ""
    if not server.public_url:
        if not is_local and auth_settings.issuer and not auth_settings.audience:
            seen = f"server.host is {server.host}, and no audience is set for tokens: "
            cure = "set server.public_url to the address that clients use, or auth.audience"
            yield problem("auth", f"{seen}carrel serve --http refuses to start", cure)
        elif not is_local:
            cure = "set server.public_url to the address that clients use, such as https://desk.example.com"
            yield warning("auth", "server.public_url is not set: clients are sent the address in the Host header", cure)
        elif auth_settings.issuer and not auth_settings.audience:
            cure = "set server.public_url or auth.audience"
            yield warning(
                "auth",
                "neither server.public_url nor auth.audience is set: only tokens for loopback are accepted",
                cure,
            )
    elif server.public_url.startswith("http://") and host not in LOOPBACK_HOSTS:
        cure = "put a TLS proxy in front, and set server.public_url to its https:// address"
        yield problem(
            "auth", f"server.public_url is {server.public_url}: tokens would go over the network unencrypted", cure
        )


def _issuer(context: CheckContext) -> Iterator[Finding]:
    settings = context.workspace.settings.auth
    if not settings.jwks_url and not settings.public_key_file:
        cure = "set auth.jwks_url (its jwks_uri in ISSUER/.well-known/openid-configuration), or auth.public_key_file"
        yield problem("auth", f"auth.issuer is {settings.issuer}, and no source of its keys is set", cure)
        return
    from carrel.auth.jwt import FileKeySource, JwksKeySource

    source = settings.public_key_file or settings.jwks_url
    try:
        keys: KeySource
        if settings.public_key_file:
            keys = FileKeySource(context.workspace.folder / settings.public_key_file)
        else:
            keys = JwksKeySource(settings.jwks_url)
        count = asyncio.run(_count_keys(keys, settings.algorithms))
    except CarrelError as error:
        is_file = bool(settings.public_key_file)
        cure = "set auth.public_key_file to the issuer's public keys" if is_file else f"curl -fsS {source}"
        yield problem("auth", f"{one_line(error)} ({source})", cure)
        return
    if count:
        yield ok("auth", f"accepts JWTs from {settings.issuer}: {count} keys at {source}")
    else:
        seen = f"none of the keys at {source} is for {', '.join(settings.algorithms)}"
        yield problem("auth", seen, "set auth.algorithms to the algorithms that the issuer signs with")


async def _count_keys(keys: "KeySource", algorithms: tuple[str, ...]) -> int:
    try:
        found = [key for algorithm in algorithms for key in await keys.candidates(None, algorithm)]
        return len({id(key.public) for key in found})
    finally:
        await keys.close()


READINESS_TIMEOUT_SECONDS = 2.0


def port(context: CheckContext) -> Iterator[Finding]:
    server = context.workspace.settings.server
    address = f"{server.host} port {server.port}"
    if server.port == 0:
        yield ok("port", "a free port will be chosen (server.port is 0)")
        return
    try:
        family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        socket.create_server((server.host, server.port), family=family).close()
        yield ok("port", f"{address} is free")
        return
    except OSError as error:
        number, reason = error.errno, error.strerror or str(error)
    if number == errno.EACCES:
        yield problem("port", f"{address}: {reason}", "set server.port to 1024 or more, behind a proxy")
    elif number != errno.EADDRINUSE:
        yield problem("port", f"{address}: {reason}", "set server.host to an address of this machine")
    else:
        yield _port_in_use(server.host, server.port, address)


def _port_in_use(host: str, number: int, address: str) -> Finding:
    readiness = _readiness("127.0.0.1" if host in ("0.0.0.0", "") else host, number)  # noqa: S104 - compared, not listened on
    if readiness is None:
        cure = f"set server.port to another port, or find the program: ss -ltnp 'sport = :{number}'"
        return problem("port", f"{address} is in use by another program: carrel serve --http cannot start", cure)
    if readiness.get("status") == "ready":
        return ok("port", f"a Carrel server is running at {address} and is ready")
    stores = ", ".join(f"{name} is {state}" for name, state in readiness["stores"].items())
    return warning(
        "port",
        f"a Carrel server is running at {address} and is not ready: {stores}",
        "see the server's log, and the findings above",
    )


def _readiness(host: str, number: int) -> dict[str, Any] | None:
    """Return the /readyz document of a Carrel server, or None if another program has the port."""
    request = f"GET /readyz HTTP/1.0\r\nHost: localhost:{number}\r\n\r\n".encode()
    response = b""
    try:
        with socket.create_connection((host, number), timeout=READINESS_TIMEOUT_SECONDS) as connection:
            connection.sendall(request)
            while len(response) < 65_536 and (part := connection.recv(4096)):
                response += part
        found: Any = load_json(response.partition(b"\r\n\r\n")[2])
    except (OSError, ValueError):
        return None
    match found:
        case {"stores": dict()}:
            return found
        case _:
            return None


WORLD_PERMISSIONS = stat.S_IRWXO


def permissions(context: CheckContext) -> Iterator[Finding]:
    if os.name != "posix":
        yield ok("permissions", "not checked on this system")
        return
    workspace = context.workspace
    own_folder = workspace.own_folder
    exposed: list[tuple[Path, str, str]] = []
    if _is_world_accessible(own_folder):
        exposed.append((own_folder, "everyone on this machine can list", f"chmod -R o-rwx {own_folder}"))
    location = workspace.location
    if isinstance(location, SqliteLocation) and own_folder not in location.path.parents:
        exposed += [
            (path, "everyone on this machine can read", f"chmod o-rwx {path}")
            for path in (location.path, Path(f"{location.path}-wal"))
            if _is_world_accessible(path)
        ]
    settings_file = workspace.folder / FILE_NAME
    if _is_world_accessible(settings_file) and _has_password(workspace.settings.database.url):
        why = "everyone on this machine can read the password in"
        exposed.append((settings_file, why, f"chmod o-rwx {settings_file}, or set CARREL_DATABASE_URL instead"))
    for path, seen, cure in exposed:
        yield warning("permissions", f"{seen} {path}", cure)
    if not exposed:
        yield ok("permissions", "only this user and its group can read Carrel's files")


def _is_world_accessible(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & WORLD_PERMISSIONS)
    except OSError:
        return False


def _has_password(url: str) -> bool:
    user, separator, _ = url.partition("://")[2].rpartition("@")
    return bool(separator) and ":" in user
