"""Traces of calls, seen by a collector: what a real exporter of a real server sends, decoded."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from carrel.errors import MissingExtra
from carrel.workspace.database_traces import open_configured_tracing
from tests.databases import prepare_desk
from tests.program import Script, misused, run_carrel
from tests.wire import LEGACY, MODERN, HttpServer, HttpWire, StdioWire, call

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{PARENT}-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"
EAGER = {"OTEL_BSP_SCHEDULE_DELAY": "10"}


@dataclass
class Collector:
    """What an OTLP collector is to an exporter."""

    url: str = ""
    spans: "SimpleQueue[Span]" = field(default_factory=SimpleQueue)
    resources: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def next(self) -> Span:
        return self.spans.get(timeout=30)

    def call(self) -> tuple[Span, list[Span]]:
        """The next call's span, and those within it that came before."""
        within: list[Span] = []
        while (span := self.next()).kind != Span.SPAN_KIND_SERVER:
            within.append(span)
        return span, within


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.bodies.append(body)
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                found.resources.append({each.key: each.value.string_value for each in group.resource.attributes})
                for scope in group.scope_spans:
                    for span in scope.spans:
                        found.spans.put(span)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def server(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = prepare_desk(tmp_path_factory.mktemp("traced"))
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **EAGER}
    server = HttpServer("--toolsets", "tasks", cwd=folder, **env)
    yield server
    assert server.stop() == 143


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes}


def post(server: HttpServer, era: str, meta: dict[str, str], headers: dict[str, str], **arguments: Any) -> Any:
    """A call with something in its `_meta` and its headers."""
    wire = HttpWire(era, server.url)
    params = {"name": "list_tasks", "arguments": {"user_id": "ana", **arguments}}
    message = wire.message("tools/call", params)
    message["params"].setdefault("_meta", {}).update(meta)
    wire.http.headers.update(wire.headers("tools/call", params) | headers)
    answer = wire.http.post(f"{server.url}/mcp", json=message)
    wire.close()
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.rule("operations.tracing.span", "operations.tracing.content")
def test_a_call_is_a_span_with_the_conventions_names_and_nothing_of_its_content(
    server: HttpServer, collector: Collector
) -> None:
    wire = HttpWire(MODERN, server.url)
    answer = call(wire, "add_task", {"user_id": "ana", "title": "Sekretariat anrufen"})
    wire.close()
    span, within = collector.call()
    assert span.name == "tools/call add_task"
    found = attributes(span)
    assert found == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add_task",
        "mcp.protocol.version": MODERN,
        "jsonrpc.request.id": "1",
        "network.transport": "tcp",
        "carrel.toolset": "tasks",
        "carrel.outcome": "ok",
        "carrel.result.size": len(answer["content"][0]["text"]),
    }
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert not span.parent_span_id
    assert collector.resources[-1]["service.name"] == "carrel"
    assert not any(b"Sekretariat" in body or b"ana" in body.replace(b"analy", b"") for body in collector.bodies)
    (write,) = [each for each in within if each.name == "database write"]
    assert (write.trace_id, write.parent_span_id) == (span.trace_id, span.span_id)
    assert attributes(write) == {"db.system.name": "sqlite"}


@pytest.mark.rule("operations.tracing.parent")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_span_follows_the_caller_in_meta_before_the_one_in_the_header(
    server: HttpServer, collector: Collector, era: str
) -> None:
    post(server, era, {"traceparent": CALLER, "tracestate": "rojo=1"}, {"traceparent": OTHER})
    span, _ = collector.call()
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state) == (TRACE, PARENT, "rojo=1")
    assert [link.trace_id.hex() for link in span.links] == [OTHER.split("-")[1]]
    assert attributes(span)["mcp.protocol.version"] == era
    post(server, era, {}, {"traceparent": CALLER, "tracestate": "congo=2"})
    span, _ = collector.call()
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state) == (TRACE, PARENT, "congo=2")


