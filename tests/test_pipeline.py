"""The one way of every call, with toolsets made for the purpose."""

import asyncio
import json
import logging
from collections.abc import Generator
from typing import Any

import anyio
import pytest

from carrel import logs
from carrel.calls.call_store import CallRecord, log_call
from carrel.mcp.limits import CallLimits, RateLimiter
from carrel.mcp.pipeline import Answer, Pipeline, UnknownTool
from carrel.mcp.toolset import Arguments, Caller, Failure, Handler, Tool, Toolset
from carrel.mcp.validation import Validator, Violation

pytestmark = pytest.mark.anyio

ANA = Caller("ana")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
}


class Plain:
    def invalid(self, tool: str, violations: list[Violation]) -> dict[str, Any]:
        return {"error": "invalid", "at": [[*each.path, each.rule] for each in violations]}

    def failed(self, tool: str) -> dict[str, Any]:
        return {"error": "failed"}

    def timed_out(self, tool: str, seconds: float) -> dict[str, Any]:
        return {"error": "timed out", "after": seconds}

    def rate_limited(self, tool: str, retry_after: int) -> dict[str, Any]:
        return {"error": "too many", "retryAfter": retry_after}

    def too_large(self, tool: str, message: str) -> dict[str, Any]:
        return {"error": "too large", "because": message}


def tool(handler: Handler, name: str = "work", *, read_only: bool = False) -> Tool:
    definition = {"name": name, "inputSchema": SCHEMA, "annotations": {"readOnlyHint": read_only}}
    return Tool(definition, handler, Validator(SCHEMA))


async def echo(arguments: Arguments, _caller: Caller) -> Any:
    return arguments


def pipeline(*tools: Tool, **options: Any) -> Pipeline:
    options.setdefault("timeout", 5)
    toolset_options = {key: options.pop(key) for key in ("prepare", "admit") if key in options}
    return Pipeline([Toolset("plain", "", tools, Plain(), **toolset_options)], **options)


async def called(line: Pipeline, arguments: Arguments | None = None, caller: Caller = ANA) -> Answer:
    return await line.call("work", {"a": 1} if arguments is None else arguments, caller)


async def test_the_answer_is_encoded_once_and_compact() -> None:
    answer = await called(pipeline(tool(echo)), {"a": 1, "b": "é\u2028"})
    assert (answer.is_error, answer.value) == (False, {"a": 1, "b": "é\u2028"})
    assert answer.text == '{"a":1,"b":"é\u2028"}'


async def test_a_tool_that_there_is_not_is_unknown() -> None:
    with pytest.raises(UnknownTool):
        await pipeline(tool(echo)).call("play", {}, ANA)


async def test_all_violations_are_reported_in_the_order_of_the_schema() -> None:
    answer = await called(pipeline(tool(echo)), {"b": 5})
    assert answer == Answer(
        value={"error": "invalid", "at": [["a", "required"], ["b", "type"]]},
        text='{"error":"invalid","at":[["a","required"],["b","type"]]}',
        is_error=True,
    )


async def test_arguments_are_prepared_before_they_are_validated() -> None:
    def prepare(_tool: str, arguments: Arguments) -> Arguments:
        return {**arguments, "a": len(arguments["a"])}

    answer = await called(pipeline(tool(echo), prepare=prepare), {"a": "four"})
    assert answer.value == {"a": 4}


async def test_a_caller_who_is_not_admitted_reaches_no_handler() -> None:
    reached: list[Caller] = []

    async def handler(_arguments: Arguments, caller: Caller) -> Any:
        reached.append(caller)
        return "in"

    def admit(_arguments: Arguments, caller: Caller) -> Failure | None:
        return None if caller.user == "ana" else Failure({"error": "out"})

    line = pipeline(tool(handler), admit=admit)
    assert (await called(line)).text == '{"error":"out"}'
    ana = Caller("a client", "ana")
    assert (await called(line, caller=ana)).text == '"in"'
    assert reached == [ana]


