"""code.md and its rulings, over every engine, transport and protocol revision."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.code_servers import (
    COOKIES,
    DATE,
    FILES,
    KINDS,
    WORDS_ONLY,
    CodeServers,
    error,
    learn,
    ok,
    prepare,
    run,
    text,
    uid,
)
from tests.content_servers import compact, same_schema
from tests.wire import MODERN, Wire, call

TOOLS = ["context_search", "read_file", "grep_codebase"]
GOOD: dict[str, dict[str, Any]] = {
    "context_search": {"query": "zephyr"},
    "read_file": {"path": "src/api/login.py"},
    "grep_codebase": {"pattern": "sign_token"},
}
RESULT_FIELDS = ["id", "type", "content", "module", "session", "date", "score", "source"]


class Served(CodeServers):
    sessions: dict[str, str]
    """The id of the one session, by engine."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("code-contract")
    served = Served(folder, {"sqlite": prepare(folder), "postgres": postgres_url}, **WORDS_ONLY)
    served.sessions = {engine: learn(folder, url) for engine, url in served.urls.items()}
    yield served
    served.close()


@pytest.fixture(params=KINDS, ids="-".join)
def kind(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    return request.param


@pytest.fixture
def code(servers: Served, kind: tuple[str, str, str]) -> Wire:
    return servers.wire(*kind)


def contract() -> list[dict[str, Any]]:
    copy = Path(__file__).parent / "contracts" / "code.json"
    return json.loads(copy.read_text(encoding="utf-8"))


def timeless(found: str) -> str:
    """An answer without the one number that nobody knows before; that it is a whole one is checked."""
    without, times = re.subn(r'"searchTime":\d+', '"searchTime":0', found)
    assert times == 1, found
    return without


def search(wire: Wire, query: str, **more: Any) -> list[str]:
    """The ids found, in their order."""
    return [each["id"] for each in ok(wire, "context_search", query=query, **more)["results"]]


# --- what is published


@pytest.mark.rule("code.contract.schemas", "common.schema.exact")
def test_the_three_tools_are_published_as_the_contract_has_them(code: Wire) -> None:
    tools = code.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    expected = {tool["name"]: tool for tool in contract()}
    for tool in tools:
        assert tool["description"] == expected[tool["name"]]["description"]
        same_schema(tool["inputSchema"], expected[tool["name"]]["inputSchema"])
        assert "additionalProperties" not in tool["inputSchema"]


@pytest.mark.rule("code.contract.output", "common.result.output_schema")
def test_results_are_valid_against_the_published_output_schemas_and_in_their_order(code: Wire) -> None:
    for tool in code.request("tools/list")["result"]["tools"]:
        schema = tool["outputSchema"]
        found = ok(code, tool["name"], **GOOD[tool["name"]])
        jsonschema_rs.Draft202012Validator(schema).validate(found)
        assert [each for each in schema["properties"] if each in found] == list(found)
        assert set(schema["required"]) <= set(found)


@pytest.mark.rule("code.contract.annotations", "common.annotations.true")
def test_every_tool_only_reads(code: Wire) -> None:
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    assert [tool["annotations"] for tool in code.request("tools/list")["result"]["tools"]] == [hints] * 3


# --- what is answered


@pytest.mark.rule("code.contract.read", "common.result.text", "common.result.structured")
def test_read_file_answers_word_for_word(code: Wire) -> None:
    login, tokens = FILES["src/api/login.py"], FILES["src/auth/tokens.py"]
    file = {"path": "src/api/login.py", "content": login, "size": len(login), "lines": 5, "language": "python"}
    metadata = {"module": "api", "role": "core", "lastModified": DATE}
    plain = compact({"file": file, "dependencies": [], "metadata": metadata})
    assert text(code, "read_file", path="src/api/login.py") == plain
    assert text(code, "read_file", path="./src//api/login.py", includeDeps=False, maxDepth=1) == plain
    assert text(code, "read_file", path="src/api/login.py", includeDeps=True, maxDepth=0) == plain
    imported = {
        "path": "src/auth/tokens.py",
        "type": "import",
        "level": 1,
        "content": tokens,
        "size": len(tokens),
        "lines": 6,
        "language": "python",
    }
    for more in ({}, {"maxDepth": 1}, {"maxDepth": 1.0}):
        assert text(code, "read_file", path="src/api/login.py", includeDeps=True, **more) == compact(
            {"file": file, "dependencies": [imported], "metadata": metadata}
        )
    wide = ok(code, "read_file", path="wide.txt")["file"]
    assert list(wide) == ["path", "content", "size", "lines", "language", "encoding"]
    assert wide["content"] == "na\u00efve caf\u00e9\n"


@pytest.mark.rule("code.contract.read_errors", "common.error.shape")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/passwd", "Absolute paths not allowed"),
        ("C:\\x", "Absolute paths not allowed"),
        ("~/x", "Absolute paths not allowed"),
        ("file:///etc/passwd", "Absolute paths not allowed"),
        ("../../../etc/passwd", "Path traversal not allowed"),
        ("src\\..\\.env", "Path traversal not allowed"),
        (".env", "Permission denied"),
        (".git/config", "Permission denied"),
        ("node_modules/gone.js", "Permission denied"),
        ("invalid/path.ts", "File not found"),
        ("src/auth", "Not a file"),
    ],
)
def test_read_file_refuses_in_the_contracts_words(code: Wire, path: str, expected: str) -> None:
    assert compact(error(code, "read_file", path=path)) == compact({"error": expected, "path": path})


