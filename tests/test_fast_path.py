"""Over HTTP the fast path answers as the SDK does, and leaves to the SDK whatever is not ordinary."""

import json
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carrel.mcp.description import ServerDescription
from carrel.mcp.http_app import Endpoint
from carrel.mcp.pipeline import Pipeline
from carrel.mcp.toolset import Arguments, Caller, Toolset
from tests.fast_path_requests import (
    HANDSHAKES,
    HOST_OF_APPS,
    LEGACY_META,
    META,
    MODERN_META,
    NAMES,
    OPENING,
    called,
    description,
    messages,
    request,
)
from tests.test_pipeline import Plain, tool
from tests.wire import LEGACY, MODERN

pytestmark = pytest.mark.no_cover  # coverage makes it several times slower, and it adds none

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
PING = request("ping", {})

Answer = tuple[int, str, bytes]


def modern_headers(method: str, name: str = "") -> dict[str, str]:
    return {**HEADERS, "mcp-protocol-version": MODERN, "mcp-method": method} | ({"mcp-name": name} if name else {})


def legacy_headers(version: str = LEGACY) -> dict[str, str]:
    return {**HEADERS, "mcp-protocol-version": version}


async def both_ways(headers: list[tuple[str, str]], body: bytes) -> tuple[list[Answer], bool]:
    """The answers of the fast path and of the SDK, and whether the fast path did without the SDK."""
    answers: list[Answer] = []
    endpoints = [Endpoint(description(), has_fast_path=is_fast) for is_fast in (True, False)]
    for endpoint in endpoints:
        async with endpoint.run(), httpx.AsyncClient(transport=httpx.ASGITransport(endpoint)) as http:
            response = await http.post("http://localhost/mcp", content=body, headers=headers)
            answers.append((response.status_code, response.headers.get("content-type", ""), response.content))
    return answers, endpoints[0]._sdk is None


def compare(headers: list[tuple[str, str]], body: bytes, version: str) -> bool:
    """Check that both answers are the same; return whether the fast path gave its own."""
    (fast, general), is_fast = anyio.run(both_ways, headers, body)
    if version == MODERN and general[2]:
        # Over HTTP the SDK escapes what is not ASCII for 2026-07-28 clients.
        fast, general = ((status, kind, reencoded(content)) for status, kind, content in (fast, general))
    assert fast == general
    return is_fast


def reencoded(content: bytes) -> bytes:
    """The same JSON, in the same order, escaped alike."""
    try:
        return json.dumps(json.loads(content)).encode()
    except ValueError:
        return content


@pytest.mark.parametrize("number", [7, 0, -1, 2**60, "seven", "é\u2028", "", "7"])
@pytest.mark.parametrize("name", NAMES)
def test_an_ordinary_call_takes_the_fast_path_and_is_answered_alike(name: str, number: int | str) -> None:
    body = json.dumps(request("tools/call", called(name), number)).encode()
    assert compare([*modern_headers("tools/call", name).items()], body, MODERN)
    body = json.dumps(request("tools/call", called(name, {}), number)).encode()
    assert compare([*legacy_headers().items()], body, LEGACY)


@pytest.mark.parametrize("meta", [META, META | {"io.modelcontextprotocol/clientCapabilities": HOST_OF_APPS}])
@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
def test_an_ordinary_modern_request_takes_the_fast_path(method: str, meta: Any) -> None:
    body = json.dumps(request(method, {"_meta": meta})).encode()
    assert compare([*modern_headers(method).items()], body, MODERN)


