"""Over stdio the fast path answers as the SDK does, and the SDK takes over in the middle of a conversation."""

import asyncio
import json
from typing import Any

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carrel.mcp.stdio_session import StdioSession
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

pytestmark = pytest.mark.no_cover  # coverage makes it several times slower, and it adds none

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
OPEN = request("initialize", OPENING, 0)


async def answers(lines: list[bytes], *, has_fast_path: bool) -> tuple[list[bytes], bool]:
    """The lines that a conversation is answered by, and whether the SDK was needed."""
    written: list[bytes] = []

    async def write(message: bytes) -> None:
        written.append(message)

    session = StdioSession(description(has_channel=True), write, has_fast_path=has_fast_path)
    for line in lines:
        await session.receive(line)
        while session._tasks:  # one after the other: what is answered at once may come in any order
            await asyncio.wait(session._tasks)
        if session._sdk:
            await session._sdk.finish(5)
    await session.finish(5)
    return written, session._sdk is not None


def compare(*conversation: Any) -> bool:
    """Check that both ways give the same answers, to the byte; return whether the fast path gave its own alone."""
    lines = [json.dumps(message).encode() for message in conversation]

    async def both() -> tuple[tuple[list[bytes], bool], tuple[list[bytes], bool]]:
        return await answers(lines, has_fast_path=True), await answers(lines, has_fast_path=False)

    (fast, needed_sdk), (general, _) = anyio.run(both)
    assert fast == general
    return not needed_sdk


@pytest.mark.parametrize("capabilities", [{}, HOST_OF_APPS])
def test_an_ordinary_handshake_era_conversation_needs_no_sdk(capabilities: Any) -> None:
    opening = request("initialize", OPENING | {"capabilities": capabilities}, "first")
    calls = [request("tools/call", called(name, {}), number) for number, name in enumerate(NAMES)]
    token = request("tools/call", called("progress", {"progressToken": "t"}), "p")
    listed = request("tools/list", {}, 100)
    without_params = {"jsonrpc": "2.0", "id": 101, "method": "tools/list"}
    assert compare(opening, INITIALIZED, request("ping", {}), listed, without_params, *calls, token)


@pytest.mark.parametrize("capabilities", [{}, HOST_OF_APPS])
def test_an_ordinary_modern_conversation_needs_no_sdk(capabilities: Any) -> None:
    meta = META | {"io.modelcontextprotocol/clientCapabilities": capabilities}
    calls = [request("tools/call", called(name, meta), number) for number, name in enumerate(NAMES)]
    token = request("tools/call", called("progress", meta | {"progressToken": 5}), "p")
    assert compare(
        request("server/discover", {"_meta": meta}, "d"), request("tools/list", {"_meta": meta}, "l"), *calls, token
    )


@pytest.mark.parametrize(
    "message",
    [
        request("prompts/list", {}, 9),
        request("tools/call", called("no such tool", {}), 9),
        request("tools/list", {"_meta": META}, 9),
        request("initialize", OPENING, 9),
        request("resources/list", {}, 9),
        request("unheard/of", {}, 9),
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        [OPEN],
        5,
    ],
)
def test_the_sdk_takes_over_in_the_middle_of_a_conversation(message: Any) -> None:
    opening = request("initialize", OPENING | {"capabilities": HOST_OF_APPS}, 9)
    listed = request("tools/list", {}, 10)
    assert not compare(opening, INITIALIZED, listed, message, listed, request("resources/list", {}, 11), message)
    modern = request("tools/list", {"_meta": META}, 9)
    compare(modern, INITIALIZED, message, modern, message)


@pytest.mark.parametrize("odd", [True, None, 1.0, 1.5, 2**70, [], {}])
def test_an_odd_id_or_progress_token_is_left_to_the_sdk(odd: Any) -> None:
    assert not compare(OPEN, request("tools/call", called("work", {}), odd))
    assert not compare(OPEN, request("tools/call", called("work", {"progressToken": odd})))


@settings(max_examples=100)
@given(
    st.builds(request, st.just("initialize"), HANDSHAKES) | messages(LEGACY_META),
    st.lists(messages(LEGACY_META) | st.just(INITIALIZED) | st.just(OPEN), max_size=4),
)
@example(INITIALIZED, [OPEN, request("tools/list", {})])
@example(request("tools/list", {}), [OPEN, request("tools/list", {})])
@example(request("ping", {}), [OPEN, request("tools/list", {})])
def test_any_handshake_era_conversation_is_answered_alike(opening: Any, rest: list[Any]) -> None:
    compare(opening, *rest)


@settings(max_examples=100)
@given(
    messages(st.just(META)),
    st.lists(messages(st.just(META) | MODERN_META) | st.just(INITIALIZED) | st.just(OPEN), max_size=4),
)
@example(OPEN, [request("tools/list", {"_meta": META})])
@example(request("tools/list", {"_meta": META}), [OPEN, request("prompts/list", {"_meta": META})])
def test_any_modern_conversation_is_answered_alike(opening: Any, rest: list[Any]) -> None:
    compare(opening, *rest)


@pytest.mark.parametrize("line", [b"{", b"\xff", b"null", b"[" * 5000, b'{"id":1}', b'"\\ud800"', b"NaN"])
def test_a_line_that_is_not_a_message_is_answered_alike(line: bytes) -> None:
    async def both() -> list[tuple[list[bytes], bool]]:
        opened = [json.dumps(OPEN).encode(), line]
        return [await answers(lines, has_fast_path=is_fast) for lines in (opened, [line]) for is_fast in (True, False)]

    (fast, _), (general, _), (fast_first, _), (general_first, _) = anyio.run(both)
    assert fast == general
    assert fast_first == general_first