@pytest.mark.rule("code.contract.read_errors")
def test_read_file_tells_details_where_there_are_some(code: Wire) -> None:
    for path, expected in {
        "large.txt": ("File too large", "1048577 bytes, the limit is 1048576"),
        "data.bin": ("Not a text file", "ELF executable"),
    }.items():
        found = error(code, "read_file", path=path)
        assert list(found) == ["error", "path", "details"]
        assert (found["error"], found["path"]) == (expected[0], path)
        assert path == "data.bin" or found["details"] == expected[1]
    broken = error(code, "read_file", path="src/api/broken.py", includeDeps=True)
    assert compact(broken) == compact(
        {"error": "Failed to parse imports", "path": "src/api/broken.py", "details": "Syntax error at line 2"}
    )
    assert ok(code, "read_file", path="src/api/broken.py")["file"]["lines"] == 2
    tolerant = ok(code, "read_file", path="src/api/broken.ts", includeDeps=True)
    assert list(tolerant) == ["file", "dependencies", "metadata", "warnings"]
    assert [warning["line"] for warning in tolerant["warnings"]] == [2]


@pytest.mark.rule("code.contract.grep")
def test_grep_codebase_answers_word_for_word(code: Wire) -> None:
    found = text(code, "grep_codebase", pattern="sign_token\\(", filePattern="**/*.py")
    lines = FILES["src/auth/tokens.py"].splitlines()
    expected = {
        "matches": [
            {
                "file": "src/api/login.py",
                "line": 5,
                "column": 12,
                "text": "    return sign_token(user)",
                "context": {"before": ["", "def login(user):"], "after": []},
            },
            {
                "file": "src/auth/tokens.py",
                "line": 4,
                "column": 5,
                "text": lines[3],
                "context": {"before": lines[1:3], "after": lines[4:6]},
            },
        ],
        "pattern": "sign_token\\(",
        "totalMatches": 2,
        "filesSearched": 4,
        "searchTime": 0,
    }
    assert timeless(found) == compact(expected)
    limited = text(code, "grep_codebase", pattern="SIGN_TOKEN\\(", filePattern="**/*.py", limit=1.0)
    first = {**expected, "matches": expected["matches"][:1], "pattern": "SIGN_TOKEN\\("}
    assert timeless(limited) == compact(first)
    nothing = text(code, "grep_codebase", pattern="SIGN_TOKEN\\(", filePattern="**/*.py", caseSensitive=True)
    message = "No matches found for pattern 'SIGN_TOKEN\\('"
    assert timeless(nothing) == compact(
        {**first, "matches": [], "totalMatches": 0, "searchTime": 0, "message": message}
    )
    quinces = ok(code, "grep_codebase", pattern="quinces")
    assert [match["file"] for match in quinces["matches"]] == ["docs/guide.md"]


