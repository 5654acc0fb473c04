"""The process at the other end of stdin and stdout."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.storage.database import SqliteLocation
from tests.databases import prepare_desk, query
from tests.wire import CARREL, ERAS, LEGACY, MODERN, StdioWire, call, environment, value


@pytest.fixture(params=ERAS)
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StdioWire]:
    """A process of the test's own."""
    wire = StdioWire(request.param, cwd=prepare_desk(tmp_path))
    yield wire
    wire.process.kill()
    wire.close()


@pytest.fixture(scope="module", params=ERAS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioWire]:
    """One process for all tests after which it has to be as it was."""
    wire = StdioWire(request.param, cwd=prepare_desk(tmp_path_factory.mktemp("stdio")))
    yield wire
    assert wire.close() == 0


def add(wire: StdioWire, title: str = "x") -> dict[str, Any]:
    return {"name": "add_task", "arguments": {"user_id": "ana", "title": title}}


def titles(wire: StdioWire) -> list[str]:
    return [task["title"] for task in value(call(wire, "list_tasks", {"user_id": "ana"}))]


GARBAGE = [
    (b"garbage\n", -32700),
    (b'{"jsonrpc":"2.0","id":1,\n', -32700),
    (b"\xff\xfe{}\n", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"\\ud800"}}\n', -32700),
    (b"[" * 100_000 + b"\n", -32700),
    (b'{"jsonrpc":"2.0","id":7,"params":{"a":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}\n", -32700),
    (b"[]\n", -32600),
    (b"5\n", -32600),
    (b"null\n", -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n', -32600),
    (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}\n', -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600),
]


@pytest.mark.rule("common.error.malformed")
def test_every_line_that_is_no_message_is_answered_and_the_next_call_works(shared: StdioWire) -> None:
    for line, code in GARBAGE:
        shared.send_bytes(line)
        answer = shared.receive()
        assert (answer["jsonrpc"], answer["error"]["code"]) == ("2.0", code), line[:60]
        assert "id" in answer
    assert titles(shared) == []


def test_a_request_that_is_wrong_but_has_an_id_is_answered_by_that_id(shared: StdioWire) -> None:
    shared.send_bytes(b'{"jsonrpc":"2.0","id":77,"method":5}\n')
    assert shared.receive() == {
        "jsonrpc": "2.0",
        "id": 77,
        "error": {"code": -32600, "message": "Invalid Request"},
    }


def test_blank_lines_and_carriage_returns_are_no_messages(shared: StdioWire) -> None:
    shared.send_bytes(b"\n\r\n   \n")
    assert titles(shared) == []


def test_a_message_may_come_in_pieces(shared: StdioWire) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": "é", "method": "no/such"}, ensure_ascii=False).encode() + b"\n"
    for piece in (message[:9], message[9:23], message[23:]):
        shared.send_bytes(piece)
    assert shared.receive()["id"] == "é"


def test_strings_of_10_megabytes_get_the_contracts_error(shared: StdioWire) -> None:
    long = "x" * 10_000_000
    answers = {
        "title": "Title must be 200 characters or less",
        "description": "Description must be 1000 characters or less",
    }
    for field, message in answers.items():
        result = call(shared, "add_task", {"user_id": "ana", "title": "t", field: long})
        assert value(result) == {"error": message}
    assert titles(shared) == []


def test_a_line_beyond_all_bounds_is_refused_and_the_next_call_works(shared: StdioWire) -> None:
    shared.send_bytes(b'"' + b"x" * (40 * 1024 * 1024) + b'"\n')
    assert shared.receive()["error"]["code"] == -32600
    assert titles(shared) == []


def test_half_a_line_at_the_end_of_input_is_answered_before_the_end(wire: StdioWire) -> None:
    wire.send_bytes(b'{"jsonrpc":"2.0","id":5,"meth')
    wire.end_input()
    assert wire.receive()["error"]["code"] == -32700
    assert wire.process.wait(10) == 0


def test_the_end_of_input_finishes_calls_in_flight(wire: StdioWire) -> None:
    numbers = {wire.begin("tools/call", add(wire, f"task {number}")) for number in range(200)}
    wire.end_input()
    answers = [wire.receive() for _ in numbers]
    assert {answer["id"] for answer in answers} == numbers
    assert [answer for answer in answers if "result" not in answer] == []
    assert wire.process.wait(10) == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_calls_in_flight_and_sets_the_status(
    wire: StdioWire, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """The input stays open: the signal alone must end the process."""
    for each in range(20):
        wire.begin("tools/call", add(wire, f"task {each}"))
    answers = [wire.receive()]
    wire.process.send_signal(number)
    started = time.monotonic()
    assert wire.process.wait(10) == status
    assert time.monotonic() - started < 5
    while line := wire._lines.get(timeout=5):
        answers.append(json.loads(line))
    assert [answer for answer in answers if "result" not in answer] == []
    kept = query(SqliteLocation(tmp_path / ".carrel" / "carrel.db"), "SELECT title FROM task WHERE user_id = 'ana'")
    assert len(kept) == len(answers)


def test_an_idle_server_stops_at_once(wire: StdioWire) -> None:
    started = time.monotonic()
    wire.process.terminate()
    assert wire.process.wait(10) == 143
    assert time.monotonic() - started < 2


def test_stdout_carries_protocol_only_and_stderr_a_line_a_call_and_one_for_the_audit(
    tmp_path: Path,
) -> None:
    with (tmp_path / "log").open("w+b") as log:
        wire = StdioWire(MODERN, cwd=prepare_desk(tmp_path), stderr=log)
        call(wire, "add_task", {"user_id": "ana", "title": "a secret title"})
        call(wire, "complete_task", {"user_id": "ana", "task_id": 99})
        assert wire.close() == 0
        log.seek(0)
        lines = [json.loads(line) for line in log.read().splitlines()]
    assert [(line["event"], line.get("tool") or line["action"], line["outcome"]) for line in lines] == [
        ("call", "add_task", "ok"),
        ("audit", "add_task", "ok"),
        ("call", "complete_task", "refused"),
        ("audit", "complete_task", "refused"),
    ]
    assert all({"time", "level", "toolset", "ms", "size"} <= line.keys() for line in lines if line["event"] == "call")
    assert "secret" not in json.dumps(lines)


def test_what_a_library_prints_misses_the_wire(tmp_path: Path) -> None:
    program = (
        "import os, carrel.mcp.pipeline as p\n"
        "call = p.Pipeline.call\n"
        "async def noisy(*a):\n"
        "    print('noise', flush=True); os.write(1, b'more noise\\n'); os.system('echo even more')\n"
        "    return await call(*a)\n"
        "p.Pipeline.call = noisy\n"
        "from carrel.cli import main\n"
        "main()\n"
    )
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list_tasks", "arguments": {}},
        },
    ]
    done = subprocess.run(
        [CARREL[0], "-c", program, "serve"],
        cwd=prepare_desk(tmp_path),
        env=environment(),
        input="".join(json.dumps(message) + "\n" for message in messages).encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert b"noise" in done.stderr
    assert b"even more" in done.stderr


def test_a_client_that_does_not_read_loses_nothing(shared: StdioWire) -> None:
    """More answers than a pipe holds, all asked for before the first is read."""
    long = "é" * 1000
    for number in range(50):
        call(shared, "add_task", {"user_id": f"of {shared.era}", "title": f"task {number}", "description": long})
    asked = {"name": "list_tasks", "arguments": {"user_id": f"of {shared.era}"}}
    numbers = {shared.begin("tools/call", asked) for _ in range(40)}
    answers = [shared.receive() for _ in numbers]
    assert {answer["id"] for answer in answers} == numbers
    assert all(len(value(answer["result"])) == 50 for answer in answers)


def test_input_from_a_file_is_served_too(tmp_path: Path) -> None:
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    (tmp_path / "in").write_text(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}) + "\n"
    )
    with (tmp_path / "in").open() as source, (tmp_path / "out").open("w") as sink:
        subprocess.run(
            [*CARREL, "serve"],
            cwd=prepare_desk(tmp_path),
            env=environment(),
            stdin=source,
            stdout=sink,
            timeout=30,
            check=True,
        )
    assert json.loads((tmp_path / "out").read_text())["result"]["serverInfo"]["name"] == "carrel"


