"""Many servers behind HAProxy over one PostgreSQL: what is kept while they are killed and upgraded, and what more do.

    python3 dev.py bench fleet                      3 minutes of trouble, then throughput of 1, 2 and 4 processes
    python3 dev.py bench fleet --seconds 60 --no-scaling

Needs `haproxy` (apt-get install haproxy) unless there is one process alone; everything listens on loopback, and ends by
itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import options
import tables
from fleet_clients import Call, Reader, Tally, TaskUser, expected_reads, run_clients

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.databases import build_next_release  # noqa: E402 - found by the line above
from tests.postgres import PostgresServer, recreate_database  # noqa: E402 - as above
from tests.wire import environment  # noqa: E402 - as above

BUNDLE = ROOT / "examples" / "content" / "bundle.json"
HAPROXY = shutil.which("haproxy", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
READY_TIMEOUT_SECONDS = 60.0
PROXY = """
global
    stats socket {socket} mode 600 level admin
    maxconn 1000
defaults
    mode http
    timeout connect 1s
    timeout client 40s
    timeout server 40s
    timeout queue 20s
    retries 5
    option redispatch 1
    retry-on conn-failure
frontend desk
    bind 127.0.0.1:{port}
    default_backend desks
backend desks
    balance leastconn
    option httpchk GET /readyz
    timeout check 5s
    default-server check inter 200ms fall 2 rise 1 pool-purge-delay 2s
{servers}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Server:
    """One `carrel serve --http` at a port of its own, of the release that `path` names."""

    def __init__(self, folder: Path, url: str, port: int) -> None:
        self.folder, self.url, self.port = folder, url, port
        self.path = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        variables = environment(CARREL_DATABASE_URL=self.url, CARREL_SERVER_LOG_LEVEL="warning", PYTHONPATH=self.path)
        words = [sys.executable, "-m", "carrel", "serve", "--http", "--port", str(self.port)]
        with (self.folder / f"log-{self.port}").open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "--toolsets", "catalog,bridge,tasks"],
                cwd=self.folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        async with httpx.AsyncClient(trust_env=False) as http:
            while True:
                try:
                    if (await http.get(f"http://127.0.0.1:{self.port}/readyz")).status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                if time.monotonic() > deadline:
                    raise RuntimeError((self.folder / f"log-{self.port}").read_text()[-3000:])
                await asyncio.sleep(0.1)

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)


class Proxy:
    def __init__(self, folder: Path, servers: list[Server]) -> None:
        self.port = free_port()
        self._socket = folder / "haproxy.sock"
        lines = "\n".join(f"    server s{number} 127.0.0.1:{each.port}" for number, each in enumerate(servers))
        settings = folder / "haproxy.cfg"
        settings.write_text(PROXY.format(socket=self._socket, port=self.port, servers=lines))
        with (folder / "haproxy.log").open("wb") as log:
            self._process = subprocess.Popen([str(HAPROXY), "-f", settings, "-db"], stdout=log, stderr=log)

    def tell(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(self._socket))
            wire.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: wire.recv(65536), b"")).decode()

    def sessions(self, number: int) -> int:
        """Of a server, at the moment."""
        return sum(int(row[4]) for row in self._rows() if row[1] == f"s{number}")

    def sees(self) -> int:
        """How many servers it takes for ready."""
        return sum(row[1].startswith("s") and row[17] == "UP" for row in self._rows())

    def _rows(self) -> list[list[str]]:
        rows = [line.split(",") for line in self.tell("show stat desks 4 -1").splitlines()]
        return [row for row in rows if len(row) > 17]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@dataclass(slots=True)
class Trouble:
    """What was done to the fleet, and when calls may fail for it."""

    kills: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    restarts: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    upgrades: int = 0

    def excuses(self, call: Call) -> bool:
        """In flight at a kill, or at some moment of the restart."""
        return any(call.start <= end and begin <= call.end for begin, end in (*self.kills, *self.restarts))


class Fleet:
    def __init__(self, stack: ExitStack, processes: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="carrel-fleet-"))
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.postgres = PostgresServer()
        stack.callback(self.postgres.close)
        self.url = recreate_database(self.postgres.url(), "fleet")
        self.carrel("db", "upgrade")
        self.carrel("import", "content", str(BUNDLE))
        self.servers = [Server(self.folder, self.url, free_port()) for _ in range(processes)]
        for server in self.servers:
            server.start()
            stack.callback(server.stop, signal.SIGKILL)
        self.proxy = Proxy(self.folder, self.servers) if HAPROXY else None
        if self.proxy:
            stack.callback(self.proxy.close)

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.proxy.port if self.proxy else self.servers[0].port

    def carrel(self, *words: str, path: str = "") -> None:
        variables = environment(CARREL_DATABASE_URL=self.url, PYTHONPATH=path)
        subprocess.run(
            [sys.executable, "-m", "carrel", *words], cwd=self.folder, env=variables, stdout=sys.stderr, check=True
        )

    async def ready(self) -> None:
        for server in self.servers:
            await server.ready()
        while self.proxy and self.proxy.sees() < len(self.servers):  # noqa: ASYNC110 - HAProxy tells nobody
            await asyncio.sleep(0.1)

    async def kill_one(self, number: int, trouble: Trouble) -> None:
        server = self.servers[number]
        begin = time.monotonic()
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        trouble.kills.append((begin, time.monotonic()))
        await asyncio.sleep(1)
        server.start()
        await server.ready()

    async def restart_database(self, trouble: Trouble) -> None:
        begin = time.monotonic()
        await asyncio.to_thread(self.postgres.stop)
        await asyncio.sleep(2)
        await asyncio.to_thread(self.postgres.start)
        await self.ready()
        trouble.restarts.append((begin, time.monotonic()))

    async def upgrade(self, trouble: Trouble) -> None:
        """To the next release, as an operator does it: the schema first, then each server, drained before it ends."""
        assert self.proxy is not None, "one server alone cannot be drained"
        path = str(build_next_release(self.folder / "next"))
        await asyncio.to_thread(self.carrel, "db", "upgrade", path=path)
        for number, server in enumerate(self.servers):
            self.proxy.tell(f"set server desks/s{number} state drain")
            while self.proxy.sessions(number):  # noqa: ASYNC110 - HAProxy tells nobody
                await asyncio.sleep(0.05)
            await asyncio.to_thread(server.stop, signal.SIGTERM)
            server.path = path
            server.start()
            await server.ready()
            self.proxy.tell(f"set server desks/s{number} state ready")
            trouble.upgrades += 1


