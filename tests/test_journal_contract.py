"""The journal's three tools, in the code contract's words: through the pipeline on both engines, and over stdio."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from carrel.mcp.limits import CallLimits, RateLimiter
from carrel.mcp.pipeline import Answer, Pipeline
from carrel.mcp.toolset import Caller, load_tools
from carrel.storage.database import Database
from carrel.toolsets.code.dialect import CodeDialect
from carrel.toolsets.journal import journal_toolset
from carrel.workspace import find_workspace
from tests.wire import LEGACY, MODERN, StdioWire, call, value

CALLER = Caller(client="journal-tests")
NOBODY = "00000000-0000-4000-8000-000000000000"
FIELDS = ["id", "type", "content", "module", "session", "date"]
TOOLS = ["record_discovery", "list_discoveries", "forget_discovery"]

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


class Journal:
    def __init__(self, database: Database, limits: CallLimits | None = None) -> None:
        self.toolset = journal_toolset(database, "tests")
        self.pipeline = Pipeline([self.toolset], timeout=10, limits=limits)

    async def call(self, name: str, **arguments: Any) -> Answer:
        return await self.pipeline.call(name, arguments, CALLER)

    async def ok(self, name: str, **arguments: Any) -> Any:
        answer = await self.call(name, **arguments)
        assert not answer.is_error, answer
        return json.loads(answer.text)

    async def error(self, name: str, **arguments: Any) -> Any:
        answer = await self.call(name, **arguments)
        assert answer.is_error, answer
        return json.loads(answer.text)

    async def listed(self, **arguments: Any) -> list[dict[str, Any]]:
        return (await self.ok("list_discoveries", **arguments))["discoveries"]


@pytest.fixture
def journal(database: Database) -> Journal:
    return Journal(database)


def invalid(*details: tuple[str, str]) -> dict[str, Any]:
    return {"error": "Invalid parameters", "details": [{"path": [name], "message": text} for name, text in details]}


@pytest.mark.rule("journal.tools.inventory", "journal.tools.schema")
async def test_the_three_tools_are_published_with_their_bounds(journal: Journal) -> None:
    definitions = {each["name"]: each for each in journal.pipeline.definitions}
    assert list(definitions) == TOOLS
    for each in definitions.values():
        assert "additionalProperties" not in each["inputSchema"]
        assert all(argument["description"] for argument in each["inputSchema"]["properties"].values())
        assert each["outputSchema"]["type"] == "object"
    record = definitions["record_discovery"]["inputSchema"]
    assert list(record["properties"]) == ["type", "content", "module", "session"]
    assert record["required"] == ["type", "content"]
    assert record["properties"]["type"]["enum"] == ["pattern", "rule", "decision", "issue"]
    listing = definitions["list_discoveries"]["inputSchema"]
    assert "required" not in listing
    assert {key: listing["properties"]["limit"][key] for key in ("minimum", "maximum", "default")} == {
        "minimum": 1,
        "maximum": 100,
        "default": 20,
    }
    hints = [tuple(each["annotations"].values()) for each in definitions.values()]
    assert hints == [(False, False, False, False), (True, False, True, False), (False, True, True, False)]


@pytest.mark.rule("journal.record.recorded", "journal.list.order")
async def test_what_is_recorded_is_answered_and_listed(journal: Journal) -> None:
    content = " Use «JWT» tokens\nin httpOnly cookies 😀 "
    one = await journal.ok("record_discovery", type="pattern", content=content, module="auth", session="s-1", more=1)
    assert list(one) == FIELDS
    assert {**one, "id": "", "date": ""} == {
        "id": "",
        "type": "pattern",
        "content": content,
        "module": "auth",
        "session": "s-1",
        "date": "",
    }
    assert (one["id"], one["id"][14], len(one["id"])) == (one["id"].lower(), "4", 36)
    assert len(one["date"]) == len("2025-01-15T10:00:00.000Z")
    two = await journal.ok("record_discovery", type="rule", content="x" * 10_000)
    assert (two["module"], two["session"]) == (None, None)
    expected = sorted([one, two], key=lambda each: each["id"])
    expected.sort(key=lambda each: each["date"], reverse=True)
    assert await journal.ok("list_discoveries") == {"discoveries": expected, "total": 2}


@pytest.mark.rule("journal.record.invalid", "journal.record.storable")
async def test_what_cannot_be_recorded_is_told_for_each_argument_and_not_kept(journal: Journal) -> None:
    types = "Must be one of pattern, rule, decision, issue"
    length = "Must be a string of 1 to 10000 characters"
    short = "Must be a string of 1 to 200 characters"
    assert await journal.error("record_discovery") == invalid(("type", "Required"), ("content", "Required"))
    assert await journal.error("record_discovery", type="all", content="", module=5, session=None) == invalid(
        ("type", types), ("content", length), ("module", short), ("session", short)
    )
    for content in ("x" * 10_001, ["x"], None, 5):
        assert await journal.error("record_discovery", type="rule", content=content) == invalid(("content", length))
    storable = "Must not contain NUL or unpaired surrogates"
    assert await journal.error("record_discovery", type="rule", content="a\0b", module="\0") == invalid(
        ("content", storable), ("module", storable)
    )
    assert await journal.error("record_discovery", type="rule", content=" \n ") == invalid(
        ("content", "Must not be empty")
    )
    assert await journal.error("record_discovery", type="rule", content="\ud800") == invalid(("content", storable))
    assert await journal.ok("list_discoveries") == {"discoveries": [], "total": 0}


@pytest.mark.rule("journal.list.filters", "journal.list.order")
async def test_lists_are_filtered_and_limited(journal: Journal) -> None:
    for number in range(23):
        kind = ("pattern", "rule", "decision", "issue")[number % 4]
        module = {"module": "auth"} if number % 2 else {}
        await journal.ok("record_discovery", type=kind, content=f"no {number}", **module)
    everything = await journal.listed(limit=100)
    keys = [(each["date"], each["id"]) for each in everything]
    assert sorted(keys, key=lambda key: key[1]) != keys or len(set(keys)) == 23
    assert [date for date, _ in keys] == sorted((date for date, _ in keys), reverse=True)
    found = await journal.ok("list_discoveries")
    assert (found["discoveries"], found["total"]) == (everything[:20], 23)
    assert await journal.listed(limit=1.0, type="all") == everything[:1]
    assert await journal.ok("list_discoveries", type="rule", module="auth", limit=2) == {
        "discoveries": [each for each in everything if each["type"] == "rule"][:2],
        "total": 6,
    }
    for module in ("Auth", "au", "", "auth "):
        assert await journal.ok("list_discoveries", module=module) == {"discoveries": [], "total": 0}
    for limit in (0, 101, "5", True, 1.5, None):
        expected = invalid(("limit", "Must be an integer from 1 to 100"))
        assert await journal.error("list_discoveries", limit=limit) == expected
    assert (await journal.error("list_discoveries", module="\0"))["error"] == "Invalid parameters"


@pytest.mark.rule("journal.forget.deleted")
async def test_a_discovery_is_forgotten_once(journal: Journal) -> None:
    kept = await journal.ok("record_discovery", type="issue", content="x")
    assert await journal.ok("forget_discovery", id=NOBODY) == {"deleted": False}
    assert await journal.ok("forget_discovery", id=kept["id"].upper()) == {"deleted": True}
    assert await journal.ok("forget_discovery", id=kept["id"]) == {"deleted": False}
    for bad in ("x", kept["id"] + "0", "", 5, None):
        assert await journal.error("forget_discovery", id=bad) == invalid(("id", "Must be a UUID"))


@pytest.mark.rule("journal.error.failed")
async def test_a_database_that_fails_is_told_without_its_cause(database: Database) -> None:
    journal = Journal(database)
    await database.close()
    assert await journal.error("record_discovery", type="rule", content="x") == {
        "error": "Failed to record discovery",
        "tool": "record_discovery",
    }
    assert await journal.error("forget_discovery", id=NOBODY) == {
        "error": "Failed to forget discovery",
        "tool": "forget_discovery",
    }


@pytest.mark.rule("journal.error.limited")
async def test_past_the_limit_a_call_is_told_when_to_come_again(database: Database) -> None:
    journal = Journal(database, CallLimits(RateLimiter(1, clock=lambda: 100.0)))
    await journal.error("list_discoveries", limit=0)
    await journal.ok("list_discoveries")
    assert await journal.error("list_discoveries") == {
        "error": "Rate limit exceeded for list_discoveries",
        "retryAfter": 60,
    }


@pytest.mark.rule("journal.error.query")
def test_the_dialect_has_the_words_for_a_short_query() -> None:
    from carrel.mcp.toolset import Tool
    from carrel.mcp.validation import Validator

    properties = {
        "query": {"type": "string", "minLength": 3, "maxLength": 500},
        "path": {"type": "string", "minLength": 1},
        "includeDeps": {"type": "boolean"},
    }
    schema = {"type": "object", "properties": properties, "required": ["query"]}
    (handler,) = (tool.handler for tool in load_tools("carrel.toolsets.journal", {"forget_discovery": _never}))
    tool = Tool({"name": "context_search", "inputSchema": schema}, handler, Validator(schema))
    dialect = CodeDialect((tool,), {"context_search": "Search failed"})

    def words(**arguments: Any) -> Any:
        return dialect.invalid("context_search", tool.validator.violations(arguments))

    assert words(query="ab") == words(query="", path="") == {"error": "Query must be at least 3 characters"}
    assert words() == invalid(("query", "Required"))
    assert words(query=5, path="", includeDeps="yes") == invalid(
        ("query", "Must be a string of 3 to 500 characters"),
        ("path", "Must be a string that is not empty"),
        ("includeDeps", "Must be true or false"),
    )
    assert dialect.failed("context_search") == {"error": "Search failed", "tool": "context_search"}
    assert dialect.timed_out("context_search", 5) == {
        "error": "Search failed: no answer within 5 seconds",
        "tool": "context_search",
    }


async def _never(*_: Any) -> Any:
    raise AssertionError


@pytest.mark.rule("journal.tools.named", "journal.record.recorded")
@pytest.mark.parametrize(("database_url", "era"), [("sqlite", MODERN), ("postgres", LEGACY)], indirect=["database_url"])
def test_the_journal_is_served_over_stdio_where_it_is_named(era: str, database_url: str, tmp_path: Path) -> None:
    wire = StdioWire(era, "--toolsets", "journal", "--database", database_url, cwd=tmp_path)
    try:
        assert [tool["name"] for tool in wire.request("tools/list")["result"]["tools"]] == TOOLS
        result = call(wire, "record_discovery", {"type": "rule", "content": "no SQL outside repositories"})
        kept = value(result)
        assert result["structuredContent"] == kept
        assert value(call(wire, "list_discoveries", {})) == {"discoveries": [kept], "total": 1}
        wrong = call(wire, "record_discovery", {"type": "hint", "content": "x"})
        assert (wrong["isError"], "structuredContent" in wrong) == (True, False)
        assert value(call(wire, "forget_discovery", {"id": kept["id"]})) == {"deleted": True}
    finally:
        wire.close()


@pytest.mark.rule("journal.tools.named")
async def test_the_journal_is_not_served_unless_it_is_named(tmp_path: Path) -> None:
    async with find_workspace(tmp_path, environment={}).open() as desk:
        assert "journal" not in desk.toolsets
        assert "tasks" in desk.toolsets