@pytest.mark.rule("code.contract.grep_errors")
def test_grep_codebase_refuses_in_the_contracts_words(code: Wire) -> None:
    found = error(code, "grep_codebase", pattern="[invalid(")
    assert (list(found), found["error"], found["pattern"]) == (
        ["error", "pattern", "details"],
        "Invalid regex pattern",
        "[invalid(",
    )
    found = error(code, "grep_codebase", pattern="x", filePattern="a[")
    assert (found["error"], found["details"][0]["path"]) == ("Invalid parameters", ["filePattern"])


@pytest.mark.rule("code.contract.search", "code.context.together")
def test_context_search_answers_word_for_word(servers: Served, kind: tuple[str, str, str]) -> None:
    code = servers.wire(*kind)
    found = ok(code, "context_search", query="JWT httpOnly cookies")
    (first, *_) = found["results"]
    score = first["score"]
    assert 0 < score <= 1
    assert round(score, 4) == score
    assert timeless(text(code, "context_search", query="JWT httpOnly cookies")) == compact(
        {
            "results": [{**COOKIES, "score": score, "source": "discovery"}],
            "query": "JWT httpOnly cookies",
            "totalFound": 1,
            "searchTime": 0,
        }
    )
    session = servers.sessions[kind[0]]
    (kettle,) = ok(code, "context_search", query="kettle mended")["results"]
    assert kettle == {
        "id": session,
        "type": "session",
        "content": "Mended the zephyr kettle",
        "module": "auth",
        "session": session,
        "date": "2025-01-15T11:00:00.000Z",
        "score": kettle["score"],
        "source": "session",
    }
    (lantern,) = ok(code, "context_search", query="lantern")["results"]
    assert list(lantern) == RESULT_FIELDS
    assert lantern == {
        "id": "src/auth/sessions.py:1-2",
        "type": "code",
        "content": FILES["src/auth/sessions.py"].rstrip("\n"),
        "module": "auth",
        "session": None,
        "date": DATE,
        "score": lantern["score"],
        "source": "code",
    }


@pytest.mark.rule("code.context.ties", "code.context.total", "code.context.order")
def test_results_are_ordered_by_score_and_id_and_counted_before_the_limit(code: Wire) -> None:
    found = ok(code, "context_search", query="zephyr zebras zigzag", limit=20)
    keys = [(-each["score"], each["id"]) for each in found["results"]]
    assert keys == sorted(keys)
    assert [each["id"] for each in found["results"]][:3] == [uid(2), uid(3), uid(4)]
    assert len({each["score"] for each in found["results"][:3]}) == 1
    assert found["totalFound"] == len(keys)
    for limit in (1, 2.0):
        limited = ok(code, "context_search", query="zephyr zebras zigzag", limit=limit)
        assert limited["results"] == found["results"][: int(limit)]
        assert limited["totalFound"] == found["totalFound"]
    assert len(search(code, "zephyr zebras zigzag")) == min(5, len(keys))