async def make_trouble(fleet: Fleet, seconds: float, kill_every: float, trouble: Trouble) -> None:
    """A kill every so often; the restart after a third of the time, the upgrade after two thirds."""
    begun = time.monotonic()
    chosen = random.Random(7)
    has_restarted = has_upgraded = False
    next_kill = begun + kill_every
    while (now := time.monotonic()) < begun + seconds - kill_every / 2:
        if not has_restarted and now > begun + seconds / 3:
            has_restarted = True
            await fleet.restart_database(trouble)
        elif not has_upgraded and now > begun + seconds * 2 / 3:
            has_upgraded = True
            await fleet.upgrade(trouble)
        elif now > next_kill:
            next_kill += kill_every
            await fleet.kill_one(chosen.randrange(len(fleet.servers)), trouble)
        await asyncio.sleep(0.1)


async def trouble_run(given: argparse.Namespace) -> int:
    with ExitStack() as stack:
        fleet = Fleet(stack, given.processes)
        await fleet.ready()
        reads = await expected_reads(fleet.address)
        tally, trouble = Tally(), Trouble()
        until = time.monotonic() + given.seconds
        users = [TaskUser(fleet.address, number, reads, tally) for number in range(given.clients)]
        making = asyncio.create_task(make_trouble(fleet, given.seconds, given.kill_every, trouble))
        await run_clients(users, until)
        await making
        lost = [fault for user in users for fault in await user.last_look()]
    return report(given, tally, trouble, lost)


def report(given: argparse.Namespace, tally: Tally, trouble: Trouble, lost: list[str]) -> int:
    unexcused = [call for call in tally.failed if not trouble.excuses(call)]
    taken = sorted(call.end - call.start for call in tally.done)
    done = (len(trouble.kills), len(trouble.restarts), trouble.upgrades)
    rows: list[tuple[str, object]] = [
        ("processes, clients, seconds", f"{given.processes}, {given.clients}, {given.seconds:g}"),
        ("servers killed, restarts of the database, servers upgraded", ", ".join(map(str, done))),
        ("calls answered", len(tally.done)),
        ("… a second", f"{len(tally.done) / given.seconds:.0f}"),
        ("… of them writes", tally.writes),
        ("p50, ms", f"{taken[len(taken) // 2] * 1000:.1f}"),
        ("p95, ms", f"{taken[len(taken) * 95 // 100] * 1000:.1f}"),
        ("calls failed", len(tally.failed)),
        ("… outside of a kill or the restart", len(unexcused)),
        ("wrong answers", len(tally.wrong)),
        ("acknowledged writes lost", len(lost)),
    ]
    balancer = "behind HAProxy" if HAPROXY else "without a balancer: HAProxy is not installed"
    print("\n".join([*tables.table(("trouble", "measured"), rows), "", f"- {balancer}"]))
    for line in [*tally.wrong[:10], *lost[:10], *(f"{call.what}: {call.outcome}" for call in unexcused[:10])]:
        print("-", line)
    options.write_json(given.json, {"failed": len(tally.failed), "wrong": tally.wrong, "lost": lost})
    return 1 if unexcused or tally.wrong or lost else 0


async def scaling_run(given: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = []
    for processes in given.scaling_processes:
        with ExitStack() as stack:
            fleet = Fleet(stack, processes)
            await fleet.ready()
            reads = await expected_reads(fleet.address)
            found: list[str] = []
            for maker in (TaskUser, Reader):
                tally = Tally()
                users = [maker(fleet.address, number, reads, tally) for number in range(given.clients)]
                await run_clients(users, time.monotonic() + given.scaling_seconds)
                failed = f", {len(tally.failed)} failed" if tally.failed else ""
                found.append(f"{len(tally.done) / given.scaling_seconds:.0f}{failed}")
            rows.append((str(processes), *found))
    head = ("processes, without trouble", "mixed, calls a second", "reads of content, calls a second")
    print("\n".join(["", *tables.table(head, rows)]))


def main() -> int:
    parser = options.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=20)
    parser.add_argument("--scaling-seconds", type=float, default=15)
    parser.add_argument("--scaling-processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--no-scaling", action="store_true")
    parser.add_argument("--only-scaling", action="store_true")
    given = options.parse(
        parser, seconds=1, clients=2, processes=1, scaling_seconds=0.5, scaling_processes=[1], no_scaling=True
    )
    if HAPROXY is None and (given.processes > 1 or not given.no_scaling):
        parser.error("haproxy is not installed: apt-get install haproxy")
    status = 0 if given.only_scaling else asyncio.run(trouble_run(given))
    if not given.no_scaling:
        asyncio.run(scaling_run(given))
    return status


if __name__ == "__main__":
    sys.exit(main())
