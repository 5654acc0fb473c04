"""Clients of a fleet that know what they must be answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

MODERN = "2026-07-28"
DOUBT_SECONDS = 15.0
"""After which what was in doubt and has not shown did not happen."""
RESPONSE_TIMEOUT_SECONDS = 45.0
WRITES = ("add_task", "complete_task", "update_task", "delete_task")

Address = tuple[str, int]
Arguments = dict[str, Any]
Known = dict[int, tuple[str, bool]]


class Call(NamedTuple):
    what: str
    start: float
    end: float
    outcome: str


@dataclass(slots=True)
class Tally:
    done: list[Call] = field(default_factory=list[Call])
    failed: list[Call] = field(default_factory=list[Call])
    wrong: list[str] = field(default_factory=list[str])

    @property
    def writes(self) -> int:
        return sum(call.what in WRITES for call in self.done)


class Failed(Exception):
    """No answer, or none that says what came of it."""


class Wire:
    """A kept connection, made anew when it was lost."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._numbers = count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, path: str, tool: str, arguments: Arguments) -> tuple[bool, str]:
        """Whether the tool answered an error, and its text."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "fleet", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call", "params": params}
        body = json.dumps(message).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json, text/event-stream\r\n"
            f"content-type: application/json\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\n"
            f"mcp-name: {tool}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
                status, answer = await self._exchange(head.encode() + body)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            self.close()
            raise Failed(f"{type(error).__name__} {error}") from error
        if status != 200:
            raise Failed(f"status {status}")
        result = json.loads(answer)["result"]
        return bool(result.get("isError")), result["content"][0]["text"]

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(request)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        body = await self._reader.readexactly(length)
        if "connection: close" in head:
            self.close()
        return int(head.split()[1]), body

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


class Read(NamedTuple):
    path: str
    tool: str
    arguments: Arguments
    text: str
    """What it must be answered, to the byte."""


async def expected_reads(address: Address) -> list[Read]:
    wire = Wire(address)
    reads: list[Read] = []

    async def remember(path: str, tool: str, arguments: Arguments) -> Any:
        is_error, text = await wire.call(path, tool, arguments)
        if is_error:
            raise RuntimeError(text)
        reads.append(Read(path, tool, arguments, text))
        return json.loads(text)

    for project in (await remember("/catalog/mcp", "list_projects", {}))["projects"]:
        here = {"projectId": project["id"]}
        found = await remember("/catalog/mcp", "search_entities", {**here, "query": "a"})
        for entity in found["entities"][:5]:
            await remember("/catalog/mcp", "get_entity", {**here, "entityId": entity["id"]})
            await remember("/catalog/mcp", "get_entity_graph", {**here, "entityId": entity["id"], "depth": 2})
            await remember("/bridge/mcp", "get_entity", {**here, "entityId": entity["id"]})
        await remember("/bridge/mcp", "list_search_performance", here)
        await remember("/bridge/mcp", "list_quotable_blocks", here)
    wire.close()
    return reads


class Client:
    def __init__(self, address: Address, number: int, reads: list[Read], tally: Tally) -> None:
        self._wire = Wire(address)
        self._user = f"user-{number}"
        self._reads = reads
        self._tally = tally
        self._random = random.Random(number)

    async def turn(self) -> None:
        await self._read()

    async def _read(self) -> None:
        read = self._random.choice(self._reads)
        answer = await self._call(read.path, read.tool, read.arguments)
        if answer is not None and answer != read.text:
            self._tally.wrong.append(f"{read.tool} {read.arguments}: {answer[:200]}")

    async def _call(self, path: str, tool: str, arguments: Arguments) -> str | None:
        """The text of its answer; None where it failed."""
        start = time.monotonic()
        try:
            is_error, text = await self._wire.call(path, tool, arguments)
        except Failed as failure:
            is_error, text = True, str(failure)
        call = Call(tool, start, time.monotonic(), "ok" if not is_error else text[:200])
        (self._tally.failed if is_error else self._tally.done).append(call)
        if is_error:
            await asyncio.sleep(0.1)
        return None if is_error else text


class Reader(Client):
    """Reads content, nothing else."""


class Doubt(NamedTuple):
    """A write of which it is not known whether it happened."""

    since: float
    tool: str
    id: int
    title: str


class TaskUser(Client):
    """Half of its calls are reads of content, the others are of its own tasks, of which it knows what they must be."""

    def __init__(self, address: Address, number: int, reads: list[Read], tally: Tally) -> None:
        super().__init__(address, number, reads, tally)
        self._known: Known = {}
        self._doubts: list[Doubt] = []
        self._titles = count(1)

    async def turn(self) -> None:
        chosen = self._random.random()
        if chosen < 0.5:
            await self._read()
        elif chosen < 0.7 or not self._known:
            await self._write("add_task", 0, f"{self._user} task {next(self._titles)}")
        elif chosen < 0.8:
            await self._look()
        else:
            tool = self._random.choice(("complete_task", "update_task", "delete_task"))
            await self._write(tool, self._random.choice(list(self._known)), f"changed {next(self._titles)}")

    async def last_look(self) -> list[str]:
        """What is not as it must be, once all is over."""
        before = len(self._tally.wrong)
        self._doubts = [doubt._replace(since=time.monotonic()) for doubt in self._doubts]
        if await self._look() is None:
            return [f"{self._user}: no answer at the end"]
        return self._tally.wrong[before:]

    async def _write(self, tool: str, task: int, title: str) -> None:
        if any(doubt.id == task for doubt in self._doubts if doubt.tool != "add_task"):
            await self._look()
            return
        arguments: Arguments = {"user_id": self._user}
        if tool != "add_task":
            arguments["task_id"] = task
        if tool in ("add_task", "update_task"):
            arguments["title"] = title
        answer = await self._call("/tasks/mcp", tool, arguments)
        if answer is None:
            self._doubts.append(Doubt(time.monotonic(), tool, task, title))
        else:
            self._apply(tool, json.loads(answer)["task_id"], title)

    def _apply(self, tool: str, task: int, title: str) -> None:
        before, completed = self._known.get(task, (title, False))
        match tool:
            case "delete_task":
                self._known.pop(task, None)
            case "complete_task":
                self._known[task] = (before, True)
            case _:
                self._known[task] = (title, completed)

    async def _look(self) -> bool | None:
        """Whether the tasks are what they must be; None without an answer."""
        answer = await self._call("/tasks/mcp", "list_tasks", {"user_id": self._user})
        if answer is None:
            return None
        found: Known = {each["id"]: (each["title"], each["completed"]) for each in json.loads(answer)}
        self._settle(found)
        if found != self._known:
            lost = {key: value for key, value in self._known.items() if found.get(key) != value}
            extra = {key: value for key, value in found.items() if key not in self._known}
            self._tally.wrong.append(f"{self._user}: must have {lost}, has besides {extra}")
            self._known = found
            return False
        return True

    def _settle(self, found: Known) -> None:
        """What was in doubt and shows has happened."""
        left: list[Doubt] = []
        for doubt in self._doubts:
            if doubt.tool == "add_task":
                task = next((key for key, (title, _) in found.items() if title == doubt.title), 0)
                has_happened = bool(task)
            else:
                task = doubt.id
                has_happened = found.get(task) == self._after(doubt)
            if has_happened:
                self._apply(doubt.tool, task, doubt.title)
            elif time.monotonic() - doubt.since < DOUBT_SECONDS:
                left.append(doubt)
        self._doubts = left

    def _after(self, doubt: Doubt) -> tuple[str, bool] | None:
        title, completed = self._known.get(doubt.id, ("", False))
        match doubt.tool:
            case "delete_task":
                return None
            case "complete_task":
                return title, True
            case _:
                return doubt.title, completed


async def run_clients(clients: list[Any], until: float) -> None:
    async def run(client: Client) -> None:
        while time.monotonic() < until:
            await client.turn()

    await asyncio.gather(*map(run, clients))