@pytest.mark.rule("operations.tracing.parent")
@pytest.mark.parametrize("wrong", ["", "00-0-0-01", "x" * 5000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_parent_that_is_none_begins_a_trace_of_its_own(server: HttpServer, collector: Collector, wrong: str) -> None:
    post(server, MODERN, {"traceparent": wrong}, {})
    span, _ = collector.call()
    assert not span.parent_span_id
    assert span.trace_id.hex() not in (TRACE, "0" * 32)


@pytest.mark.rule("operations.tracing.parent")
def test_a_caller_that_is_not_sampled_is_not_traced(server: HttpServer, collector: Collector) -> None:
    post(server, MODERN, {"traceparent": f"00-{TRACE}-{PARENT}-00"}, {})
    post(server, MODERN, {"traceparent": OTHER}, {})
    span, _ = collector.call()
    assert span.trace_id.hex() == OTHER.split("-")[1]


@pytest.mark.rule("operations.tracing.outcome")
def test_a_call_that_is_refused_is_an_error_without_its_words(server: HttpServer, collector: Collector) -> None:
    assert post(server, MODERN, {}, {}, status="verschwunden")["result"]["isError"]
    span, _ = collector.call()
    found = attributes(span)
    assert (found["carrel.outcome"], found["error.type"]) == ("refused", "tool_error")
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "")
    assert not span.events
    assert not any(b"verschwunden" in body for body in collector.bodies)


OFFICIAL_CLIENT = """
import sys

import anyio
from mcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider


async def main():
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    with trace.get_tracer("test").start_as_current_span("ask") as asking:
        async with Client(sys.argv[1]) as client:
            await client.call_tool("list_tasks", {"user_id": "ana"})
    print(f"{asking.get_span_context().trace_id:032x}")


anyio.run(main)
"""


@pytest.mark.rule("operations.tracing.client")
def test_the_official_clients_own_span_is_the_parent(server: HttpServer, collector: Collector, tmp_path: Path) -> None:
    """The SDK puts its span into `_meta` when a tracer is set for the process it runs in."""
    asked = Script(OFFICIAL_CLIENT, f"{server.url}/mcp", cwd=tmp_path).finish()
    span, _ = collector.call()
    assert span.trace_id.hex() == asked.strip()
    assert span.parent_span_id


@pytest.mark.rule("operations.tracing.stdio", "operations.tracing.flushed")
def test_over_stdio_calls_are_traced_too_and_sent_before_the_end(collector: Collector, tmp_path: Path) -> None:
    folder = prepare_desk(tmp_path)
    (folder / "carrel.toml").write_text("[server]\ntracing = true\n", encoding="utf-8")
    env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces", "OTEL_SERVICE_NAME": "desk"}
    wire = StdioWire(MODERN, "--toolsets", "tasks", cwd=folder, **env)
    message = wire.message("tools/call", {"name": "list_tasks", "arguments": {"user_id": "ana"}})
    message["params"]["_meta"]["traceparent"] = CALLER
    wire.send(message)
    wire.receive()
    assert wire.close() == 0
    span, _ = collector.call()
    assert (span.trace_id.hex(), attributes(span)["network.transport"]) == (TRACE, "pipe")
    assert collector.resources[-1]["service.name"] == "desk"


@pytest.mark.rule("operations.tracing.flushed")
def test_a_collector_that_is_not_there_holds_up_neither_calls_nor_the_end(tmp_path: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", **EAGER}
    wire = StdioWire(MODERN, "--toolsets", "tasks", cwd=prepare_desk(tmp_path), **env)
    assert not call(wire, "list_tasks", {"user_id": "ana"}).get("isError")
    assert wire.close() == 0  # within 20 s


@pytest.mark.rule("operations.tracing.off")
def test_without_being_asked_for_nothing_is_traced() -> None:
    assert open_configured_tracing(False, {}) is None
    assert open_configured_tracing(True, {"OTEL_SDK_DISABLED": "true"}) is None
    assert open_configured_tracing(False, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) is None
    assert (
        open_configured_tracing(False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"})
        is None
    )


@pytest.mark.rule("operations.tracing.extra")
def test_without_the_extra_the_setting_is_an_error_and_the_variable_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtra, match=r"pip install 'carrel\[otel\]'"):
        open_configured_tracing(True, {})
    assert open_configured_tracing(False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}) is None
    assert "calls are not traced" in caplog.text
    hidden = "import sys; sys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None"
    (tmp_path / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    done = run_carrel("serve", cwd=prepare_desk(tmp_path), PYTHONPATH=str(tmp_path), CARREL_SERVER_TRACING="true")
    misused(done, "pip install 'carrel[otel]'")
