"""The short way of an ordinary call answers as the SDK's does, and leaves to the SDK whatever is not ordinary."""

import json
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carrel.mcp.direct import ordinary_call
from carrel.mcp.http import Endpoint
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.server import build_server
from carrel.mcp.toolset import Arguments, Caller, Failure, Toolset
from tests.test_pipeline import Plain, echo, tool
from tests.wire import CLIENT_INFO, MODERN

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "work",
}


async def rows(_arguments: Arguments, _caller: Caller) -> Any:
    return [{"title": 'é\u2028"\\ \U0001f600', "n": 1.5}, None]


async def refuse(_arguments: Arguments, _caller: Caller) -> Any:
    return Failure({"error": "no", "details": 'quoted "twice"'})


async def fail(_arguments: Arguments, _caller: Caller) -> Any:
    raise ValueError


TOOLS = (tool(echo), tool(rows, "rows"), tool(refuse, "refuse"), tool(fail, "fail"))


def message(name: Any = "work", arguments: Any = None, **more: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": {"a": 1} if arguments is None else arguments, "_meta": META}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **more}


async def both_ways(headers: list[tuple[str, str]], body: bytes) -> list[tuple[int, str, Any]]:
    pipeline = Pipeline([Toolset("plain", "", TOOLS, Plain())], timeout=5)
    server = build_server(pipeline, version="1", instructions="")
    answers: list[tuple[int, str, Any]] = []
    for endpoint in (Endpoint(server, pipeline), Endpoint(server)):
        async with endpoint.run(), httpx.AsyncClient(transport=httpx.ASGITransport(endpoint)) as http:
            response = await http.post("http://localhost/mcp", content=body, headers=headers)
            kind = response.headers.get("content-type", "")
            has_json = kind == "application/json" and response.content
            content: Any = response.json() if has_json else response.content
            answers.append((response.status_code, kind, content))
    return answers


def is_direct(headers: list[tuple[str, str]], body: bytes) -> bool:
    raw = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers]
    return ordinary_call(raw, body) is not None


@pytest.mark.parametrize("name", ["work", "rows", "refuse", "fail"])
@pytest.mark.parametrize("number", [7, 0, -1, 2**60, "seven", "é\u2028", ""])
def test_an_ordinary_call_is_answered_directly_and_alike(name: str, number: int | str) -> None:
    headers = [*{**HEADERS, "mcp-name": name}.items()]
    body = json.dumps(message(name, id=number)).encode()
    assert is_direct(headers, body)
    direct, general = anyio.run(both_ways, headers, body)
    assert direct == general
    assert direct[0] == 200
    assert direct[2]["id"] == number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
ODD_META = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.sampled_from([MODERN, "2025-11-25", "2099-01-01", None, 5]),
        "io.modelcontextprotocol/clientInfo": st.just(CLIENT_INFO) | JSON,
        "io.modelcontextprotocol/clientCapabilities": st.just({}) | JSON,
        "progressToken": JSON,
        "traceparent": st.text(max_size=5),
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["work", "rows", "no such"]) | JSON,
        "arguments": st.fixed_dictionaries({"a": st.integers()}, optional={"b": JSON}) | JSON,
        "_meta": st.just(META) | ODD_META | JSON,
        "extra": JSON,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.integers() | st.text(max_size=5) | JSON,
        "method": st.sampled_from(["tools/call", "tools/call", "tools/call", "tools/list", "ping", 5]),
        "params": PARAMS | JSON,
        "extra": JSON,
    },
)
CHANGES = st.dictionaries(
    st.sampled_from([*HEADERS, "mcp-param-a", "mcp-session-id", "x-other"]),
    st.sampled_from(
        [None, "", "work", "WORK", "rows", "=?base64?d29yaw==?=", MODERN, "2025-11-25", "tools/call", "tools/list",
         "application/json", "application/json; charset=utf-8", "text/event-stream", "*/*", "application/*",
         "application/jsonp"]
    ),
    max_size=2,
)  # fmt: skip


@settings(max_examples=400)
@given(MESSAGES | st.builds(message, st.sampled_from(["work", "rows", "nope"])), CHANGES, st.booleans())
@example(message(), {"mcp-name": "=?base64?d29yaw==?="}, False)
@example(message("no such tool"), {"mcp-name": "no such tool"}, False)
@example(message(), {"accept": "text/event-stream"}, False)
@example(message(extra=1), {}, False)
@example(message(arguments={"a": 1, "b": "\ud800"}), {}, False)
def test_any_request_is_answered_alike(sent: Any, changes: dict[str, str | None], repeated: bool) -> None:
    headers = [(name, text) for name, text in {**HEADERS, **changes}.items() if text is not None]
    if repeated:
        headers += headers[-1:]
    body = json.dumps(sent).encode()
    direct, general = anyio.run(both_ways, headers, body)
    assert direct == general


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"id":1}', b"[" * 5000, b'"\\ud800"'])
def test_what_is_no_call_is_left_to_the_sdk(body: bytes) -> None:
    assert not is_direct([*HEADERS.items()], body)
    direct, general = anyio.run(both_ways, [*HEADERS.items()], body)
    assert direct == general
