"""OpenTelemetry traces of tool calls, for those who ask for them: without, nothing here is imported.

Spans follow OpenTelemetry's conventions for MCP servers. A call's span is a child of the one that the caller names in
its `_meta` (SEP-414), else of the one in its HTTP headers. What a call is given and what it answers is never in a span.
"""

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from carrel.errors import MissingExtra
from carrel.mcp.pipeline import Answer, CallRecord, Pipeline, UnknownTool
from carrel.mcp.toolset import Arguments, Caller

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

METHOD = "tools/call"
TRACE_KEYS = ("traceparent", "tracestate")
CLOSE_TIMEOUT_SECONDS = 3.0
"""That the end of a server waits for a collector."""

_propagator = TraceContextTextMapPropagator()


class Origin(NamedTuple):
    """Where a call comes from, as far as its trace tells."""

    meta: Mapping[str, Any]
    headers: Sequence[tuple[bytes, bytes]] = ()
    protocol: str = ""
    request_id: str = ""
    transport: str = "tcp"


class Tracing:
    """A tracer of its own: nothing of OpenTelemetry's is set for the whole process."""

    def __init__(self, provider: "TracerProvider", version: str) -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("carrel", version)

    @contextmanager
    def call(self, tool: str, origin: Origin | None) -> Generator[None]:
        """The span of a call; `observe` tells it what the call came to."""
        parent, links = _parent(origin)
        with self._tracer.start_as_current_span(
            f"{METHOD} {tool}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=_attributes(tool, origin),
            links=links,
            record_exception=False,  # what failed may tell of contents; it is in the log
            set_status_on_exception=False,
        ):
            yield

    @contextmanager
    def work(self, name: str, attributes: Mapping[str, str]) -> Generator[None]:
        """A part of a call that is traced; the work of nobody's call is not."""
        if not trace.get_current_span().is_recording():
            yield
            return
        with self._tracer.start_as_current_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=dict(attributes),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise

    def observe(self, record: CallRecord) -> None:
        span = trace.get_current_span()
        span.set_attributes(
            {
                "carrel.toolset": record.toolset,
                "carrel.outcome": record.outcome,
                "carrel.result.size": record.size,
            }
        )
        if record.outcome != "ok":
            span.set_attribute("error.type", "cancelled" if record.outcome == "cancelled" else "tool_error")
            span.set_status(StatusCode.ERROR)

    def pipeline(self, *arguments: Any, **more: Any) -> Pipeline:
        """A pipeline whose calls are traced; takes what `Pipeline` does."""
        return TracedPipeline(self, *arguments, **more)

    def close(self) -> None:
        """Send what there is; a collector that does not answer is not waited for."""
        closing = threading.Thread(target=self._provider.shutdown, name="carrel-tracing-end", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_SECONDS)


class TracedPipeline(Pipeline):
    """A pipeline each of whose calls is a span. One of its observers must be `Tracing.observe`."""

    is_traced = True

    def __init__(self, tracing: Tracing, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._tracing = tracing

    async def call(self, name: str, arguments: Arguments, caller: Caller) -> Answer:
        if self.input_schema(name) is None:  # refused by the protocol's means; anything could be in the name
            raise UnknownTool(name)
        with self._tracing.call(name, caller.origin):
            return await super().call(name, arguments, caller)


def open_tracing(version: str) -> Tracing:
    """Sends spans where OTEL_EXPORTER_OTLP_ENDPOINT says, as OTEL_* variables say; the SDK reads those itself."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingExtra("otel", "tracing") from error
    own = Resource({"service.name": "carrel", "service.version": version})
    resource = Resource.create().merge(own).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider, version)


def _parent(origin: Origin | None) -> tuple[Context, list[Link]]:
    """The caller's span. That of the HTTP request is linked where the message names another."""
    if origin is None:
        return Context(), []
    meta = {key: value for key in TRACE_KEYS if isinstance(value := origin.meta.get(key), str)}
    names = {key.encode(): key for key in TRACE_KEYS}
    headers = {names[name]: value.decode("latin-1") for name, value in origin.headers if name in names}
    by_message, by_request = _extract(meta), _extract(headers)
    named = trace.get_current_span(by_message).get_span_context()
    carried = trace.get_current_span(by_request).get_span_context()
    if not named.is_valid:
        return by_request, []
    return by_message, [Link(carried)] if carried.is_valid and carried != named else []


def _extract(carrier: Mapping[str, str]) -> Context:
    """Nobody's where it is not as it should be."""
    return _propagator.extract(carrier, context=Context()) if "traceparent" in carrier else Context()


def _attributes(tool: str, origin: Origin | None) -> dict[str, str]:
    found = {"mcp.method.name": METHOD, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    if origin is not None:
        found |= {
            "mcp.protocol.version": origin.protocol,
            "jsonrpc.request.id": origin.request_id,
            "network.transport": origin.transport,
        }
    return {key: value for key, value in found.items() if value}
