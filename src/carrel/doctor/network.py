"""Where the server would listen: free, a Carrel already, or somebody else's."""

import errno
import socket
from collections.abc import Iterator
from typing import Any

from carrel.doctor.checks import Finding, Subject, ok, problem, warning
from carrel.untrusted import load_json

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