@pytest.mark.rule("code.context.type")
def test_asking_for_a_type_leaves_out_sessions_and_code(code: Wire) -> None:
    everything = ok(code, "context_search", query="zephyr", limit=20)
    assert {each["source"] for each in everything["results"]} == {"discovery", "session"}
    assert ok(code, "context_search", query="zephyr", limit=20, type="all")["results"] == everything["results"]
    for kind, number in (("issue", 5), ("rule", 6), ("decision", 7)):
        found = ok(code, "context_search", query="zephyr", type=kind)
        assert ([each["id"] for each in found["results"]], found["totalFound"]) == ([uid(number)], 1)
    assert search(code, "lantern", type="pattern") == []


@pytest.mark.rule("code.context.module")
def test_modules_are_exact(code: Wire) -> None:
    assert search(code, "zephyr", module="api") == [uid(5)]
    assert search(code, "zephyr", module="Auth") == [uid(7)]
    assert search(code, "lantern", module="auth") == ["src/auth/sessions.py:1-2"]
    for module in ("AUTH", "aut", "auth ", "", "a\0"):
        found = ok(code, "context_search", query="zephyr", module=module)
        assert (found["results"], found["totalFound"]) == ([], 0)


@pytest.mark.rule("code.context.words")
def test_any_text_can_be_asked(code: Wire) -> None:
    for query in (
        "a\0b zephyr",
        "' OR 1=1 --",
        '"zephyr',
        "zephyr & | ! ( )",
        "\U0001f600\U0001f600\U0001f600",
        "x" * 500,
    ):
        assert ok(code, "context_search", query=query)["query"] == query


# --- arguments


def invalid(*details: tuple[str, str]) -> dict[str, Any]:
    return {"error": "Invalid parameters", "details": [{"path": [name], "message": text} for name, text in details]}


WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("context_search", {"query": "ab"}, {"error": "Query must be at least 3 characters"}),
    ("context_search", {"query": ""}, {"error": "Query must be at least 3 characters"}),
    ("context_search", {"query": "\U0001f600\U0001f600", "limit": 0}, {"error": "Query must be at least 3 characters"}),
    ("context_search", {}, invalid(("query", "Required"))),
    ("context_search", {"query": "x" * 501}, invalid(("query", "Must be a string of 3 to 500 characters"))),
    ("context_search", {"query": None}, invalid(("query", "Must be a string of 3 to 500 characters"))),
    ("context_search", {"query": 12345}, invalid(("query", "Must be a string of 3 to 500 characters"))),
    *(
        ("context_search", {"query": "abc", "limit": bad}, invalid(("limit", "Must be an integer from 1 to 20")))
        for bad in ("5", True, 0, 21, 1.5, None, [5])
    ),
    *(
        (
            "context_search",
            {"query": "abc", "type": bad},
            invalid(("type", "Must be one of all, pattern, rule, decision, issue")),
        )
        for bad in ("session", "code", "ALL", "", None, 1)
    ),
    ("context_search", {"query": "abc", "module": 5}, invalid(("module", "Must be a string"))),
    (
        "context_search",
        {"limit": "5", "type": "x", "query": "x" * 501},
        invalid(
            ("query", "Must be a string of 3 to 500 characters"),
            ("type", "Must be one of all, pattern, rule, decision, issue"),
            ("limit", "Must be an integer from 1 to 20"),
        ),
    ),
    ("read_file", {}, invalid(("path", "Required"))),
    ("read_file", {"path": ""}, invalid(("path", "Must be a string that is not empty"))),
    ("read_file", {"path": ["x"]}, invalid(("path", "Must be a string that is not empty"))),
    ("read_file", {"path": "x", "includeDeps": "true"}, invalid(("includeDeps", "Must be true or false"))),
    ("read_file", {"path": "x", "includeDeps": 1}, invalid(("includeDeps", "Must be true or false"))),
    ("read_file", {"path": "x", "maxDepth": 2}, invalid(("maxDepth", "Must be an integer from 0 to 1"))),
    ("read_file", {"path": "x", "maxDepth": True}, invalid(("maxDepth", "Must be an integer from 0 to 1"))),
    ("grep_codebase", {}, invalid(("pattern", "Required"))),
    ("grep_codebase", {"pattern": ""}, invalid(("pattern", "Must be a string of 1 to 200 characters"))),
    ("grep_codebase", {"pattern": "x" * 201}, invalid(("pattern", "Must be a string of 1 to 200 characters"))),
    ("grep_codebase", {"pattern": "x", "limit": 101}, invalid(("limit", "Must be an integer from 1 to 100"))),
    ("grep_codebase", {"pattern": "x", "limit": "50"}, invalid(("limit", "Must be an integer from 1 to 100"))),
    ("grep_codebase", {"pattern": "x", "caseSensitive": 0}, invalid(("caseSensitive", "Must be true or false"))),
    ("grep_codebase", {"pattern": "x", "filePattern": None}, invalid(("filePattern", "Must be a string"))),
]


