"""Carrel beside other MCP servers of its field: size, start, tools, memory, and calls that are alike.

Each is installed from PyPI or npm into an environment of its own below --cache, started over stdio on the same notes
and code (the sample of `carrel demo`), and asked by the official client. Peers take turns in every round; what is given
is the median. What cannot be installed or started here is listed with the reason.

    python3 dev.py bench compare [--cache DIR] [--rounds N] [--calls N] [--json FILE]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import options
import psutil
import tables
from compare_peers import NOTE, PEERS, Ask, Installed, NotMeasured, Peer, environment, install, installed_here
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

KINDS = {"read": "read a file or note", "grep": "find in code", "search": "search notes", "write": "write a note"}
READ_BY_MODELS = ("name", "description", "inputSchema")
READY_TIMEOUT_SECONDS = 60.0


@dataclass(slots=True)
class Measured:
    peer: Peer
    installed: Installed
    starts: list[float] = field(default_factory=list[float])
    tools: int = 0
    definition_bytes: int = 0
    read_bytes: int = 0
    memory: float = 0
    calls: dict[str, list[float]] = field(default_factory=dict[str, list[float]])


class Running:
    """A peer's server, opened by the official client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.written = 0

    async def ask(self, ask: Ask) -> float:
        """The seconds that a good answer took."""
        self.written += 1
        started = time.perf_counter()
        result = await self.client.call_tool(ask.tool, ask.arguments(self.written))
        taken = time.perf_counter() - started
        text = " ".join(getattr(block, "text", "") for block in result.content)
        if result.is_error or ask.proof not in text:
            raise NotMeasured(f"{ask.tool} answered {text[:200]!r}")
        return taken


@contextlib.asynccontextmanager
async def opened(measured: Measured, workspace: Path, log: Path) -> AsyncIterator[Running]:
    peer = measured.peer
    command, *arguments = peer.command(measured.installed.folder, workspace)
    env = environment(workspace) | peer.variables(workspace)
    with log.open("a", encoding="utf-8") as errors:
        parameters = StdioServerParameters(command=command, args=arguments, env=env, cwd=str(workspace))
        async with Client(stdio_client(parameters, errlog=errors), mode="legacy") as client:
            yield Running(client)


async def start(measured: Measured, workspace: Path, log: Path) -> float:
    """Seconds from starting the program to its list of tools."""
    started = time.perf_counter()
    async with opened(measured, workspace, log) as running:
        tools = (await running.client.list_tools()).tools
        taken = time.perf_counter() - started
        dumped = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        measured.tools = len(tools)
        measured.definition_bytes = _size(dumped)
        measured.read_bytes = _size([{key: tool.get(key) for key in READ_BY_MODELS} for tool in dumped])
    return taken


def _size(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


async def ready(running: Running, peer: Peer) -> None:
    """Until everything that is asked is answered: some read their files only after they have started."""
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    for ask in peer.asks.values():
        while True:
            try:
                await running.ask(ask)
                break
            except NotMeasured:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.5)


async def measure_calls(field_: list[Measured], workspace: Path, rounds: int, calls: int, log: Path) -> None:
    """All servers run at once, idle but for the one whose turn it is."""
    async with contextlib.AsyncExitStack() as stack:
        servers: list[tuple[Measured, Running, psutil.Process]] = []
        for measured in field_:
            before = {child.pid for child in psutil.Process().children()}
            running = await stack.enter_async_context(opened(measured, workspace, log))
            (process,) = [child for child in psutil.Process().children() if child.pid not in before]
            await ready(running, measured.peer)
            servers.append((measured, running, process))
        for _ in range(rounds):
            for measured, running, _process in servers:
                for kind, ask in measured.peer.asks.items():
                    taken = [await running.ask(ask) for _ in range(calls)]
                    measured.calls.setdefault(kind, []).append(statistics.median(taken))
        for measured, _running, process in servers:
            family = [process, *process.children(recursive=True)]
            measured.memory = sum(each.memory_info().rss for each in family) / 1e6