@pytest.mark.parametrize("version", [LEGACY, "2025-06-18", "2025-03-26", "2024-11-05", None])
@pytest.mark.parametrize(
    "message",
    [
        PING,
        request("tools/list", {}),
        request("initialize", OPENING),
        request("initialize", OPENING | {"capabilities": HOST_OF_APPS, "protocolVersion": MODERN}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    ],
)
def test_an_ordinary_handshake_era_message_takes_the_fast_path(message: Any, version: str | None) -> None:
    headers = HEADERS if version is None else legacy_headers(version)
    assert compare([*headers.items()], json.dumps(message).encode(), LEGACY)


CHANGES = st.dictionaries(
    st.sampled_from([*modern_headers("x", "y"), "mcp-param-a", "mcp-session-id", "x-other"]),
    st.sampled_from(
        [None, "", "work", "WORK", "rows", "=?base64?d29yaw==?=", MODERN, LEGACY, "tools/call", "tools/list",
         "application/json", "application/json; charset=utf-8", "text/event-stream", "*/*", "application/*",
         "application/jsonp", "2024-11-05", "1999-01-01"]
    ),
    max_size=2,
)  # fmt: skip


def sent(headers: dict[str, str], changes: dict[str, str | None], repeated: bool) -> list[tuple[str, str]]:
    found = [(name, text) for name, text in {**headers, **changes}.items() if text is not None]
    return found + found[-1:] if repeated else found


@settings(max_examples=150)
@given(messages(st.just(META) | MODERN_META), CHANGES, st.booleans())
@example(request("tools/call", called("work")), {"mcp-name": "=?base64?d29yaw==?="}, False)
@example(request("tools/call", called("no such tool")), {"mcp-name": "no such tool"}, False)
@example(request("tools/call", called("work")), {"accept": "text/event-stream"}, False)
@example(request("tools/call", called("work"), extra=1), {}, False)
@example(request("tools/call", called("work", arguments={"a": 1, "b": "\ud800"})), {}, False)
@example(request("tools/call", called("progress", META | {"progressToken": 1})), {"mcp-name": "progress"}, False)
def test_any_modern_request_is_answered_alike(message: Any, changes: dict[str, str | None], repeated: bool) -> None:
    method, given_params = message.get("method"), message.get("params")
    name = given_params.get("name") if isinstance(given_params, dict) else None
    headers = modern_headers(method if isinstance(method, str) else "", name if name in NAMES else "work")
    compare(sent(headers, changes, repeated), json.dumps(message).encode(), MODERN)


@settings(max_examples=150)
@given(messages(LEGACY_META) | st.builds(request, st.just("initialize"), HANDSHAKES), CHANGES, st.booleans())
@example(request("tools/call", called("work", META)), {}, False)
@example(request("ping", {}), {"mcp-session-id": "x"}, False)
@example([PING], {}, False)
def test_any_handshake_era_request_is_answered_alike(
    message: Any, changes: dict[str, str | None], repeated: bool
) -> None:
    headers = sent(legacy_headers(), changes, repeated)
    version = dict(headers).get("mcp-protocol-version")
    compare(headers, json.dumps(message).encode(), MODERN if version in (MODERN, "1999-01-01") else LEGACY)


@pytest.mark.parametrize("odd", [True, None, 1.0, 1.5, 2**70, [], {}])
def test_an_odd_id_or_progress_token_is_left_to_the_sdk(odd: Any) -> None:
    for era, meta in ((MODERN, META), (LEGACY, {})):
        headers = modern_headers("tools/call", "work") if era == MODERN else legacy_headers()
        messages = (
            request("tools/call", called("work", meta), odd),
            request("tools/call", called("work", meta | {"progressToken": odd})),
        )
        for message in messages:
            assert not compare([*headers.items()], json.dumps(message).encode(), era)


@pytest.mark.parametrize(
    "change",
    [
        {"mcp-method": "tools/list"},
        {"mcp-method": None},
        {"mcp-name": "rows"},
        {"mcp-name": None},
        {"mcp-name": "=?base64?d29yaw==?="},
        {"mcp-param-a": "1"},
        {"mcp-session-id": "x"},
        {"content-type": "application/json; charset=utf-8"},
        {"accept": "*/*"},
        {"mcp-protocol-version": LEGACY},
        {"mcp-protocol-version": "1999-01-01"},
    ],
)
def test_a_call_whose_headers_are_not_ordinary_is_left_to_the_sdk(change: dict[str, str | None]) -> None:
    body = json.dumps(request("tools/call", called("work"))).encode()
    assert not compare(sent(modern_headers("tools/call", "work"), change, False), body, MODERN)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"id":1}', b"[" * 5000, b'"\\ud800"', b"NaN"])
@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_what_is_not_a_message_is_left_to_the_sdk(body: bytes, version: str) -> None:
    headers = modern_headers("tools/call", "work") if version == MODERN else legacy_headers()
    assert not compare([*headers.items()], body, version)


async def nothing(_arguments: Arguments, _caller: Caller) -> None:
    return None


@pytest.mark.anyio
@pytest.mark.rule("common.result.structured")
async def test_a_null_root_is_in_the_structured_content_of_a_modern_result() -> None:
    """The SDK leaves it out; the ruling wants the same value as in the text."""
    pipeline = Pipeline([Toolset("plain", "", (tool(nothing),), Plain())], timeout=5)
    endpoint = Endpoint(ServerDescription(pipeline, version="1", instructions=""))
    async with endpoint.run(), httpx.AsyncClient(transport=httpx.ASGITransport(endpoint)) as http:
        message, headers = request("tools/call", called("work")), modern_headers("tools/call", "work")
        response = await http.post("http://localhost/mcp", json=message, headers=headers)
    assert response.json()["result"]["structuredContent"] is None
