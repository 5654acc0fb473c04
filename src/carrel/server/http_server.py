"""A workspace served over HTTP."""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from starlette.types import ASGIApp

from carrel import logs
from carrel.auth.sign_in import SignInLimiter
from carrel.calls.call_store import CallStore
from carrel.errors import UsageError
from carrel.mcp.disconnects import CancellationMiddleware
from carrel.mcp.gateway import API, API_SCOPES, Gateway, Mount
from carrel.mcp.http_app import Endpoint, Readiness, ScopedEndpoint, build_app, disconnects, run_endpoints
from carrel.mcp.limits.request_limits import RequestLimitMiddleware, refusal_listener
from carrel.mcp.metrics import MULTIPROCESS_VARIABLE, MetricsSampler, refusal_counter
from carrel.version import __version__
from carrel.workspace import Desk, Workspace
from carrel.workspace.access_policy import connection_limits, listening_fault, request_limits, requires_auth

SHUTDOWN_GRACE_SECONDS = 5
WORKER_HEALTHCHECK_SECONDS = 30
"""That a worker has to answer its supervisor before that kills it; on a busy machine imports alone take more than 5."""

Announce = Callable[[str, Sequence[str]], None]


def _endpoint(desk: Desk, *toolsets: str) -> Endpoint:
    return Endpoint(desk.description(desk.pipeline(*toolsets)), body_bytes=desk.settings.limits.body_bytes)


def _scoped_endpoint(desk: Desk, gateway: Gateway, path: str, *toolsets: str) -> ScopedEndpoint:
    def build(scopes: frozenset[str]) -> Endpoint:
        description = desk.description(desk.pipeline(*toolsets, scopes=scopes), is_shared=False)
        return Endpoint(description, body_bytes=desk.settings.limits.body_bytes)

    return ScopedEndpoint(path, desk.pipeline(*toolsets).scopes, build, gateway)


def http_app(workspace: Workspace) -> Gateway:
    """The ASGI application of a workspace, which opens with the application's lifespan."""
    settings = workspace.settings
    is_guarded = requires_auth(settings)

    @asynccontextmanager
    async def lifespan(gateway: Gateway) -> AsyncGenerator[Readiness]:
        async with workspace.open(_call_store()) as desk, AsyncExitStack() as stack:
            authenticator = desk.authenticator()
            if authenticator:
                stack.push_async_callback(authenticator.close)
            names = {"/mcp": (), **{f"/{name}/mcp": (name,) for name in desk.toolsets}}
            endpoints: dict[str, Endpoint | ScopedEndpoint] = {
                path: _scoped_endpoint(desk, gateway, path, *toolsets) if authenticator else _endpoint(desk, *toolsets)
                for path, toolsets in names.items()
            }
            await stack.enter_async_context(run_endpoints(endpoints))
            engine = settings.database.url.partition(":")[0]
            await stack.enter_async_context(MetricsSampler(desk, version=__version__, database=engine))
            gateway.authenticator, gateway.audit, gateway.count_refusal = authenticator, desk.audit, refusal_counter()
            stack.enter_context(refusal_listener(gateway.record_limit))
            for path, endpoint in endpoints.items():
                gateway.mounts[path] = endpoint.mount
            if (api := desk.api()) is not None:
                gateway.mounts[API] = Mount(
                    CancellationMiddleware(_limited_api(api, desk, gateway), disconnects), API_SCOPES
                )
            if settings.server.page:
                gateway.page = desk.page(gateway)
            yield desk.readiness

    server = settings.server
    return build_app(
        lifespan,
        allowed_hosts=frozenset(server.allowed_hosts),
        allowed_origins=frozenset(server.allowed_origins),
        public_url=server.public_url,
        requires_auth=is_guarded,
        sign_in_limiter=SignInLimiter(settings.limits.sign_ins_a_minute),
        authorization_server=settings.auth.issuer,
    )


def _limited_api(api: ASGIApp, desk: Desk, gateway: Gateway) -> ASGIApp:
    """Its requests are calls of the bridge's tools, except those that the bridge itself makes within the process."""
    from carrel.api import call_name
    from carrel.mcp.limits.request_limits import RateLimitMiddleware

    return (
        RateLimitMiddleware(api, desk.limits, name_of=call_name, refuse=gateway.refuse_limited) if desk.limits else api
    )


def _call_store() -> CallStore:
    """The calls of this process, where the workers beside it find them if there are any."""
    folder = os.environ.get(MULTIPROCESS_VARIABLE)
    return CallStore(Path(folder) if folder else None)


def run_http(workspace: Workspace, announce: Announce) -> int:
    """Serve HTTP until a signal asks to stop; the exit status. `announce` is told the address and the toolsets."""
    server = workspace.settings.server
    if fault := listening_fault(workspace.settings):
        raise UsageError(fault)
    toolsets = asyncio.run(_try_open(workspace))
    with _listen(server.host, server.port) as listener:
        host = f"[{server.host}]" if ":" in server.host else server.host
        announce(f"http://{host}:{listener.getsockname()[1]}/mcp", toolsets)
        return _run_workers(workspace, listener) if server.workers > 1 else _run_alone(workspace, listener)


async def _try_open(workspace: Workspace) -> tuple[str, ...]:
    """The toolsets; what keeps the workspace from opening is told before a port is taken and workers are started."""
    async with workspace.open(is_trial=True) as desk:
        if authenticator := desk.authenticator():
            await authenticator.close()
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
    server = uvicorn.Server(_config(workspace, partial(_limited_app, workspace)))
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

    metrics_folder = tempfile.mkdtemp(prefix="carrel-metrics-")
    os.environ[MULTIPROCESS_VARIABLE] = metrics_folder  # prometheus_client's own switch, read by the workers
    try:
        config = _config(workspace, partial(_worker_app, workspace), workers=workspace.settings.server.workers)
        Supervisor(config, sockets=[listener]).run()
    finally:
        shutil.rmtree(metrics_folder, ignore_errors=True)
    return status


def _limited_app(workspace: Workspace) -> RequestLimitMiddleware:
    return RequestLimitMiddleware(http_app(workspace), request_limits(workspace.settings))


def _worker_app(workspace: Workspace) -> RequestLimitMiddleware:
    logs.configure(workspace.settings.server.log_format, workspace.settings.server.log_level)
    return _limited_app(workspace)


def _config(workspace: Workspace, factory: Callable[[], RequestLimitMiddleware], workers: int = 1) -> Any:
    import uvicorn

    from carrel.mcp.limits.connection_limits import ProtocolFactory

    limits = connection_limits(workspace.settings)
    protocols: Any = ProtocolFactory(limits)
    return uvicorn.Config(
        factory,
        factory=True,
        workers=workers,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        http=protocols,
        ws="none",
        h11_max_incomplete_event_size=limits.h11_bytes,
        timeout_keep_alive=workspace.settings.limits.keep_alive,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_SECONDS,
        timeout_worker_healthcheck=WORKER_HEALTHCHECK_SECONDS,
    )