@pytest.mark.rule("code.contract.invalid", "code.contract.short_query", "common.values.never_coerced")
def test_wrong_arguments_are_told_one_by_one_and_never_coerced(code: Wire) -> None:
    for tool, arguments, expected in WRONG:
        assert compact(error(code, tool, **arguments)) == compact(expected), (tool, arguments)
    nul = error(code, "read_file", path="a\0b")
    assert (nul["error"], nul["path"], nul["details"][0]["path"]) == ("Invalid parameters", "a\0b", ["path"])


@pytest.mark.rule("code.contract.bounds", "common.values.code_points")
def test_the_bounds_themselves_are_taken_and_count_code_points(code: Wire) -> None:
    emoji = "\U0001f600"
    assert ok(code, "context_search", query=emoji * 3, limit=20)["totalFound"] == 0
    assert ok(code, "context_search", query=emoji * 500, limit=1)["totalFound"] == 0
    assert ok(code, "grep_codebase", pattern=emoji * 200, limit=100)["totalMatches"] == 0


@pytest.mark.rule("common.schema.extra")
def test_unknown_arguments_are_ignored(code: Wire) -> None:
    for tool, arguments in GOOD.items():
        more = json.loads(re.sub(r'"searchTime":\d+', '"searchTime":0', text(code, tool, **arguments, other=[1])))
        assert list(more) == list(ok(code, tool, **arguments))


@pytest.mark.rule("common.error.unknown_tool")
def test_an_unknown_tool_is_a_protocol_error(code: Wire) -> None:
    response = code.request("tools/call", {"name": "write_file", "arguments": {}})
    assert response["error"]["code"] == -32602


@pytest.mark.rule("common.error.no_leak")
def test_no_answer_carries_an_absolute_path(servers: Served, kind: tuple[str, str, str]) -> None:
    code = servers.wire(*kind)
    for tool, arguments in (
        *GOOD.items(),
        *(("read_file", {"path": path}) for path in ("src", "gone", ".env", "large.txt", "data.bin")),
        ("grep_codebase", {"pattern": "("}),
    ):
        assert str(servers.folder) not in json.dumps(call(code, tool, arguments))


@pytest.mark.rule("code.context.discoveries_followed")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_what_the_command_line_adds_and_removes_is_seen_by_the_next_call(servers: Served, engine: str) -> None:
    code, url, folder = servers.wire(engine, "stdio", MODERN), servers.urls[engine], servers.folder
    assert search(code, "obsidian gargoyle") == []
    words = ("discoveries", "add", "--type", "rule", "--json", "Every obsidian gargoyle is polished")
    added = json.loads(run(folder, url, *words))
    assert search(code, "obsidian gargoyle", type="rule") == [added["id"]]
    run(folder, url, "discoveries", "edit", added["id"], "--type", "issue")
    assert search(code, "obsidian gargoyle", type="rule") == []
    assert search(code, "obsidian gargoyle", type="issue") == [added["id"]]
    run(folder, url, "discoveries", "remove", added["id"])
    assert search(code, "obsidian gargoyle") == []
