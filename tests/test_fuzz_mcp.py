"""Anything at all sent to every endpoint: no answer is a fault of ours, nothing hangs, and the server goes on.

`python3 dev.py bench fuzz` sends a hundred thousand of the same.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from carrel.storage.admin import upgrade
from carrel.storage.database import PostgresLocation
from tests.fuzz_judge import Wrong
from tests.fuzz_targets import LineSender, Sender, Target, desk, served
from tests.fuzzer import Input, api_inputs, inputs
from tests.postgres import recreate_database
from tests.wire import ERAS, HttpWire, call

pytestmark = pytest.mark.no_cover  # coverage makes it several times slower, and it adds none

KINDS = ("sqlite", "postgres with tokens")
MEGABYTE = 1_000_000
MOST_GROWTH = 30 * MEGABYTE  # what a few hundred inputs may still bring in of caches; a leak of theirs would be more


def sent(count: int) -> settings:
    return settings(
        max_examples=count,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        phases=[Phase.generate, Phase.shrink],
    )


@pytest.fixture(scope="module", params=KINDS)
def target(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server_url: str,
    worker_id: str,
) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    url = ""
    if request.param != "sqlite":
        url = recreate_database(postgres_server_url, f"carrel_fuzz_{worker_id}")
        upgrade(PostgresLocation(url))
    with served(desk(folder, url), url, requires_auth=bool(url)) as found:
        yield found


@pytest.fixture(scope="module", params=ERAS)
def lines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineSender]:
    folder = tmp_path_factory.mktemp("lines")
    sender = LineSender(desk(folder / "desk"), request.param, folder / "log")
    yield sender
    sender.close()


@pytest.mark.rule("faults.fuzz.http", "faults.fuzz.memory")
def test_no_input_over_http_is_answered_wrongly_and_the_server_goes_on(target: Target) -> None:
    sender = Sender(target.address, target.places)
    begun = 0

    @sent(200)
    @given(inputs(target.places, target.tokens))
    def answered(each: Input) -> None:
        nonlocal begun
        sender.send(each)
        begun = begun or (target.resident() if sender.count == 100 else 0)

    answered()
    sender.close()
    target.still_answers()
    assert target.complaints() == []
    assert target.resident() - begun < MOST_GROWTH


@pytest.mark.rule("faults.fuzz.api")
def test_no_request_to_the_api_is_answered_wrongly(target: Target) -> None:
    sender = Sender(target.address, target.places)

    @sent(40)
    @given(api_inputs(target.tokens))
    def answered(each: Input) -> None:
        sender.send(each)

    answered()
    sender.close()
    assert target.complaints() == []


@pytest.mark.rule("faults.fuzz.stdio")
def test_no_line_is_answered_wrongly_or_not_at_all(lines: LineSender) -> None:
    @sent(100)
    @given(inputs(lines.places, eras=(lines.wire.era, *ERAS)))
    def answered(each: Input) -> None:
        lines.send(each)

    answered()
    assert lines.complaints() == []


# --- what was found this way


@pytest.mark.rule("faults.fuzz.surrogates")
@pytest.mark.parametrize("broken", [{"\ud800": 1}, {"x\ud800": "\udfff"}], ids=ascii)
def test_half_of_a_surrogate_pair_in_the_name_of_an_argument_is_no_failure(
    target: Target, broken: dict[str, Any]
) -> None:
    sender = Sender(target.address, target.places)
    for place in target.places:
        wire = HttpWire(ERAS[0], "", place.path)
        for tool in place.tools:
            params = {"name": tool["name"], "arguments": broken}
            token = ((b"Authorization", b"Bearer " + target.tokens[0]),) if target.tokens else ()
            headers = [*wire.headers("tools/call", params).items(), ("Content-Type", "application/json")]
            body = json.dumps(wire.message("tools/call", params)).encode()
            known = tuple((name.encode(), text.encode()) for name, text in headers)
            assert sender.send(Input(place.path, (*known, *token), body)) in ("tool ok", "tool refused")
        wire.close()
    sender.close()
    assert target.complaints() == []


@pytest.mark.rule("faults.fuzz.surrogates")
@pytest.mark.parametrize(
    ("tool", "field"), [("context_search", "query"), ("read_file", "path"), ("grep_codebase", "pattern")]
)
def test_half_of_a_surrogate_pair_in_an_argument_about_code_is_told(target: Target, tool: str, field: str) -> None:
    wire = HttpWire(ERAS[0], target.server.url, "/code/mcp")
    if target.tokens:
        wire.http.headers["Authorization"] = f"Bearer {target.tokens[0].decode()}"
    result = call(wire, tool, {field: "abc\ud800"})
    message = "Must be text without unpaired surrogates"
    expected = {"error": "Invalid parameters", "details": [{"path": [field], "message": message}]}
    assert (json.loads(result["content"][0]["text"]), result["isError"]) == (expected, True)
    wire.close()


@pytest.mark.rule("faults.fuzz.surrogates")
def test_half_of_a_surrogate_pair_in_a_list_is_told_of_that_list(target: Target) -> None:
    wire = HttpWire(ERAS[0], target.server.url, "/notes/mcp")
    if target.tokens:
        wire.http.headers["Authorization"] = f"Bearer {target.tokens[0].decode()}"
    result = call(wire, "create_node", {"title": "x", "content": "x", "tags": ["a", "\ud800"]})
    error = {"code": "INVALID_PARAMS", "message": "tags must be text without unpaired surrogates"}
    assert (json.loads(result["content"][0]["text"]), result["isError"]) == ({"error": error}, True)
    wire.close()


# --- the judge itself


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        (200, b"Internal Server Error"),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"{\\"error\\":\\"timed out\\"}"}],"isError":1}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}'),
    ],
)  # fmt: skip
def test_an_answer_that_is_a_fault_of_ours_is_seen(target: Target, status: int, body: bytes) -> None:
    with pytest.raises(Wrong):
        Sender(target.address, target.places).judge.http(
            status, {b"content-type": b"application/json"}, body, Input("/mcp", (), b"")
        )
