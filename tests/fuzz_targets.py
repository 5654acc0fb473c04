"""Servers to be sent anything at all, the thinnest way of sending it, and what an answer must be like."""

import itertools
import json
import os
import queue
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carrel.content.bundle.importer import import_content
from carrel.storage.database import locate
from tests.code_servers import learn, write_code_base
from tests.content_servers import write_bundle
from tests.databases import prepare_sqlite
from tests.fuzz_judge import Judge, Wrong
from tests.fuzzer import Input, Place
from tests.note_servers import NOTES
from tests.program import run_carrel_here
from tests.vaults import write
from tests.wire import CARREL, MODERN, HttpServer, HttpWire, StdioWire, call

TOOLSETS = ("tasks", "catalog", "bridge", "notes", "code", "journal")
PATHS = ("/mcp", *(f"/{name}/mcp" for name in TOOLSETS))
ANSWER_SECONDS = 25.0
LISTEN = "subscriptions/listen"
FEW_HEAPS = {"MALLOC_ARENA_MAX": "2"}
"""As `deploy/` has it: to see what the program keeps, and not what glibc has in hand for each of its threads."""
SETTINGS = """
[code.limits]
context_search = 0
read_file = 0
grep_codebase = 0
[embeddings]
provider = "{}"
"""


def desk(folder: Path, url: str = "", *, provider: str = "none") -> Path:
    """A workspace with something on it for every toolset; its database is at `url` or, without one, in the folder.

    With the `bundled` provider, `search` and `context_search` go by meaning too.
    """
    write_code_base(folder, SETTINGS.format(provider))
    write(folder / "notes", NOTES)
    if not url:
        url = f"sqlite:///{prepare_sqlite(folder / '.carrel' / 'carrel.db').path}"
    (folder / ".carrel").mkdir(exist_ok=True)
    import_content(locate(url, folder), [write_bundle(folder)])
    learn(folder, url)
    return folder


def tokens(folder: Path, url: str) -> list[bytes]:
    """One that opens everything, one that opens little, and some that open nothing."""
    made = [_token(folder, url, scopes) for scopes in ("admin", "notes:read,tasks")]
    return [*made, made[0][:-1], b"carrel_" + b"x" * 43, b"", b"a.b.c", b"eyJhbGciOiJub25lIn0.e30.", b"\xff\xfe"]


def _token(folder: Path, url: str, scopes: str) -> bytes:
    words = ("token", "create", "--user", "ana", "--scopes", scopes)
    done = run_carrel_here(*words, cwd=folder, CARREL_DATABASE_URL=url)
    assert done.returncode == 0, done
    return done.stdout.strip().encode()


@dataclass
class Target:
    server: HttpServer
    tokens: Sequence[bytes]
    places: list[Place]

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.server.url.removeprefix("http://").partition(":")
        return host, int(port)

    def resident(self) -> int:
        """Bytes of memory that the server has."""
        return resident(self.server.process.pid)

    def complaints(self) -> list[str]:
        return complaints(self.server.log)

    def still_answers(self) -> None:
        wire = HttpWire(MODERN, self.server.url, "/tasks/mcp")
        if self.tokens:
            wire.http.headers["Authorization"] = f"Bearer {self.tokens[0].decode()}"
        result = call(wire, "list_tasks", {"user_id": "ana", "status": "completed"})
        assert result["isError"] is False, result
        wire.close()


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def complaints(log: Sequence[str]) -> list[str]:
    """Lines of a log that say that something went wrong in the server."""
    bad = ('"level": "error"', '"level": "critical"', "Traceback", '"traceback"')
    return [line for line in log if any(word in line for word in bad)]


@contextmanager
def served(
    folder: Path, url: str = "", *, requires_auth: bool = False, program: Sequence[str] = CARREL
) -> Iterator[Target]:
    """All toolsets over HTTP, with what each endpoint lists."""
    env = FEW_HEAPS | ({"CARREL_AUTH_TOKENS": "true"} if requires_auth else {})
    database = ("--database", url) if url else ()
    known = tokens(folder, url or f"sqlite:///{folder}/.carrel/carrel.db") if requires_auth else ()
    server = HttpServer("--toolsets", ",".join(TOOLSETS), *database, cwd=folder, program=program, **env)
    try:
        places = [Place(path, _tools(server.url, path, known)) for path in PATHS]
        yield Target(server, known, places)
    finally:
        status = server.stop()
    assert status == 143, status


def _tools(url: str, path: str, known: Sequence[bytes]) -> list[dict[str, Any]]:
    wire = HttpWire(MODERN, url, path)
    if known:
        wire.http.headers["Authorization"] = f"Bearer {known[0].decode()}"
    found = wire.request("tools/list")["result"]["tools"]
    wire.close()
    return found