def make_workspace(carrel: Installed, workspace: Path) -> None:
    """The sample, and copies of its notes and code for the others; the memory server gets the notes as entities."""
    workspace.mkdir()
    (workspace / "home").mkdir()
    words = [str(carrel.folder / "bin" / "carrel"), "demo", "--print-only", "--folder", str(workspace / "carrel")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(workspace))
    shutil.copytree(workspace / "carrel" / "planner", workspace / "planner")
    shutil.copytree(workspace / "carrel" / "notes", workspace / "vault")
    with (workspace / "memory.jsonl").open("w", encoding="utf-8") as memory:
        for path in sorted((workspace / "vault").rglob("*.md")):
            name = path.relative_to(workspace / "vault").with_suffix("").as_posix()
            node = {"type": "entity", "name": name, "entityType": "note", "observations": [path.read_text("utf-8")]}
            memory.write(json.dumps(node) + "\n")
    assert (workspace / "vault" / f"{NOTE}.md").exists()


HEAD = ("server", "tools", "definitions", "read by a model", "installed", "distributions", "memory", "first answer")


def report(field_: list[Measured], left_out: list[tuple[str, str]], about: str) -> str:
    carrel = field_[0]

    def against_ours(seconds: list[float], ours: list[float]) -> str:
        if not seconds:
            return ""
        milliseconds = statistics.median(seconds) * 1000
        shown = f"{milliseconds:,.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"
        return shown if seconds is ours else f"{shown} ({statistics.median(seconds) / statistics.median(ours):.2g} x)"

    rows = [
        (
            f"{each.peer.name} {each.installed.version}",
            each.tools,
            f"{each.definition_bytes / 1000:.1f} KB",
            f"{each.read_bytes / 1000:.1f} KB",
            f"{each.installed.megabytes:.0f} MB",
            each.installed.distributions,
            f"{each.memory:.0f} MB",
            against_ours(each.starts, carrel.starts),
            *(against_ours(each.calls.get(kind, []), carrel.calls[kind]) for kind in KINDS),
        )
        for each in field_
    ]
    remarks = [f"- {each.peer.name} {each.peer.remark}." for each in field_ if each.peer.remark]
    reasons = [f"- {name}: not measured; {reason}." for name, reason in left_out]
    return "\n".join([*tables.table((*HEAD, *KINDS.values()), rows), "", f"- {about}", *remarks, *reasons])


def gather(cache: Path, *, is_smoke: bool) -> tuple[list[Measured], list[tuple[str, str]]]:
    """Who can be measured, and why the others cannot."""
    found: list[Measured] = []
    left_out: list[tuple[str, str]] = []
    for peer in PEERS:
        options.say(f"installing {peer.name}")
        try:
            found.append(Measured(peer, installed_here(peer) if is_smoke else install(peer, cache)))
        except NotMeasured as reason:
            left_out.append((peer.name, str(reason)))
    return found, left_out


async def measure(cache: Path, rounds: int, calls: int, *, is_smoke: bool) -> tuple[str, list[Measured]]:
    found, left_out = gather(cache, is_smoke=is_smoke)
    with tempfile.TemporaryDirectory() as place:
        workspace, log = Path(place) / "workspace", cache / "servers.log"
        make_workspace(found[0].installed, workspace)
        for number in range(0 if is_smoke else -1, rounds):  # one round more fills caches
            for measured in list(found):
                options.say(f"starting {measured.peer.name}, round {number + 1}")
                try:
                    taken = await start(measured, workspace, log)
                except (MCPError, OSError, ExceptionGroup) as error:
                    found.remove(measured)
                    left_out.append((measured.peer.name, f"it does not start here: {error!r}"[:200]))
                    continue
                if number >= 0:
                    measured.starts.append(taken)
        options.say("calling")
        await measure_calls(found, workspace, rounds, calls, log)
    load = f"{os.cpu_count()} shared cores with a load of {os.getloadavg()[0]:.1f}"
    about = f"On {load}, medians of {rounds} rounds. In brackets: in Carrel's time."
    return report(found, left_out, about), found


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "carrel-compare", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--calls", type=int, default=10, help="of each kind in a round; default %(default)s")
    given = options.parse(parser, rounds=1, calls=1)
    given.cache.mkdir(parents=True, exist_ok=True)
    text, found = asyncio.run(measure(given.cache.absolute(), given.rounds, given.calls, is_smoke=given.smoke))
    print(text)
    options.write_json(given.json, [{"name": each.peer.name, "starts": each.starts, **each.calls} for each in found])


if __name__ == "__main__":
    main()
