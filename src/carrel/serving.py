"""Running a workspace as a server, over stdio or HTTP."""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

from mcp.server.lowlevel import Server

from carrel import logs
from carrel.errors import UsageError
from carrel.mcp.http import Door, Endpoint, Readiness, build_app, running
from carrel.mcp.observers import prometheus_observer
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.server import build_server
from carrel.mcp.stdio import serve_stdio
from carrel.version import __version__
from carrel.workspace import Desk, Workspace, refuse_collision

GRACE_SECONDS = 5
LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")

Announce = Callable[[str, Sequence[str]], None]


def mcp_server(desk: Desk, pipeline: Pipeline, *toolsets: str, has_channel: bool = False) -> Server[Any]:
    instructions = desk.instructions(*toolsets)
    return build_server(pipeline, version=__version__, instructions=instructions, has_channel=has_channel)


def _endpoint(desk: Desk, *toolsets: str) -> Endpoint:
    pipeline = desk.pipeline(*toolsets)
    return Endpoint(mcp_server(desk, pipeline, *toolsets), pipeline)


def run_stdio(workspace: Workspace) -> int:
    """Serve the process's stdin and stdout; the exit status."""
    refuse_collision(workspace)

    async def run() -> int:
        async with workspace.open() as desk:
            return await serve_stdio(mcp_server(desk, desk.pipeline(), has_channel=True))

    return asyncio.run(run())


def http_app(workspace: Workspace) -> Door:
    """The ASGI application of a workspace, which opens with the application's lifespan."""
    server = workspace.settings.server

    @asynccontextmanager
    async def lifespan(door: Door) -> AsyncGenerator[Readiness]:
        async with workspace.open(prometheus_observer()) as desk:
            endpoints = {f"/{name}/mcp": _endpoint(desk, name) for name in desk.toolsets}
            endpoints["/mcp"] = _endpoint(desk)
            async with running(endpoints):
                door.endpoints.update(endpoints)
                door.api = desk.api()
                yield desk.readiness

    return build_app(lifespan, allowed_hosts=server.allowed_hosts, allowed_origins=server.allowed_origins)


def run_http(workspace: Workspace, announce: Announce) -> int:
    """Serve HTTP until a signal asks to stop; the exit status. `announce` is told the address and the toolsets."""
    server = workspace.settings.server
    if server.host not in LOOPBACK_ADDRESSES:
        raise UsageError(
            f"server.host: refusing to listen on {server.host} without [auth]: everyone who reaches that address could "
            "use this desk. Listen on 127.0.0.1, behind a tunnel or a proxy that authenticates."
        )
    toolsets = asyncio.run(_try_open(workspace))
    with _listen(server.host, server.port) as listener:
        host = f"[{server.host}]" if ":" in server.host else server.host
        announce(f"http://{host}:{listener.getsockname()[1]}/mcp", toolsets)
        return _run_workers(workspace, listener) if server.workers > 1 else _run_alone(workspace, listener)


async def _try_open(workspace: Workspace) -> tuple[str, ...]:
    """The toolsets; what keeps the workspace from opening is told before a port is taken and workers are started."""
    async with workspace.open(is_trial=True) as desk:
        return tuple(desk.toolsets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UsageError(f"server.port: cannot listen on {host} port {port}: {error.strerror}") from error
    # asyncio does this for sockets that it makes itself; without it small answers wait for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _run_alone(workspace: Workspace, listener: socket.socket) -> int:
    import uvicorn

    status = 0

    def caught(number: int, _frame: FrameType | None) -> None:
        nonlocal status
        status = 128 + number

    # uvicorn raises the signal that stopped it again once it has shut down; this is where it then arrives.
    before = {number: signal.signal(number, caught) for number in (signal.SIGINT, signal.SIGTERM)}
    server = uvicorn.Server(_config(partial(http_app, workspace)))
    try:
        with suppress(SystemExit):  # how uvicorn ends where the workspace does not open; it has logged why
            server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if server.started else 1


def _run_workers(workspace: Workspace, listener: socket.socket) -> int:
    from uvicorn.supervisors.multiprocess import Multiprocess

    status = 1  # unless a signal ends it, a worker could not start

    class Supervisor(Multiprocess):
        def handle_int(self) -> None:
            self.stop(signal.SIGINT)

        def handle_term(self) -> None:
            self.stop(signal.SIGTERM)

        def stop(self, number: int) -> None:
            nonlocal status
            status = 128 + number
            self.should_exit.set()

    numbers = tempfile.mkdtemp(prefix="carrel-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = numbers  # prometheus_client's own switch, read by the workers
    try:
        config = _config(partial(_worker_app, workspace), workers=workspace.settings.server.workers)
        Supervisor(config, sockets=[listener]).run()
    finally:
        shutil.rmtree(numbers, ignore_errors=True)
    return status


def _worker_app(workspace: Workspace) -> Door:
    logs.configure(workspace.settings.server.log_format, workspace.settings.server.log_level)
    return http_app(workspace)


def _config(factory: Callable[[], Door], workers: int = 1) -> Any:
    import uvicorn

    return uvicorn.Config(
        factory,
        factory=True,
        workers=workers,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