class Sender:
    """One connection at a time to a server, over which anything goes."""

    def __init__(self, address: tuple[str, int], places: list[Place]) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._file: Any = None
        self.judge = Judge(places)
        self.slowest = 0.0
        self.count = 0

    def send(self, sent: Input) -> str:
        """The kind of answer; raises `Wrong`."""
        self.count += 1
        head = b"".join(b"%s: %s\r\n" % each for each in sent.headers)
        request = b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n%s"
        data = request % (sent.method.encode(), sent.path.encode(), head, len(sent.body), sent.body)
        started = time.monotonic()
        try:
            status, headers, body = self._exchange(data, sent)
        except TimeoutError:
            self.close()
            raise Wrong(f"no answer within {ANSWER_SECONDS} s") from None
        self.slowest = max(self.slowest, time.monotonic() - started)
        if headers.get(b"connection") == b"close" or status >= 400:
            self.close()
        return self.judge.http(status, headers, body, sent)

    def _exchange(self, data: bytes, sent: Input) -> tuple[int, dict[bytes, bytes], bytes]:
        for _ in range(2):  # a server may end an idle connection whenever it likes
            try:
                self._connect()
                assert self._socket is not None
                with suppress(BrokenPipeError, ConnectionResetError):  # it may answer before it has read all
                    self._socket.sendall(data)
                return self._read(is_endless=b"listen" in sent.body)
            except (EOFError, ConnectionError):
                self.close()
        raise Wrong("the connection was closed without an answer")

    def _connect(self) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, ANSWER_SECONDS)
            self._file = self._socket.makefile("rb")

    def _read(self, *, is_endless: bool) -> tuple[int, dict[bytes, bytes], bytes]:
        line = self._file.readline()
        if not line:
            raise EOFError
        status = int(line.split()[1])
        headers: dict[bytes, bytes] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, text = line.partition(b":")
            headers[name.strip().lower()] = text.strip()
        if headers.get(b"transfer-encoding") != b"chunked":
            return status, headers, self._file.read(int(headers.get(b"content-length", b"0")))
        body = b""
        while size := int(self._file.readline(), 16):
            body += self._file.read(size)
            self._file.readline()
            if is_endless and body.endswith(b"\r\n\r\n"):
                self.close()
                return status, headers, body
        self._file.readline()
        return status, headers, body

    def close(self) -> None:
        if self._socket is not None:
            self._file.close()
            self._socket.close()
            self._socket = None


class LineSender:
    """A server on stdio. After each input something else is asked, so that silence is noticed."""

    def __init__(self, folder: Path, era: str, log: Path, program: Sequence[str] = CARREL) -> None:
        self._log = log
        with log.open("wb") as stderr:
            words = ("--toolsets", ",".join(each for each in TOOLSETS if each != "catalog"))
            self.wire = StdioWire(era, *words, cwd=folder, stderr=stderr, program=program, **FEW_HEAPS)
        self._numbers = itertools.count(1)
        self.places = [Place("/mcp", self.wire.request("tools/list")["result"]["tools"])]
        self.judge = Judge(self.places)
        self.slowest = 0.0

    def send(self, sent: Input) -> str:
        asked = f"asked {next(self._numbers)}"
        self.wire.send_bytes(sent.line)
        self.wire.send({**self.wire.message("tools/list"), "id": asked})
        awaited, is_awaited = asked, _wants_answer(sent.line)
        kinds: list[str] = []
        started = time.monotonic()
        while awaited or (is_awaited and not kinds):
            try:
                message = self.wire.receive(ANSWER_SECONDS)
            except queue.Empty:
                raise Wrong(f"no answer to {'the next call' if awaited else 'it'}") from None
            if message.get("id") == asked:
                awaited = ""
            elif not str(message.get("id")).startswith("asked ") and _may_answer(message.get("id"), sent.line):
                kinds.append(self.judge.message(message, sent))
        self.slowest = max(self.slowest, time.monotonic() - started)
        return kinds[-1] if kinds else "silence"

    def resident(self) -> int:
        return resident(self.wire.process.pid)

    def complaints(self) -> list[str]:
        return complaints(self._log.read_text(encoding="utf-8", errors="replace").splitlines())

    def close(self) -> None:
        status = self.wire.close()
        assert status == 0, status


def _may_answer(number: object, line: bytes) -> bool:
    """Whether an answer with this id can be that of a line. One that nobody waits for, such as that of a request
    whose id is a float, may come when the next lines have been sent."""
    if number is None:
        return True
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return not isinstance(message, dict) or message.get("id") == number


def _wants_answer(line: bytes) -> bool:
    """Whether a line surely is a request, or surely no message at all."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return bool(line.strip())
    if not isinstance(message, dict) or type(message.get("id")) not in (int, str):
        return False
    return message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str) and message["method"] != LISTEN