def test_a_client_that_is_gone_ends_the_server(wire: StdioWire) -> None:
    """Both ends of the pipes close at once, as when a client is killed."""
    wire.begin("tools/call", add(wire))
    assert wire.process.stdout is not None
    os.close(os.dup(wire.process.stdout.fileno()))
    wire.end_input()
    assert wire.process.wait(10) == 0


@pytest.mark.rule("common.toolsets.read_only")
def test_read_only_leaves_out_every_tool_that_writes(tmp_path: Path) -> None:
    prepare_desk(tmp_path)
    for era in ERAS:
        wire = StdioWire(era, "--read-only", cwd=tmp_path)
        names = [tool["name"] for tool in wire.request("tools/list")["result"]["tools"]]
        assert names == ["list_tasks", "context_search", "read_file", "grep_codebase"]
        assert wire.request("tools/call", add(wire))["error"]["code"] == -32602
        assert titles(wire) == []
        assert wire.close() == 0


def test_the_server_names_itself_and_says_what_is_on_the_desk(tmp_path: Path) -> None:
    wire = StdioWire(LEGACY, "--user", "ana", cwd=prepare_desk(tmp_path))
    info = wire.opened["serverInfo"]
    version = subprocess.run([*CARREL, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert (info["name"], info["title"], info["version"]) == ("carrel", "Carrel", version)
    assert '- tasks: a user\'s task list; every call takes the user_id "ana".' in wire.opened["instructions"]
    assert wire.close() == 0


@pytest.mark.parametrize("shared", [MODERN], indirect=True)
def test_lists_carry_a_cache_hint(shared: StdioWire) -> None:
    result = shared.request("tools/list")["result"]
    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "public")