@pytest.mark.rule("common.error.no_leak")
async def test_an_exception_is_the_dialects_failure_and_its_cause_is_only_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    answer = await called(pipeline(tool(handler)))
    assert answer == Answer({"error": "failed"}, '{"error":"failed"}', True)
    assert "SELECT secret" in caplog.text


@pytest.mark.rule("common.error.timeout")
async def test_a_call_past_its_limit_is_cancelled_and_answered() -> None:
    cancelled = anyio.Event()

    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    answer = await called(pipeline(tool(handler), timeout=0.01))
    assert answer.value == {"error": "timed out", "after": 0.01}
    assert answer.is_error
    assert cancelled.is_set()


async def test_calls_that_overlap_each_have_the_whole_time() -> None:
    async def handler(arguments: Arguments, _caller: Caller) -> Any:
        await anyio.sleep(arguments["a"] / 1000)
        return arguments["a"]

    line = pipeline(tool(handler), timeout=0.2)
    begun = [asyncio.create_task(called(line, {"a": 5000}))]
    await anyio.sleep(0.1)
    begun += [asyncio.create_task(called(line, {"a": milliseconds})) for milliseconds in (5000, 150)]
    answers = await asyncio.gather(*begun)
    assert [each.value for each in answers] == [{"error": "timed out", "after": 0.2}] * 2 + [150]
    assert (await called(line, {"a": 5000})).is_error, "there is a timer again"


async def test_a_handler_that_survives_its_time_being_up_leaves_no_cancellation_behind() -> None:
    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return "late"

    assert (await called(pipeline(tool(handler), timeout=0.01))).value == "late"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_caller_that_cancels_just_as_time_is_up_is_not_told_of_a_timeout() -> None:
    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            task.cancel()

    line = pipeline(tool(handler), timeout=0.01)
    task = asyncio.create_task(called(line))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_that_the_handler_raises_itself_is_a_failure() -> None:
    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        raise TimeoutError

    assert (await called(pipeline(tool(handler)))).value == {"error": "failed"}


async def test_a_limit_counts_by_client_and_tool_and_not_what_was_invalid() -> None:
    line = pipeline(tool(echo), tool(echo, "rest"), limits=CallLimits(RateLimiter(2)))
    for _ in range(3):
        assert (await called(line, {})).value["error"] == "invalid"
    outcomes = [(await called(line)).is_error for _ in range(3)]
    assert outcomes == [False, False, True]
    assert (await called(line)).value == {"error": "too many", "retryAfter": 60}
    assert not (await called(line, caller=Caller("ben"))).is_error
    assert not (await line.call("rest", {"a": 1}, ANA)).is_error


async def test_a_read_only_pipeline_has_no_tool_that_writes() -> None:
    line = pipeline(tool(echo), tool(echo, "look", read_only=True), read_only=True)
    assert [each["name"] for each in line.definitions] == ["look"]
    with pytest.raises(UnknownTool):
        await called(line)


async def test_every_call_is_observed_with_its_outcome_and_size() -> None:
    async def refuse(_arguments: Arguments, _caller: Caller) -> Any:
        return Failure({"error": "no"})

    async def fail(_arguments: Arguments, _caller: Caller) -> Any:
        raise ValueError

    seen: list[CallRecord] = []
    line = pipeline(tool(echo), tool(refuse, "refuse"), tool(fail, "fail"), observers=(seen.append,))
    await called(line)
    await called(line, {})
    await line.call("refuse", {"a": 1}, ANA)
    await line.call("fail", {"a": 1}, ANA)
    assert [(each.toolset, each.tool, each.outcome) for each in seen] == [
        ("plain", "work", "ok"),
        ("plain", "work", "refused"),
        ("plain", "refuse", "refused"),
        ("plain", "fail", "failed"),
    ]
    assert seen[0].size == len('{"a":1}')
    assert all(each.seconds >= 0 for each in seen)


