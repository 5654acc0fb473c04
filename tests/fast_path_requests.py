"""Requests to send both ways, by the fast path and by the SDK, and a server to send them to."""

from typing import Any

from hypothesis import strategies as st

from carrel.mcp.description import ServerDescription
from carrel.mcp.messages import APPS_MIME_TYPE
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Arguments, Caller, Failure, Toolset, View
from tests.test_pipeline import Plain, echo, tool
from tests.wire import CLIENT_INFO, LEGACY, MODERN

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HOST_OF_APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [APPS_MIME_TYPE]}}}
OPENING = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO}


async def rows(_arguments: Arguments, _caller: Caller) -> Any:
    return [{"title": 'é\u2028"\\ \U0001f600', "n": 1.5}, None]


async def refuse(_arguments: Arguments, _caller: Caller) -> Any:
    return Failure({"error": "no", "details": 'quoted "twice"'})


async def fail(_arguments: Arguments, _caller: Caller) -> Any:
    raise ValueError


async def progress(_arguments: Arguments, caller: Caller) -> Any:
    if caller.progress:
        await caller.progress(1, 3, "one of three")
        await caller.progress(2.5, 3, "")
    return {"done": None}


TOOLS = (tool(echo), tool(rows, "rows"), tool(refuse, "refuse"), tool(fail, "fail"), tool(progress, "progress"))
NAMES = [each.name for each in TOOLS]
VIEWS = {"rows": View("ui://carrel/rows", "rows", "Rows", "Shows rows.", "carrel.toolsets.views", "graph.html")}


def description(**options: Any) -> ServerDescription:
    pipeline = Pipeline([Toolset("plain", "", TOOLS, Plain(), views=VIEWS)], timeout=5)
    return ServerDescription(pipeline, version="1", instructions="What is here: é", **options)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
IMPLEMENTATION = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=3) | JSON,
        "version": st.text(max_size=3) | JSON,
        "title": st.text(max_size=3) | JSON,
        "description": st.just("x") | JSON,
        "websiteUrl": st.just("https://example.org") | JSON,
        "icons": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "src": st.just("data:,x") | JSON,
                    "mimeType": st.just("image/png") | JSON,
                    "sizes": st.just(["48x48"]) | JSON,
                    "theme": st.sampled_from(["dark", "light", "blue"]) | JSON,
                },
            ),
            max_size=2,
        )
        | JSON,
        "extra": JSON,
    },
)
OBJECTS = st.dictionaries(st.text(max_size=3), st.just({}) | JSON, max_size=2)
CAPABILITIES = st.fixed_dictionaries(
    {},
    optional={
        "elicitation": st.sampled_from([{}, {"form": {}}, {"url": {}}, {"form": None}]) | JSON,
        "experimental": OBJECTS | JSON,
        "extensions": st.just(HOST_OF_APPS["extensions"]) | OBJECTS | JSON,
        "roots": st.sampled_from([{}, {"listChanged": True}, {"listChanged": "yes"}]) | JSON,
        "sampling": st.sampled_from([{}, {"context": {}, "tools": {}}]) | JSON,
        "tasks": st.sampled_from([{}, {"list": {}}]) | JSON,
        "unheard of": JSON,
    },
)
CLIENT = st.just(CLIENT_INFO) | IMPLEMENTATION | JSON
CAPABLE = st.just({}) | st.just(HOST_OF_APPS) | CAPABILITIES | JSON
TOKENS = st.integers() | st.text(max_size=5) | JSON
MODERN_META = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.sampled_from([MODERN] * 6 + [LEGACY, "2099-01-01", None, 5]),
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": CAPABLE,
        "io.modelcontextprotocol/logLevel": st.sampled_from(["info", "loud"]) | JSON,
        "progressToken": TOKENS,
        "traceparent": st.text(max_size=5) | JSON,
        "extra": JSON,
    },
)
LEGACY_META = st.fixed_dictionaries({}, optional={"progressToken": TOKENS, "extra": JSON})
HANDSHAKES = st.just(OPENING) | st.fixed_dictionaries(
    {},
    optional={
        "protocolVersion": st.sampled_from([LEGACY, "2024-11-05", "1999-01-01", MODERN]) | JSON,
        "capabilities": CAPABLE,
        "clientInfo": CLIENT,
        "_meta": LEGACY_META | JSON,
        "extra": JSON,
    },
)
METHODS = st.sampled_from(
    ["tools/call", "tools/call", "tools/list", "tools/list", "ping", "server/discover", "initialize", "prompts/list", 5]
)


def params(meta: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from([*NAMES, "no such"]) | JSON,
            "arguments": st.fixed_dictionaries({"a": st.integers()}, optional={"b": JSON}) | JSON,
            "_meta": meta,
            "cursor": st.just("x") | JSON,
            "extra": JSON,
        },
    )


def messages(meta: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Messages of one era, most of them ordinary in most respects."""
    odd = st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
            "id": TOKENS,
            "method": METHODS,
            "params": params(meta) | HANDSHAKES | JSON,
            "extra": JSON,
        },
    )
    return odd | st.builds(request, METHODS, params(meta) | st.builds(called, st.sampled_from(NAMES), meta))


def request(method: Any, given: Any, number: Any = 7, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": given, **more}


def called(name: Any, meta: Any = META, arguments: Any = None) -> dict[str, Any]:
    """The parameters of a call."""
    return {"name": name, "arguments": {"a": 1} if arguments is None else arguments, "_meta": meta}