async def test_a_cancelled_call_is_observed_too() -> None:
    started = anyio.Event()

    async def handler(_arguments: Arguments, _caller: Caller) -> Any:
        started.set()
        await anyio.sleep_forever()

    seen: list[CallRecord] = []
    line = pipeline(tool(handler), observers=(seen.append,))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(called, line)
        await started.wait()
        tasks.cancel_scope.cancel()
    assert [each.outcome for each in seen] == ["cancelled"]


RECORDS = {
    "info": CallRecord("tasks", "add_task", "ok", 0.0015, 48, 1_800_000_000.0625),
    "warning": CallRecord("code", 'a "tool"', "refused", 12.0, 0, 1_800_000_000.5, is_slow=True),
    "error": CallRecord("code", "é", "failed", 0.0, 1, 1_800_000_000.0, arguments={"path": "ü", "is": object}),
}


def test_a_call_is_logged_as_one_line_without_arguments(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "carrel.calls"):
        log_call(RECORDS["info"])
    (record,) = caplog.records
    assert record.__dict__["fields"] == {
        "tool": "add_task",
        "toolset": "tasks",
        "outcome": "ok",
        "ms": 1.5,
        "size": 48,
    }


@pytest.fixture
def only_handler() -> Generator[None]:
    """Without pytest's own, as in a server; afterwards with them again."""
    root, chatty = logging.getLogger(), [logging.getLogger(name) for name in ("mcp", "uvicorn", "alembic", "psycopg")]
    handlers, levels = root.handlers[:], [each.level for each in (root, *chatty)]
    root.handlers = []
    yield
    root.handlers = handlers
    for each, level in zip((root, *chatty), levels, strict=True):
        each.setLevel(level)


@pytest.mark.parametrize("level", RECORDS)
@pytest.mark.usefixtures("only_handler")
def test_a_line_that_is_written_directly_is_what_logging_would_write(
    level: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = RECORDS[level]
    logs.configure("json", "info")
    log_call(record)
    direct = capfd.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(logs, "line_writer", lambda _log: None)
        patch.setattr("time.time", lambda: record.at)
        patch.setattr("time.time_ns", lambda: round(record.at * 1e9))  # which logging asks since Python 3.13
        log_call(record)
    assert direct == capfd.readouterr().err
    line = json.loads(direct)
    assert (line["level"], line["logger"], line["tool"]) == (level, "carrel.calls", record.tool)


@pytest.mark.usefixtures("only_handler")
def test_whoever_else_listens_to_the_log_hears_of_calls_too(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    heard: list[logging.LogRecord] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    logging.getLogger().addHandler(Listener())
    log_call(RECORDS["info"])
    assert [each.getMessage() for each in heard] == ["call"]
    assert capfd.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("only_handler")
def test_what_the_level_leaves_out_is_not_written(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "warning")
    for record in RECORDS.values():
        log_call(record)
    assert [json.loads(line)["level"] for line in capfd.readouterr().err.splitlines()] == ["warning", "error"]


def test_the_window_slides() -> None:
    now = [0.0]
    limiter = RateLimiter(2, clock=lambda: now[0])
    answers: list[int | None] = []
    for moment in (0.0, 30.0, 59.5, 60.0, 61.0, 90.0):
        now[0] = moment
        answers.append(limiter.retry_after("ana", "work"))
    assert answers == [None, None, 1, None, 29, None]


def test_quiet_clients_are_forgotten() -> None:
    now = [0.0]
    limiter = RateLimiter(1, clock=lambda: now[0])
    for number in range(4000):
        limiter.retry_after(f"client-{number}", "work")
    now[0] = 61.0
    for _ in range(200):
        limiter.retry_after("ana", "work")
    assert len(limiter._calls) == 1


async def test_text_that_json_cannot_carry_is_a_failure_not_a_crash() -> None:
    answer = await called(pipeline(tool(echo)), {"a": 1, "b": "\ud800"})
    assert answer.is_error
    assert json.loads(answer.text) == {"error": "failed"}
